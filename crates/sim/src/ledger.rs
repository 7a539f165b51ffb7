//! Where a task's time goes.

use freehold_core::units::Instant;
use freehold_scenario::results::Delays;

use crate::history::{Activity, Interval};

/// The time of one task, by what it did.
#[derive(Debug)]
pub(crate) struct Ledger {
    activity: Activity,
    /// Until when the time is accounted for.
    until: u64,
    /// Since when it does what it does.
    since: u64,
    cpu: u64,
    delays: Delays,
    history: Option<Vec<Interval>>,
}

impl Ledger {
    pub(crate) fn new(with_history: bool) -> Self {
        Self {
            activity: Activity::Asleep,
            until: 0,
            since: 0,
            cpu: 0,
            delays: Delays::default(),
            history: with_history.then(Vec::new),
        }
    }

    /// From `now` on the task does something else.
    pub(crate) fn change(&mut self, now: u64, activity: Activity) {
        if activity == self.activity {
            return;
        }
        self.catch_up(now);
        self.close_interval(now);
        self.activity = activity;
        self.since = now;
    }

    /// Accounts for the time until `now`. CPU time is what the task did with it; fault service is told apart by
    /// [`serve`](Self::serve).
    pub(crate) fn catch_up(&mut self, now: u64) {
        let time = now - self.until;
        self.until = now;
        match self.activity {
            Activity::Asleep => {}
            Activity::Ready => self.delays.cpu_wait_ns += time,
            Activity::Running { .. } => self.cpu += time,
            Activity::Spinning { .. } => {
                self.cpu += time;
                self.delays.store_wait_ns += time;
            }
            Activity::Suspended => self.delays.store_wait_ns += time,
        }
    }

    /// Of the CPU time, this much was fault service.
    pub(crate) fn serve(&mut self, time: u64) {
        self.delays.fault_service_ns += time;
    }

    pub(crate) fn cpu(&self) -> u64 {
        self.cpu
    }

    pub(crate) fn delays(&self) -> Delays {
        self.delays
    }

    /// Ends the record.
    pub(crate) fn finish(&mut self, now: u64) -> Option<Vec<Interval>> {
        self.catch_up(now);
        self.close_interval(now);
        self.history.take()
    }

    fn close_interval(&mut self, now: u64) {
        let (from, to, activity) = (Instant::new(self.since), Instant::new(now), self.activity);
        if let Some(history) = self.history.as_mut().filter(|_| from < to) {
            history.push(Interval { from, to, activity });
        }
    }
}

/// What lies between two states of the same ledger.
pub(crate) fn between(before: &Delays, after: &Delays) -> Delays {
    Delays {
        cpu_wait_ns: after.cpu_wait_ns - before.cpu_wait_ns,
        store_wait_ns: after.store_wait_ns - before.store_wait_ns,
        fault_service_ns: after.fault_service_ns - before.fault_service_ns,
        lock_wait_ns: after.lock_wait_ns - before.lock_wait_ns,
    }
}
