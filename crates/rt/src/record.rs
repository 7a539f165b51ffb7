//! The jobs of one task, written down in memory set aside before the first of them.

use std::time::Duration;

use crate::job::Job;
use crate::timing::Timing;

/// Most jobs kept one by one of a task without a period.
const BEST_EFFORT_JOBS: usize = 1 << 16;
/// Most jobs kept one by one of any task.
const MOST_JOBS: u64 = 1 << 22;

/// All jobs, or, of very many, the first; the rest is counted.
#[derive(Debug)]
pub struct Record {
    jobs: Vec<Job>,
    /// Jobs that were not kept.
    pub unkept: u64,
    /// Their largest response time.
    pub unkept_worst: Duration,
    /// Those of them that were late.
    pub unkept_late: u64,
    /// The job that was open at the end of the run, unless it was late: it is not among the jobs.
    pub open: Option<Job>,
}

impl Record {
    /// Room for the jobs of a task.
    #[must_use]
    pub fn for_timing(timing: &Timing) -> Self {
        let releases = usize::try_from(timing.releases().min(MOST_JOBS)).unwrap_or(0);
        let room = if timing.period.is_some() {
            releases + 1
        } else {
            BEST_EFFORT_JOBS
        };
        Self {
            jobs: Vec::with_capacity(room),
            unkept: 0,
            unkept_worst: Duration::ZERO,
            unkept_late: 0,
            open: None,
        }
    }

    /// Writes a job down. Never allocates.
    pub fn push(&mut self, job: Job) {
        if self.jobs.len() < self.jobs.capacity() {
            self.jobs.push(job);
            return;
        }
        self.unkept += 1;
        self.unkept_worst = self.unkept_worst.max(job.response());
        self.unkept_late += u64::from(job.late);
    }

    /// The jobs kept, in order.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }
}
