//! Best-effort tasks take turns.

use freehold_core::units::Duration;

/// How long a turn lasts while others wait.
pub const QUANTUM: Duration = Duration::from_millis(4);

/// A best-effort task's place in the queue, and what is left of its turn.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    turn: u64,
    left: u64,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Self {
            turn: 0,
            left: QUANTUM.get(),
        }
    }

    /// Goes to the end of the queue, with a whole turn.
    pub(crate) fn wake(&mut self, turn: u64) {
        *self = Self {
            turn,
            left: QUANTUM.get(),
        };
    }

    pub(crate) fn consume(&mut self, time: u64) {
        self.left = self.left.saturating_sub(time);
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    pub(crate) fn order(&self) -> u64 {
        self.turn
    }
}
