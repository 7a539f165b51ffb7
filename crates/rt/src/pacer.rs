//! The steps of a task's thread: wait for a release, end the job. [`crate::runner`] takes them for a [`Work`], programs
//! with a loop of their own take them one by one.
//!
//! [`Work`]: crate::runner::Work

use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};

use crate::job::{Course, Delays, Job, Split};
use crate::stop::StopFlag;
use crate::timing::Timing;

/// One thread's releases and the account of its jobs. Releases never skip: a late job delays the next.
///
/// ```
/// use std::time::Duration;
/// use freehold_linux::clock;
/// use freehold_rt::{job::Delays, pacer::Pacer, stop::StopFlag, timing::Timing};
///
/// let (first, period) = (clock::now(), Duration::from_millis(1));
/// let end = first.saturating_add(Duration::from_millis(3));
/// let mut pacer = Pacer::new(Timing { first, period: Some(period), deadline: Some(period), end });
/// let stop = StopFlag::new();
/// let mut jobs = 0;
/// while pacer.next(&stop, Delays::default).is_some() {
///     jobs += 1;
///     let job = pacer.end(true, &Delays::default()).expect("a job is under way");
///     assert!(job.response() >= job.cpu);
/// }
/// // Those that a late job kept from beginning.
/// pacer.judge_unstarted(&stop, |_| jobs += 1);
/// assert_eq!(jobs, 3);
/// ```
#[derive(Debug)]
pub struct Pacer {
    timing: Timing,
    number: u64,
    open: Option<Open>,
    /// The job before, and when it finished.
    previous: Option<(MonotonicTime, Course)>,
}

/// A job under way.
#[derive(Debug)]
struct Open {
    release: MonotonicTime,
    start: MonotonicTime,
    cpu: Duration,
    delays: Delays,
}

impl Pacer {
    /// Before the first release.
    #[must_use]
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            number: 0,
            open: None,
            previous: None,
        }
    }

    /// When jobs are released.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Sleeps until the next release and begins that job; its number. None when the task's time is over or the flag is
    /// raised. `delays` is what memory has cost the calling thread so far, asked when the job begins. A job that is
    /// still under way is forgotten: end it first.
    pub fn next(&mut self, stop: &StopFlag, delays: impl FnOnce() -> Delays) -> Option<u64> {
        let release = self.upcoming()?;
        stop.sleep_until(release);
        if stop.is_raised() {
            return None;
        }
        let number = self.number;
        self.number += 1;
        let (delays, cpu) = (delays(), clock::thread_cpu_time());
        self.open = Some(Open {
            release,
            start: clock::now(),
            cpu,
            delays,
        });
        Some(number)
    }

    /// Ends the job under way, if there is one; `done` is whether it ran to its end.
    pub fn end(&mut self, done: bool, delays: &Delays) -> Option<Job> {
        let finish = clock::now();
        let open = self.open.take()?;
        let (course, cpu) = self.course(&open, finish, delays);
        let Open { release, start, .. } = open;
        self.previous = Some((finish, course));
        let finished = done && finish <= self.timing.end;
        // At the end of the run an open job is late if its deadline has come; it is judged by that end.
        let judged = if finished { finish } else { finish.min(self.timing.end) };
        Some(Job {
            number: self.number.saturating_sub(1),
            release: release.as_nanos(),
            start: start.as_nanos(),
            finish: judged.as_nanos(),
            finished,
            cpu,
            split: course.first(judged.saturating_since(release)),
            late: self.is_late(release, judged, finished),
        })
    }

    /// A job that was released and has not ended, as it stands now: the one under way, or one that waits behind it.
    #[must_use]
    pub fn unfinished(&self, number: u64, delays: &Delays) -> Option<Job> {
        let now = clock::now();
        let open = self.open.as_ref()?;
        let (course, cpu) = self.course(open, now, delays);
        let under_way = number.checked_add(1)? == self.number;
        let (release, start, split, cpu) = if under_way {
            (
                open.release,
                open.start,
                course.first(now.saturating_since(open.release)),
                cpu,
            )
        } else if number >= self.number {
            let release = self.timing.release(number).filter(|&release| release <= now)?;
            let split = course.passed_on(now.saturating_since(release));
            (release, release, split, Duration::ZERO)
        } else {
            return None;
        };
        Some(Job {
            number,
            release: release.as_nanos(),
            start: start.as_nanos(),
            finish: now.as_nanos(),
            finished: false,
            cpu,
            split,
            late: self.is_late(release, now, false),
        })
    }

    /// What a job under way has come to by `now`, and its CPU time.
    fn course(&self, open: &Open, now: MonotonicTime, delays: &Delays) -> (Course, Duration) {
        let cpu = clock::thread_cpu_time().saturating_sub(open.cpu);
        let ran = now.saturating_since(open.start);
        let waited = open.start.saturating_since(open.release);
        let course = Course {
            waited,
            before: self.before_start(open.release, waited),
            ran,
            own: Split::of(ran, cpu, &delays.since(&open.delays)),
        };
        (course, cpu)
    }

    /// Jobs released while a late one ran, and never begun, are late too once their deadline has come.
    pub fn judge_unstarted(&self, stop: &StopFlag, mut late: impl FnMut(Job)) {
        let now = clock::now();
        let over = if stop.is_raised() {
            now.min(self.timing.end)
        } else {
            self.timing.end
        };
        let mut number = self.number;
        while let Some(release) = self.timing.release(number).filter(|&release| release < over) {
            if self.is_late(release, over, false) {
                let behind = over.saturating_since(release);
                let split = self
                    .previous
                    .map_or_else(Split::default, |(_, course)| course.passed_on(behind));
                let (release, finish) = (release.as_nanos(), over.as_nanos());
                late(Job {
                    number,
                    release,
                    start: release,
                    finish,
                    finished: false,
                    cpu: Duration::ZERO,
                    split,
                    late: true,
                });
            }
            number += 1;
        }
    }

    /// When the next job is released, or was; a job of a task without a period when the one before it is done. None
    /// when the task's time is over.
    #[must_use]
    pub fn upcoming(&self) -> Option<MonotonicTime> {
        let now = clock::now();
        if now >= self.timing.end {
            return None;
        }
        match self.timing.period {
            Some(_) => self.timing.release(self.number),
            None => Some(now.max(self.timing.first)).filter(|&release| release < self.timing.end),
        }
    }

    /// What the time between release and start went to. Behind a late job it is what that was delayed by.
    fn before_start(&self, release: MonotonicTime, waited: Duration) -> Split {
        let (behind, inherited) = self.previous.map_or_else(Default::default, |(finish, course)| {
            let behind = finish.saturating_since(release).min(waited);
            (behind, course.passed_on(behind))
        });
        let cpu_wait = waited.saturating_sub(behind);
        inherited.plus(&Split {
            cpu_wait,
            ..Split::default()
        })
    }

    fn is_late(&self, release: MonotonicTime, at: MonotonicTime, finished: bool) -> bool {
        let Some(deadline) = self.timing.deadline else {
            return false;
        };
        let due = release.saturating_add(deadline);
        if finished { at > due } else { at >= due }
    }
}
