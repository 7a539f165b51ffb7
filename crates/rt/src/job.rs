//! One job, and where its time went.

use std::time::Duration;

/// Time that the memory under a task has cost it so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Waiting for a store, asleep.
    pub store_wait: Duration,
    /// Waiting for a store, spinning: charged to the task's CPU time by the kernel.
    pub store_spin: Duration,
    /// CPU time spent in handling faults, spinning excluded.
    pub fault_service: Duration,
    /// Waiting for a lock, or for a page that another task brings in.
    pub lock_wait: Duration,
}

impl Delays {
    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            store_wait: self.store_wait.saturating_sub(earlier.store_wait),
            store_spin: self.store_spin.saturating_sub(earlier.store_spin),
            fault_service: self.fault_service.saturating_sub(earlier.fault_service),
            lock_wait: self.lock_wait.saturating_sub(earlier.lock_wait),
        }
    }
}

/// A job's response time by what it was spent on; the rest is the task's own computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Ready, but another task had the CPU.
    pub cpu_wait: Duration,
    /// Waiting for a store, asleep or spinning.
    pub store_wait: Duration,
    /// Handling faults.
    pub fault_service: Duration,
    /// Waiting for a lock, or for a page that another task brings in.
    pub lock_wait: Duration,
}

impl Split {
    /// Splits the time a thread took for a job: `elapsed` from start to finish, of which `cpu` on a CPU.
    #[must_use]
    pub fn of(elapsed: Duration, cpu: Duration, delays: &Delays) -> Self {
        let off_cpu = elapsed.saturating_sub(cpu);
        let store_asleep = delays.store_wait.min(off_cpu);
        let lock_wait = delays.lock_wait.min(off_cpu.saturating_sub(store_asleep));
        Self {
            cpu_wait: off_cpu.saturating_sub(store_asleep).saturating_sub(lock_wait),
            store_wait: store_asleep + delays.store_spin,
            fault_service: delays.fault_service,
            lock_wait,
        }
    }

    /// The part of this split that `part` of `whole` bears, in proportion: what a late job passes on to the next.
    #[must_use]
    pub fn share(&self, part: Duration, whole: Duration) -> Self {
        let scale = |span: Duration| {
            let nanos = span.as_nanos() * part.as_nanos() / whole.as_nanos().max(1);
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        Self {
            cpu_wait: scale(self.cpu_wait),
            store_wait: scale(self.store_wait),
            fault_service: scale(self.fault_service),
            lock_wait: scale(self.lock_wait),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            cpu_wait: self.cpu_wait + other.cpu_wait,
            store_wait: self.store_wait + other.store_wait,
            fault_service: self.fault_service + other.fault_service,
            lock_wait: self.lock_wait + other.lock_wait,
        }
    }
}

/// A job from release to finish: it waits, then it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// From release to start.
    pub waited: Duration,
    /// What that went to.
    pub before: Split,
    /// From start to finish.
    pub ran: Duration,
    /// What that went to, apart from computation.
    pub own: Split,
}

impl Course {
    /// What the last `behind` of this course went to: a job that is released that long before this one finishes is
    /// late for it. The wait before the start is passed on too, where it reaches back so far.
    ///
    /// ```
    /// use std::time::Duration;
    /// use freehold_rt::job::{Course, Split};
    ///
    /// // It waited 30 ms for a CPU, then computed 5 ms.
    /// let millis = Duration::from_millis;
    /// let before = Split { cpu_wait: millis(30), ..Split::default() };
    /// let course = Course { waited: millis(30), before, ran: millis(5), own: Split::default() };
    /// assert_eq!(course.passed_on(millis(15)).cpu_wait, millis(10));
    /// assert_eq!(course.passed_on(millis(5)).cpu_wait, millis(0));
    /// ```
    #[must_use]
    pub fn passed_on(&self, behind: Duration) -> Split {
        let running = behind.min(self.ran);
        let waiting = (behind - running).min(self.waited);
        let own = self.own.share(running, self.ran);
        own.plus(&self.before.share(waiting, self.waited))
    }

    /// What the first `part` of this course went to: the end of the run cuts off the rest.
    ///
    /// ```
    /// use std::time::Duration;
    /// use freehold_rt::job::{Course, Split};
    ///
    /// // It waited 30 ms for a CPU, then 10 ms for the store.
    /// let millis = Duration::from_millis;
    /// let before = Split { cpu_wait: millis(30), ..Split::default() };
    /// let own = Split { store_wait: millis(10), ..Split::default() };
    /// let course = Course { waited: millis(30), before, ran: millis(10), own };
    /// assert_eq!(course.first(millis(20)), Split { cpu_wait: millis(20), ..Split::default() });
    /// assert_eq!(course.first(millis(35)), Split { store_wait: millis(5), ..before });
    /// assert_eq!(course.first(millis(40)), before.plus(&own));
    /// ```
    #[must_use]
    pub fn first(&self, part: Duration) -> Split {
        let waiting = part.min(self.waited);
        let running = (part - waiting).min(self.ran);
        let before = self.before.share(waiting, self.waited);
        before.plus(&self.own.share(running, self.ran))
    }
}

/// What became of one job. Times count from the first release's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// From zero.
    pub number: u64,
    /// Nanoseconds of the monotonic clock.
    pub release: u64,
    /// When it got to run first; the release, for one that never did.
    pub start: u64,
    /// When it finished; the end of the run, for one that did not.
    pub finish: u64,
    /// Whether it ran to its end.
    pub finished: bool,
    /// CPU time of its thread.
    pub cpu: Duration,
    /// Where its response time went.
    pub split: Split,
    /// Whether it finished after its deadline, or is unfinished past it.
    pub late: bool,
}

impl Job {
    /// From release to finish.
    #[must_use]
    pub const fn response(&self) -> Duration {
        Duration::from_nanos(self.finish.saturating_sub(self.release))
    }
}
