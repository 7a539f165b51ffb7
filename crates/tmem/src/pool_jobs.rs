//! For which job threads wait in a pool, and for whom.

use crate::layout::JobCounts;
use crate::pi_word::is_thread;
use crate::pool::Pool;
use crate::sync::Ordering;
use std::time::Duration;

/// What threads have waited for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobWaits {
    /// How often.
    pub count: u32,
    /// How long, in all.
    pub blocked: Duration,
    /// The thread that one of them waits for at present.
    pub waits_for: Option<u32>,
}

impl Pool {
    /// Requests that wait now, and those whose wait is over.
    #[must_use]
    pub fn waiting(&self) -> (u32, u64) {
        let counts = &self.header().counts;
        (
            counts.waiting.load(Ordering::Relaxed),
            counts.contended.load(Ordering::Relaxed),
        )
    }

    /// What threads have waited for a job in this pool, in all, and which thread one of them waits for now. `None` for
    /// numbers that are no job's.
    #[must_use]
    pub fn waits(&self, job: u32) -> Option<JobWaits> {
        let counts = self.job_counts(job)?;
        let holder = counts.waits_for.load(Ordering::Relaxed);
        Some(JobWaits {
            count: counts.waits.load(Ordering::Relaxed),
            blocked: Duration::from_nanos(counts.blocked_nanos.load(Ordering::Relaxed)),
            // The pool's users write there: a number that is no thread's names nobody.
            waits_for: Some(holder).filter(|holder| is_thread(*holder)),
        })
    }

    /// The job for which a thread has a unit of this pool; 0 is none.
    #[must_use]
    pub fn job_of(&self, thread: u32) -> Option<u32> {
        self.units().iter().find_map(|unit| unit.job_of(thread))
    }

    pub(crate) fn job_counts(&self, job: u32) -> Option<&JobCounts> {
        self.header().jobs.get(job.checked_sub(1)? as usize)
    }
}

impl JobCounts {
    pub(crate) fn note(&self, nanos: u64) {
        self.waits_for.store(0, Ordering::Relaxed);
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.blocked_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}
