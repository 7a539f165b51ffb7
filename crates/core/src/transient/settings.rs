//! What a scheduler of transient memory is made for.

use super::Policy;
use crate::units::FrameCount;

/// A component, or one kind of unit of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComponentSpec {
    /// Frames of one unit, at least one.
    pub unit: FrameCount,
    /// Units that it always keeps, at least one: what one invocation holds at once.
    pub minimum: u32,
    /// Units that it may have.
    pub most: u32,
    /// Whether it is started again when one of its threads has held a unit past the bound of who waits for it.
    pub restarts: bool,
    /// The place of the other kind of the same component: each invocation takes a stack and a buffer.
    pub companion: Option<usize>,
}

/// How units are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Frames of all units together, at most; not below the minima.
    pub limit: FrameCount,
    /// Who gets them.
    pub policy: Policy,
    /// Runs of [`Policy::Tardiness`] after which units that nobody used go back, at most [`MOST_IDLE_RUNS`].
    pub idle_runs: u32,
}

/// The longest memory for what was used.
pub const MOST_IDLE_RUNS: usize = 16;
