//! Adaptive Page Pinning (paper 001): a pinned page pool for each soft-real-time task that has no reservation.
//!
//! Such a task's pages are on the global lists. Where reclamation would demote one from the global active list, it
//! enters the task's pool instead; what is pinned is neither unmapped nor evicted on behalf of others. How many pages a
//! pool may pin follows the task's deadlines (`algorithm1`), which of them leave again their use (`algorithm2`).
//! What swap-ins take of the task's CPU time is added to its budget (`algorithm3`).
//!
//! The three are the paper's listings, line by line. `capacity` puts bounds and the `extensions` round the first, and
//! `give_up` says when the second is run.

mod algorithm1;
mod algorithm2;
mod algorithm3;
mod capacity;
mod extensions;
mod give_up;
mod members;
mod pool;
mod settings;

pub(crate) use pool::PinnedPools;
pub use settings::{
    CapacityRule, JobReport, Judgement, PinnedPoolView, PinningPolicy, PinningSettings, Ratio, SwapBudgetRule,
    UnpinnedGoTo,
};
