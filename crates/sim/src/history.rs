//! When each task ran, waited and slept: for pictures like Figure 9 of paper 000.

use freehold_core::units::Instant;

/// What a task does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activity {
    /// No job is under way.
    #[default]
    Asleep,
    /// Ready, but another task runs, or its budget is used up.
    Ready,
    /// It runs on this CPU.
    Running {
        /// Which.
        cpu: usize,
    },
    /// It runs on this CPU, waiting for the store.
    Spinning {
        /// Which.
        cpu: usize,
    },
    /// It has suspended itself for the store.
    Suspended,
}

/// What a task did for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// From when.
    pub from: Instant,
    /// Until when, exclusive.
    pub to: Instant,
    /// What it did.
    pub activity: Activity,
}
