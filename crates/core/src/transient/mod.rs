//! Transient memory scheduling (paper 004): how many units each component ought to have.
//!
//! [`Scheduler`] is a state machine of its own. Once a period the engine tells it the units of each component and the
//! waits of each thread. It answers the units that each component ought to have, and moves none itself. `schedule.rs`
//! is Algorithm 1; `estimate.rs` is the estimate of tardiness under it. Where the paper is silent, these files fix the
//! reading and state it beside the line.

mod estimate;
mod ledger;
mod policies;
mod schedule;
mod scheduler;
mod settings;

pub use estimate::Estimates;
pub use ledger::ComponentView;
pub use policies::{Policy, share_out};
pub use schedule::Schedule;
pub use scheduler::{Scheduler, TransientEffect, TransientLaw, Usage};
pub use settings::{ComponentSpec, MOST_IDLE_RUNS, Settings};

use crate::error::errors;
use core::fmt;

/// A component, or one kind of unit of it: what the paper calls a virtual component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComponentFacts {
    /// Units that it has (a), those among them that it was asked to give back.
    pub allocated: u32,
    /// Units that its threads wanted at the same time since the last run (r).
    pub requested: u32,
    /// Units that it always keeps.
    pub minimum: u32,
    /// Units held by threads that suspend themselves (ss).
    pub suspended: u32,
    /// What was wanted in each of the last runs; 0 for those that were not.
    pub recent: [u32; MOST_IDLE_RUNS],
    /// The other kind of units of the same component: who calls takes one of both.
    pub companion: Option<usize>,
}

impl ComponentFacts {
    /// What it cannot give below: its minimum, and a unit beside those of suspended threads.
    #[must_use]
    pub(crate) fn kept(&self) -> u32 {
        let beside = if self.suspended > 0 {
            self.suspended.saturating_add(1)
        } else {
            0
        };
        self.minimum.max(beside)
    }
}

/// A move of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The component that gives; none: free units.
    pub from: Option<usize>,
    /// The component that receives.
    pub to: usize,
}

/// The most components.
pub const MOST_COMPONENTS: usize = 96;
/// The most threads.
pub const MOST_THREADS: usize = 256;
/// The most moves of one run; what is left is for the next.
pub const MOST_MOVES: usize = 32;

errors! {
    /// Why tables for a schedule cannot be made, or what it is told is not of their size.
    ScheduleError {
        /// Too many components or threads, or none.
        Limits => "a schedule is made for 1 to 96 components and 1 to 256 threads",
        /// The tables do not fit into memory.
        OutOfMemory => "no memory for the tables of the schedule",
        /// Other numbers of components or threads than it was made for.
        Shape => "facts are not of as many components and threads as the schedule was made for",
    }
}
