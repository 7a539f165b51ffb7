//! ReportedJobs of each job once: when it ends, or, unfinished, when its period does.
//!
//! All of it is done by the thread that runs the jobs, so that none can end while it is told of as unfinished. A thread
//! that has no CPU when a period ends tells of it when it runs again, and before it does anything else.

use freehold_linux::clock::{self, MonotonicTime};

use crate::job::{Delays, Job};
use crate::pacer::Pacer;
use crate::timing::Timing;

/// Which jobs were told of.
///
/// ```
/// use std::time::Duration;
/// use freehold_linux::clock;
/// use freehold_rt::{job::Delays, pacer::Pacer, stop::StopFlag, job_report::ReportedJobs, timing::Timing};
///
/// let (first, period) = (clock::now(), Duration::from_millis(1));
/// let end = first.saturating_add(Duration::from_secs(1));
/// let mut pacer = Pacer::new(Timing { first, period: Some(period), deadline: Some(period), end });
/// let (stop, mut reported) = (StopFlag::new(), ReportedJobs::default());
/// pacer.next(&stop, Delays::default);
/// std::thread::sleep(Duration::from_millis(4));
/// // The first job is under way; others wait behind it, all but the last of them for more than a period.
/// let mut unfinished = 0;
/// while let Some(job) = reported.unfinished(&pacer, &Delays::default()) {
///     assert!(job.number == unfinished && job.late && !job.finished);
///     unfinished += 1;
/// }
/// assert!(unfinished >= 4);
/// let job = pacer.end(true, &Delays::default()).expect("it is under way");
/// assert!(!reported.ended(&job), "it was told of when its period ended");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedJobs {
    /// The first job that was not told of.
    next: u64,
}

impl ReportedJobs {
    /// When the period of the first job not told of is over; never where no job follows it.
    #[must_use]
    pub fn due(&self, timing: &Timing) -> Option<MonotonicTime> {
        timing.release(self.next.checked_add(1)?)
    }

    /// The first job not told of, if its period is over and it has not ended. It counts as told of then: to be called
    /// until there is none, while a job is under way.
    pub fn unfinished(&mut self, pacer: &Pacer, delays: &Delays) -> Option<Job> {
        self.due(pacer.timing()).filter(|&due| due <= clock::now())?;
        let job = pacer.unfinished(self.next, delays)?;
        self.next += 1;
        Some(job)
    }

    /// A job has ended: whether it is to be told of. It counts as told of then.
    pub fn ended(&mut self, job: &Job) -> bool {
        let first = job.number >= self.next;
        if first {
            self.next = job.number.saturating_add(1);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stop::StopFlag;

    #[test]
    fn every_job_is_told_of_once_however_late_it_is() {
        let (first, period) = (clock::now(), Duration::from_millis(2));
        let end = first.saturating_add(period * 40);
        let mut pacer = Pacer::new(Timing {
            first,
            period: Some(period),
            deadline: Some(period),
            end,
        });
        let (stop, mut reported, mut told) = (StopFlag::new(), ReportedJobs::default(), Vec::new());
        while let Some(number) = pacer.next(&stop, Delays::default) {
            // Some are on time, some late, some so late that others wait behind them.
            std::thread::sleep(Duration::from_millis(
                [0, 3, 0, 7, 0][usize::try_from(number % 5).unwrap()],
            ));
            while let Some(job) = reported.unfinished(&pacer, &Delays::default()) {
                told.push((job.number, false));
            }
            let job = pacer.end(true, &Delays::default()).unwrap();
            if reported.ended(&job) {
                told.push((job.number, true));
            }
        }
        let numbers: Vec<u64> = told.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (0..told.len() as u64).collect::<Vec<_>>(), "{told:?}");
        assert!(
            told.iter().any(|(_, ended)| *ended) && told.iter().any(|(_, ended)| !*ended),
            "{told:?}"
        );
    }
}
