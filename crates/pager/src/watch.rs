//! A coordinator's view of tasks that wait, for tests in lockstep.

use freehold_core::id::TaskId;
use std::fmt;

/// Is told when tasks wait for transfers, in [`Pace::Manual`](crate::Pace::Manual).
///
/// Called in the signal handler of the task's thread: implementations must be async-signal-safe, so atomics and futexes
/// only.
pub trait Watch: Send + Sync + fmt::Debug {
    /// The task waits, until a completion answers its fault.
    fn blocked(&self, task: TaskId);
    /// The fault of the task in this slot ([`TaskId::index`]) is answered; it has been woken, and may have resumed
    /// already. Called in the thread that answers, before anything is unmapped that was decided with the answer.
    fn answered(&self, slot: usize);
    /// The task has taken its answer and is about to carry it out. A test may hold it here, as preemption would.
    fn carrying_out(&self, _task: TaskId) {}
    /// The task has carried out its answer and is about to go on; with `failed`, its access ends with an error.
    fn resumed(&self, task: TaskId, failed: bool);
}
