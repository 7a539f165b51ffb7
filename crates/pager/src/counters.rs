//! What is counted while the pager works: relaxed atomics, read for reports.

use crate::report::{Broken, TaskTimes};
use freehold_core::units::Duration;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn raise(&self, value: u64) {
        if value > self.0.load(Ordering::Relaxed) {
            self.0.fetch_max(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Of one task.
#[derive(Debug, Default)]
pub(crate) struct TaskCounters {
    pub(crate) faults: Counter,
    pub(crate) service: Counter,
    pub(crate) longest_service: Counter,
    pub(crate) slept: Counter,
    pub(crate) spun: Counter,
    pub(crate) resumed_late: Counter,
    pub(crate) lock_wait: Counter,
    pub(crate) epoch_retries: Counter,
    pub(crate) mapped_already: Counter,
    pub(crate) failures: Counter,
    pub(crate) unattributed: Counter,
    pub(crate) swap_ins: Counter,
    pub(crate) swap_cpu: Counter,
    pub(crate) swap_elapsed: Counter,
}

impl TaskCounters {
    /// All time spent waiting in faults, except for the core's lock.
    pub(crate) fn waited(&self) -> u64 {
        self.slept.get() + self.spun.get() + self.resumed_late.get()
    }

    pub(crate) fn times(&self) -> TaskTimes {
        TaskTimes {
            faults: self.faults.get(),
            fault_service: Duration::new(self.service.get()),
            longest_service: Duration::new(self.longest_service.get()),
            store_slept: Duration::new(self.slept.get()),
            store_spun: Duration::new(self.spun.get()),
            resumed_late: Duration::new(self.resumed_late.get()),
            lock_wait: Duration::new(self.lock_wait.get()),
            epoch_retries: self.epoch_retries.get(),
            mapped_already: self.mapped_already.get(),
            failures: self.failures.get(),
            unattributed: self.unattributed.get(),
            swap_ins: self.swap_ins.get(),
            swap_cpu: Duration::new(self.swap_cpu.get()),
            swap_elapsed: Duration::new(self.swap_elapsed.get()),
        }
    }
}

/// Of the pager as a whole.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) core_locks: Counter,
    pub(crate) longest_hold: Counter,
    pub(crate) longest_wait: Counter,
    pub(crate) zap_calls: Counter,
    pub(crate) pages_zapped: Counter,
    pub(crate) punch_calls: Counter,
    pub(crate) pages_punched: Counter,
    pub(crate) overlong_drains: Counter,
    pub(crate) unattributed_timeouts: Counter,
    broken: Counter,
    first_broken: AtomicU8,
}

impl Counters {
    /// Notes that the kernel's state and the books disagree.
    pub(crate) fn note_broken(&self, what: Broken) {
        self.broken.add(1);
        // Failure: an earlier one is kept.
        let _ = self
            .first_broken
            .compare_exchange(0, what.code(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// How often, and what was first.
    pub(crate) fn broken(&self) -> (u64, Option<Broken>) {
        let first = Broken::from_code(self.first_broken.load(Ordering::Relaxed));
        (self.broken.get(), first)
    }
}
