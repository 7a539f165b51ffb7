//! The jobs of one task, written down in memory set aside before the first of them.

use std::time::Duration;

use crate::job::{Job, Split};
use crate::timing::Timing;

/// Most jobs kept one by one of a task without a period.
const BEST_EFFORT_JOBS: usize = 1 << 16;
/// Most jobs whose memory is there before the first of them: a write to memory that is not would be a page fault
/// between two jobs.
const BROUGHT_IN: usize = 1 << 16;
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
            jobs: resident_room(room),
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

/// Room for so many jobs; the memory of the first [`BROUGHT_IN`] is there.
fn resident_room(room: usize) -> Vec<Job> {
    let nothing = Job {
        number: u64::MAX,
        release: 0,
        start: 0,
        finish: 0,
        finished: false,
        cpu: Duration::ZERO,
        split: Split::default(),
        late: false,
    };
    let mut jobs = Vec::with_capacity(room);
    jobs.resize(room.min(BROUGHT_IN), nothing);
    // The compiler must not leave out what nobody reads.
    std::hint::black_box(&mut jobs).clear();
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_linux::clock::MonotonicTime;
    use freehold_linux::faults;

    #[test]
    fn writing_jobs_down_brings_no_page_in() {
        let timing = Timing {
            first: MonotonicTime::from_nanos(0),
            period: Some(Duration::from_millis(1)),
            deadline: None,
            end: MonotonicTime::from_nanos(20_000_000_000),
        };
        let mut record = Record::for_timing(&timing);
        let job = Job {
            number: 1,
            release: 0,
            start: 1,
            finish: 2,
            finished: true,
            cpu: Duration::ZERO,
            split: Split::default(),
            late: false,
        };
        record.push(job);
        let before = faults::of_this_thread();
        (1..20_000).for_each(|_| record.push(std::hint::black_box(job)));
        assert_eq!(faults::of_this_thread(), before);
        assert_eq!((record.jobs().len(), record.unkept), (20_000, 0));
    }
}
