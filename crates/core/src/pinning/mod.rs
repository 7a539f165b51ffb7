//! Adaptive Page Pinning (paper 001): a pinned page pool for each soft-real-time task that has no reservation.
//!
//! Such a task's pages are on the global lists. Where reclamation would demote one from the global active list, it
//! enters the task's pool instead; what is pinned is neither unmapped nor evicted on behalf of others. How many pages a
//! pool may pin follows the task's deadlines (`capacity`), which of them leave again their use (`unpin`).

mod capacity;
mod members;
mod pool;
mod restore;
mod settings;
mod steady;
mod successors;
mod trial;
mod unpin;

pub(crate) use pool::PinnedPools;
pub use settings::{
    CapacityRule, JobReport, Judgement, PinnedPoolView, PinningPolicy, PinningSettings, Ratio, SwapBudgetRule,
    UnpinnedGoTo,
};
