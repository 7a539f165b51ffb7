//! Fixed priorities, preemptive; among equals first come, first served (`SCHED_FIFO`).

/// A fifo task in the queue of its priority.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    below_top: u8,
    turn: u64,
}

impl Queued {
    /// `priority` 1..=99, larger first.
    pub(crate) fn new(priority: u8) -> Self {
        Self {
            below_top: u8::MAX - priority,
            turn: 0,
        }
    }

    /// Goes to the end of its queue. A task that is preempted keeps its place.
    pub(crate) fn wake(&mut self, turn: u64) {
        self.turn = turn;
    }

    pub(crate) fn order(&self) -> (u64, u64) {
        (u64::from(self.below_top), self.turn)
    }
}
