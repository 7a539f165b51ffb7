//! The loop of a task's thread.

use std::ops::ControlFlow;
use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};

use crate::job::{Course, Delays, Job, Split};
use crate::record::Record;
use crate::stop::StopFlag;
use crate::timing::Timing;

/// What a task does.
pub trait Work {
    /// One job. It looks at the stop flag now and then, and breaks off when that is raised.
    fn job(&mut self, number: u64) -> ControlFlow<()>;

    /// What memory has cost the calling thread so far.
    fn delays(&self) -> Delays;

    /// The job is over and written down; what can be done before the next release is done here.
    fn rest(&mut self) {}
}

/// Does a task's jobs on the calling thread, which has its class already, until its time is over or the flag is
/// raised, and writes each down.
pub fn run(timing: &Timing, stop: &StopFlag, work: &mut impl Work, record: &mut Record) {
    let mut thread = Thread {
        timing,
        stop,
        previous: None,
    };
    let mut number = 0;
    while let Some(release) = thread.next_release(number) {
        stop.sleep_until(release);
        if stop.is_raised() {
            break;
        }
        let flow = thread.do_job(number, release, work, record);
        number += 1;
        if flow.is_break() {
            break;
        }
        work.rest();
    }
    thread.judge_unstarted(number, record);
}

struct Thread<'a> {
    timing: &'a Timing,
    stop: &'a StopFlag,
    /// The job before, and when it finished.
    previous: Option<(MonotonicTime, Course)>,
}

impl Thread<'_> {
    /// When the next job is released; a job of a task without a period when the one before it is done.
    fn next_release(&self, number: u64) -> Option<MonotonicTime> {
        let now = clock::now();
        if now >= self.timing.end {
            return None;
        }
        match self.timing.period {
            Some(_) => self.timing.release(number),
            None => Some(now.max(self.timing.first)).filter(|&release| release < self.timing.end),
        }
    }

    fn do_job(
        &mut self,
        number: u64,
        release: MonotonicTime,
        work: &mut impl Work,
        record: &mut Record,
    ) -> ControlFlow<()> {
        let (delays_before, cpu_before) = (work.delays(), clock::thread_cpu_time());
        let start = clock::now();
        let flow = work.job(number);
        let finish = clock::now();
        let cpu = clock::thread_cpu_time().saturating_sub(cpu_before);
        let ran = finish.saturating_since(start);
        let own = Split::of(ran, cpu, &work.delays().since(&delays_before));
        let waited = start.saturating_since(release);
        let before = self.before_start(release, waited);
        let course = Course {
            waited,
            before,
            ran,
            own,
        };
        self.previous = Some((finish, course));
        let finished = flow.is_continue() && finish <= self.timing.end;
        // At the end of the run an open job is late if its deadline has come; it is judged by that end.
        let judged = if finished { finish } else { finish.min(self.timing.end) };
        let late = self.is_late(release, judged, finished);
        let split = course.first(judged.saturating_since(release));
        let job = Job {
            number,
            release: release.as_nanos(),
            start: start.as_nanos(),
            finish: judged.as_nanos(),
            finished,
            cpu,
            split,
            late,
        };
        if finished || late {
            record.push(job);
        } else {
            record.open = Some(job);
        }
        flow
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

    /// Jobs released while a late one ran, and never begun, are late too once their deadline has come.
    fn judge_unstarted(&self, mut number: u64, record: &mut Record) {
        let now = clock::now();
        let over = if self.stop.is_raised() {
            now.min(self.timing.end)
        } else {
            self.timing.end
        };
        while let Some(release) = self.timing.release(number).filter(|&release| release < over) {
            if self.is_late(release, over, false) {
                let behind = over.saturating_since(release);
                let split = self
                    .previous
                    .map_or_else(Split::default, |(_, course)| course.passed_on(behind));
                let (release, finish) = (release.as_nanos(), over.as_nanos());
                let (start, cpu) = (release, Duration::ZERO);
                record.push(Job {
                    number,
                    release,
                    start,
                    finish,
                    finished: false,
                    cpu,
                    split,
                    late: true,
                });
            }
            number += 1;
        }
    }
}
