//! Components in virtual time (paper 004, section VI): threads that call from component to component, wait for units of
//! small caches with or without priority inheritance, and the policy of the core that moves units.
//!
//! One CPU, fixed priorities, preemptive. A job enters a component, takes a stack and a buffer there, works, and calls
//! the next below; it releases both when that call has returned. A request that finds no unit free waits for the one
//! that has been in use longest. A release hands the unit to the most urgent waiter, the first of equals, as the
//! kernel does for a PI futex; with inheritance a holder is as urgent as the most urgent that waits for it, directly or
//! not. Calls, switches and the policy's own work cost nothing. The policy is the core's state machine, as in a
//! composition that runs: nothing of it is written twice.

mod model;
mod report;
mod run;
mod scenario;
mod task_set;
mod threads;
mod units;
mod walk;

pub use model::{ComponentModel, KindModel, Model, ThreadModel};
pub use report::{ComponentReport, Second, Step, ThreadReport, TransientOutcome, WaitReport};
pub use run::{TransientOptions, simulate_components};
pub(crate) use scenario::simulate;
pub use scenario::{model_of, options_of, result_of};
pub use task_set::{best_effort, figure_8, task_set};
pub use walk::{Walk, part};
