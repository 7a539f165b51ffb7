//! Late jobs: what delayed them.

use freehold_core::units::Duration;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How many late jobs of a task are listed.
pub const MAX_LATE_JOBS: usize = 64;

/// What a late job mostly waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Ready, but another task ran.
    CpuWait,
    /// Waiting for a page from or to the store.
    StoreWait,
    /// Servicing its own faults.
    FaultService,
    /// Waiting for the core's lock.
    LockWait,
    /// Computing: the job alone takes longer than its deadline.
    OwnComputation,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CpuWait => "CPU wait",
            Self::StoreWait => "store wait",
            Self::FaultService => "fault service",
            Self::LockWait => "lock wait",
            Self::OwnComputation => "own computation",
        })
    }
}

/// A response time split by cause. What the four waits leave of a response is the job's own computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// Ready, but another task ran.
    pub cpu_wait_ns: u64,
    /// Waiting for the store.
    pub store_wait_ns: u64,
    /// Servicing its own faults.
    pub fault_service_ns: u64,
    /// Waiting for the core's lock.
    pub lock_wait_ns: u64,
}

impl Delays {
    /// Store wait, fault service and lock wait together.
    #[must_use]
    pub fn memory_ns(&self) -> u64 {
        self.store_wait_ns
            .saturating_add(self.fault_service_ns)
            .saturating_add(self.lock_wait_ns)
    }

    /// What the delays leave of a response time.
    #[must_use]
    pub fn own_computation_ns(&self, response_ns: u64) -> u64 {
        response_ns.saturating_sub(self.memory_ns().saturating_add(self.cpu_wait_ns))
    }

    /// The largest share of a response time; of equal shares the first in the order of [`Reason`]. Without any memory
    /// delay it is CPU wait, if there was any.
    #[must_use]
    pub fn reason(&self, response_ns: u64) -> Reason {
        if self.memory_ns() == 0 && self.cpu_wait_ns > 0 {
            return Reason::CpuWait;
        }
        let shares = self.shares(response_ns);
        let largest = shares.iter().map(|(_, share)| *share).max();
        let found = shares.iter().find(|(_, share)| Some(*share) == largest);
        found.map_or(Reason::OwnComputation, |(reason, _)| *reason)
    }

    /// Every cause with its share of a response time.
    #[must_use]
    pub fn shares(&self, response_ns: u64) -> [(Reason, u64); 5] {
        [
            (Reason::CpuWait, self.cpu_wait_ns),
            (Reason::StoreWait, self.store_wait_ns),
            (Reason::FaultService, self.fault_service_ns),
            (Reason::LockWait, self.lock_wait_ns),
            (Reason::OwnComputation, self.own_computation_ns(response_ns)),
        ]
    }

    fn add(&mut self, other: &Self) {
        self.cpu_wait_ns = self.cpu_wait_ns.saturating_add(other.cpu_wait_ns);
        self.store_wait_ns = self.store_wait_ns.saturating_add(other.store_wait_ns);
        self.fault_service_ns = self.fault_service_ns.saturating_add(other.fault_service_ns);
        self.lock_wait_ns = self.lock_wait_ns.saturating_add(other.lock_wait_ns);
    }
}

/// One job that missed its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateJob {
    /// The job's number, from 0.
    pub job: u64,
    /// When it was released, since the start of the run.
    pub release_ns: u64,
    /// From release to end, or to the end of the run where it was not finished.
    pub response_ns: u64,
    /// By how much it was late.
    pub tardiness_ns: u64,
    /// Where the response time went.
    #[serde(flatten)]
    pub delays: Delays,
    /// The largest share.
    pub reason: Reason,
}

impl LateJob {
    /// A late job, its reason worked out.
    #[must_use]
    pub fn new(job: u64, release_ns: u64, response: Duration, tardiness: Duration, delays: Delays) -> Self {
        let (response_ns, tardiness_ns) = (response.get(), tardiness.get());
        Self {
            job,
            release_ns,
            response_ns,
            tardiness_ns,
            delays,
            reason: delays.reason(response_ns),
        }
    }
}

/// The late jobs of one task: the first [`MAX_LATE_JOBS`], and of all of them the number, the worst and the sums.
/// Allocates at construction only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateJobs {
    /// The first late jobs.
    pub first: Vec<LateJob>,
    /// How many there were.
    pub total: u64,
    /// The one with the largest tardiness; the first of equals.
    pub worst: Option<LateJob>,
    /// Delays of all of them together.
    pub delays: Delays,
    /// Response times of all of them together.
    pub response_ns: u64,
}

impl LateJobs {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            first: Vec::with_capacity(MAX_LATE_JOBS),
            ..Self::default()
        }
    }

    /// Notes one late job.
    pub fn record(&mut self, job: LateJob) {
        if self.first.len() < MAX_LATE_JOBS {
            self.first.push(job);
        }
        self.total = self.total.saturating_add(1);
        self.delays.add(&job.delays);
        self.response_ns = self.response_ns.saturating_add(job.response_ns);
        if self.worst.is_none_or(|worst| job.tardiness_ns > worst.tardiness_ns) {
            self.worst = Some(job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(job: u64, tardiness: u64, delays: Delays) -> LateJob {
        LateJob::new(job, 0, Duration::new(100), Duration::new(tardiness), delays)
    }

    #[test]
    fn the_reason_is_the_largest_share() {
        let split = |cpu, store, fault, lock| Delays {
            cpu_wait_ns: cpu,
            store_wait_ns: store,
            fault_service_ns: fault,
            lock_wait_ns: lock,
        };
        let cases = [
            (split(10, 60, 20, 0), Reason::StoreWait),
            (split(10, 0, 50, 0), Reason::FaultService),
            (split(0, 0, 0, 90), Reason::LockWait),
            (split(0, 10, 10, 10), Reason::OwnComputation),
            (split(45, 10, 0, 0), Reason::CpuWait),
            // No memory delay: CPU wait, although the computation is larger.
            (split(10, 0, 0, 0), Reason::CpuWait),
            (split(0, 0, 0, 0), Reason::OwnComputation),
        ];
        for (delays, reason) in cases {
            assert_eq!(delays.reason(100), reason, "{delays:?}");
        }
    }

    #[test]
    fn the_list_is_bounded_and_the_worst_is_kept() {
        let mut jobs = LateJobs::new();
        for job in 0..200 {
            jobs.record(late(
                job,
                if job == 150 { 9 } else { 1 },
                Delays {
                    store_wait_ns: 2,
                    ..Delays::default()
                },
            ));
        }
        assert_eq!((jobs.first.len(), jobs.total), (MAX_LATE_JOBS, 200));
        assert_eq!(jobs.worst.map(|job| job.job), Some(150));
        assert_eq!((jobs.delays.store_wait_ns, jobs.response_ns), (400, 20_000));
    }
}
