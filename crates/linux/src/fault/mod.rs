//! The process's SIGBUS handler, and stacks for it to run on.
//!
//! With [`Features::SIGBUS`](crate::userfault::Features::SIGBUS) a fault in a registered range raises SIGBUS in the
//! faulting thread. [`install`] gives the faults to a hook. An access of [`access`] that the hook does not help, or
//! whose page is poisoned, ends with an error; every other such fault goes to whoever handled SIGBUS before.
//!
//! A fault while SIGBUS is blocked kills the process: threads that touch managed memory must not block it.

pub mod access;
mod handler;
mod stack;

pub use handler::{InstallError, Installed, install};
pub use stack::{AlternateStack, StackError};

/// A page fault, as the processor reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultInfo {
    /// The address accessed (CR2).
    pub address: usize,
    /// The access was a write.
    pub write: bool,
    /// The page was mapped and forbade the access: in registered memory, a write-protect fault. Otherwise the page was
    /// not mapped: missing and minor look alike.
    pub protection: bool,
    /// The address of the instruction that made the access.
    pub instruction: usize,
}

/// What a hook did with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// The page is there: repeat the access.
    Yes,
    /// The page cannot be had, and the code that made the access was written to expect that: go on at this address
    /// instead. The registers are left as they were at the fault, so only code whose every instruction allows that may
    /// be redirected: an exception table, as kernels have for their accesses to user memory.
    ResumeAt(usize),
    /// Not a fault of ours, or one that cannot be resolved: give it to the previous handler.
    No,
}

/// What is called on a fault, in a signal handler of the faulting thread: it must be async-signal-safe, and must not
/// panic (the process would abort).
pub type Hook = fn(FaultInfo) -> Handled;
