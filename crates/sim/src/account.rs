//! What becomes of a task's jobs.

use std::collections::VecDeque;

use freehold_core::units::Duration;
use freehold_scenario::results::{Delays, LateJob, LateJobs, ResponseRecorder, TaskResult};

use crate::ledger::{Ledger, between};

/// A job that was released and has not ended.
#[derive(Clone, Copy, Debug)]
struct Release {
    at: u64,
    /// The task's delays by then.
    delays: Delays,
}

/// The jobs of one task.
#[derive(Debug)]
pub(crate) struct Account {
    deadline: Option<u64>,
    open: VecDeque<Release>,
    /// Jobs that count: ended, or past their deadline.
    jobs: u64,
    misses: u64,
    max_tardiness: u64,
    late: LateJobs,
    responses: ResponseRecorder,
    /// Accesses that ended with an error.
    pub(crate) errors: u64,
    pub(crate) ledger: Ledger,
}

impl Account {
    pub(crate) fn new(deadline: Option<u64>, with_history: bool) -> Self {
        Self {
            deadline,
            open: VecDeque::new(),
            jobs: 0,
            misses: 0,
            max_tardiness: 0,
            late: LateJobs::new(),
            responses: ResponseRecorder::new(),
            errors: 0,
            ledger: Ledger::new(with_history),
        }
    }

    /// A job is released. It begins once all before it have ended.
    pub(crate) fn release(&mut self, now: u64) {
        self.ledger.catch_up(now);
        self.open.push_back(Release {
            at: now,
            delays: self.ledger.delays(),
        });
    }

    /// Jobs released and not ended.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// The oldest open job has ended.
    pub(crate) fn end_job(&mut self, now: u64) {
        self.ledger.catch_up(now);
        let Some(release) = self.open.pop_front() else { return };
        self.responses.record(Duration::new(now - release.at));
        if self
            .deadline
            .is_some_and(|deadline| now > release.at.saturating_add(deadline))
        {
            self.miss(now, release);
        }
        self.jobs += 1;
    }

    /// The run is over. Open jobs whose deadline has come can only be late.
    pub(crate) fn close(&mut self, end: u64) {
        self.ledger.catch_up(end);
        while let Some(release) = self.open.pop_front() {
            if self
                .deadline
                .is_some_and(|deadline| end >= release.at.saturating_add(deadline))
            {
                self.miss(end, release);
                self.jobs += 1;
            }
        }
    }

    fn miss(&mut self, now: u64, release: Release) {
        let response = now - release.at;
        let tardiness = response.saturating_sub(self.deadline.unwrap_or(u64::MAX));
        self.misses += 1;
        self.max_tardiness = self.max_tardiness.max(tardiness);
        let delays = between(&release.delays, &self.ledger.delays());
        let (response, tardiness) = (Duration::new(response), Duration::new(tardiness));
        self.late
            .record(LateJob::new(self.jobs, release.at, response, tardiness, delays));
    }

    /// Fills in what this account knows.
    pub(crate) fn report(self, result: &mut TaskResult) {
        let delays = self.ledger.delays();
        result.jobs = self.jobs;
        result.misses = self.misses;
        result.max_tardiness_ns = self.max_tardiness;
        result.response_ns = self.responses.response();
        result.cpu_ns = self.ledger.cpu();
        result.cpu_wait_ns = delays.cpu_wait_ns;
        result.store_wait_ns = delays.store_wait_ns;
        result.fault_service_ns = delays.fault_service_ns;
        result.lock_wait_ns = delays.lock_wait_ns;
        result.set_late_jobs(self.late);
    }

    /// Jobs ended so far; to be asked before [`close`](Self::close).
    pub(crate) fn ended(&self) -> u64 {
        self.jobs
    }
}
