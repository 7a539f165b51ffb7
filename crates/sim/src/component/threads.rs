//! Threads and their jobs.

use super::model::ThreadModel;

/// A unit that a job has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// The cache.
    pub(super) cache: usize,
    pub(super) unit: usize,
}

/// What a job does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Take a unit of the component that it is entering.
    Take { component: usize, kind: usize },
    /// Work there.
    Work { component: usize },
    /// Release what it took last; the job ends with nothing left.
    Release,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) model: ThreadModel,
    /// The release of its present or next job.
    pub(super) release: u64,
    pub(super) next: Option<Next>,
    /// CPU time until that is done.
    pub(super) step: u64,
    /// CPU time of the job that is left after the step.
    pub(super) left: u64,
    pub(super) held: Vec<Held>,
    /// The unit that it waits for, and since when.
    pub(super) waits: Option<(Held, u64)>,
    /// The effective priority.
    pub(super) rank: u32,
    /// When it became ready with this rank, in order.
    pub(super) order: u64,
}

impl Thread {
    pub(super) fn new(model: ThreadModel) -> Self {
        Self {
            release: model.active.0,
            rank: model.priority,
            next: None,
            step: 0,
            left: 0,
            held: Vec::new(),
            waits: None,
            order: 0,
            model,
        }
    }

    /// Whether it could run.
    pub(super) fn is_ready(&self) -> bool {
        self.next.is_some() && self.waits.is_none()
    }

    /// A job is due that has not begun.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.next.is_none() && self.release <= now && self.release < self.model.active.1
    }

    /// When that will be.
    pub(super) fn next_release(&self) -> Option<u64> {
        let idle = self.next.is_none() && self.release < self.model.active.1;
        idle.then_some(self.release)
    }

    /// Ends the job; how late it was, negative where early.
    pub(super) fn end_job(&mut self, now: u64) -> i64 {
        self.next = None;
        let deadline = self.release + self.model.deadline;
        self.release += self.model.period;
        if self.model.skips && self.release < now {
            let missed = (now - self.release).div_ceil(self.model.period);
            self.release += missed * self.model.period;
        }
        signed(now) - signed(deadline)
    }
}

pub(super) fn signed(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}
