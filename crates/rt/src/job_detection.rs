//! The jobs of a thread that knows nothing of them, found from when it runs, waits and blocks.
//!
//! A job begins at its *release*, the first wake-up in a period after the thread has blocked, and ends at the first
//! voluntary block after that. Waiting for a page is no voluntary block: it lies between the beginning and the end of
//! a page fault. Nor is a wait that no signal ends, for a disk, or in an `munmap` of managed memory for the server; nor
//! one for the server's agent in the process, in an `mmap` for one. The next period begins a period after the release;
//! a wake-up that comes up to an eighth of a period early counts as its release, for programs whose own clock is a
//! little faster. A job that runs into later periods is late; the first wake-up after its block is then a release at
//! once, for its period has had none.

use std::time::Duration;

use freehold_linux::sched_events::{Happening, Record};

/// One job, in nanoseconds of CLOCK_MONOTONIC. `finish - release = cpu + cpu_wait + fault_wait + call_wait`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetectedJob {
    /// When it was woken up, or first ran where wake-ups are not recorded.
    pub release: u64,
    /// When it first ran.
    pub start: u64,
    /// The first voluntary block; `None` if the thread ended in the job.
    pub finish: Option<u64>,
    /// CPU time (Q).
    pub cpu: u64,
    /// Able to run, and not running: others were preferred, or the budget was used up.
    pub cpu_wait: u64,
    /// Blocked in page faults: the store, the fault's service, and locks of the address space.
    pub fault_wait: u64,
    /// How often it blocked in a page fault.
    pub fault_waits: u64,
    /// Blocked in system calls where no signal interrupts, or until the agent of the memory server had answered.
    pub call_wait: u64,
    /// Of `cpu`, what it ran in page faults in which it blocked: their begin and their end. Known once the fault is
    /// over.
    pub fault_cpu: u64,
    /// CPU time in the same period after the job's end.
    pub cpu_after: u64,
    /// Periods that the job touched; 1 where it kept its deadline.
    pub periods: u64,
    /// Whether it finished after release and period, or never.
    pub late: bool,
}

impl DetectedJob {
    /// From release to finish, or to the end of what is known.
    #[must_use]
    pub fn response(&self) -> u64 {
        self.cpu + self.cpu_wait + self.fault_wait + self.call_wait
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Blocked,
    /// Able to run.
    Ready,
    Running,
    /// Blocked in a page fault.
    Fault,
    /// Blocked in a system call, where no signal interrupts or for the agent.
    Call,
}

/// Makes jobs of records.
#[derive(Debug)]
pub struct JobDetector {
    period: u64,
    state: State,
    since: u64,
    fault: bool,
    /// The next block is one of a system call that ends no job.
    call: bool,
    /// What it has run in the fault under way, and whether it has blocked there.
    in_fault: (u64, bool),
    /// The job whose period it is, and whether it goes on.
    job: Option<(DetectedJob, bool)>,
    /// Before this, a wake-up is of the same period.
    next: u64,
}

impl JobDetector {
    /// An observer of a thread that does a job in each `period`. What was begun when the first record comes is no job.
    #[must_use]
    pub fn new(period: Duration) -> Self {
        Self {
            period: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1),
            state: State::Ready,
            since: 0,
            fault: false,
            call: false,
            in_fault: (0, false),
            job: None,
            next: 0,
        }
    }

    /// Takes one record; the job that is complete by it. A job is complete when the next one is released, because only
    /// then it is known what the thread did after it. Allocates nothing.
    pub fn record(&mut self, record: &Record) -> Option<DetectedJob> {
        let time = record.time.as_nanos().max(self.since);
        self.account(time);
        let call = self.take_call(record.what);
        match (record.what, self.state) {
            (Happening::Deep | Happening::Asking, _) => self.call = true,
            (Happening::FaultBegun, _) => {
                self.fault = true;
                self.in_fault = (0, false);
            }
            (Happening::FaultEnded, _) => {
                self.fault = false;
                let (ran, blocked) = std::mem::take(&mut self.in_fault);
                if let Some((job, true)) = &mut self.job
                    && blocked
                {
                    job.fault_cpu += ran;
                }
            }
            (Happening::Woken, State::Fault | State::Call) | (Happening::Preempted, _) => self.state = State::Ready,
            (Happening::Woken, State::Blocked) => {
                self.state = State::Ready;
                return self.release(time);
            }
            (Happening::Woken, State::Ready | State::Running) => {}
            (Happening::On, before) => {
                self.state = State::Running;
                let over = if before == State::Blocked {
                    self.release(time)
                } else {
                    None
                };
                if let Some((job, true)) = &mut self.job
                    && job.start == 0
                {
                    job.start = time;
                }
                return over;
            }
            (Happening::Blocked, _) if self.fault => {
                self.state = State::Fault;
                self.in_fault.1 = true;
                if let Some((job, true)) = &mut self.job {
                    job.fault_waits += 1;
                }
            }
            (Happening::Blocked, _) if call => self.state = State::Call,
            (Happening::Blocked, _) => {
                self.state = State::Blocked;
                self.finish(time);
            }
            (Happening::Lost, _) => return self.begin_anew(),
        }
        None
    }

    /// Whether what happens is the block that was told before. Others' records may come in between: a wake-up, by who
    /// was faster than the block.
    fn take_call(&mut self, what: Happening) -> bool {
        use Happening::{Blocked, Lost, On, Preempted};
        matches!(what, Blocked | Lost | On | Preempted) && std::mem::take(&mut self.call)
    }

    /// Records were lost: the job that is open has no end that could be known, and what comes first is no release.
    fn begin_anew(&mut self) -> Option<DetectedJob> {
        self.state = State::Ready;
        self.fault = false;
        self.in_fault = (0, false);
        self.next = 0;
        let (job, open) = self.job.take()?;
        (!open).then_some(job)
    }

    /// The job that was open, or whose period it was, when the thread ended.
    #[must_use]
    pub fn end(mut self, time: u64) -> Option<DetectedJob> {
        self.account(time.max(self.since));
        let (mut job, open) = self.job?;
        if open {
            job.periods = job.response() / self.period + 1;
            job.late = job.periods > 1;
        }
        Some(job)
    }

    /// The job that has finished and is not yet complete: for who must know of it before the next one.
    #[must_use]
    pub fn finished(&self) -> Option<&DetectedJob> {
        self.job.as_ref().filter(|(_, open)| !open).map(|(job, _)| job)
    }

    fn account(&mut self, time: u64) {
        let span = time - self.since;
        self.since = time;
        if self.fault && self.state == State::Running {
            self.in_fault.0 += span;
        }
        match (&mut self.job, self.state) {
            (Some((job, true)), State::Running) => job.cpu += span,
            (Some((job, true)), State::Ready) => job.cpu_wait += span,
            (Some((job, true)), State::Fault) => job.fault_wait += span,
            (Some((job, true)), State::Call) => job.call_wait += span,
            (Some((job, false)), State::Running) => job.cpu_after += span,
            _ => {}
        }
    }

    fn release(&mut self, time: u64) -> Option<DetectedJob> {
        if time < self.next {
            return None;
        }
        let over = self.job.take().map(|(job, _)| job);
        let job = DetectedJob {
            release: time,
            ..DetectedJob::default()
        };
        self.job = Some((job, true));
        self.next = time.saturating_add(self.period - self.period / 8);
        over
    }

    fn finish(&mut self, time: u64) {
        let Some((job, open)) = &mut self.job else {
            return;
        };
        if !*open {
            return;
        }
        *open = false;
        job.finish = Some(time);
        // A job that finishes exactly at its deadline is in time.
        job.periods = (time - job.release).saturating_sub(1) / self.period + 1;
        job.late = job.periods > 1;
        if job.late {
            self.next = time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_linux::clock::MonotonicTime;

    const PERIOD: Duration = Duration::from_nanos(1000);

    fn jobs(records: &[(u64, Happening)], end: u64) -> Vec<DetectedJob> {
        let mut observer = JobDetector::new(PERIOD);
        let mut jobs: Vec<DetectedJob> = records
            .iter()
            .filter_map(|(time, what)| {
                observer.record(&Record {
                    time: MonotonicTime::from_nanos(*time),
                    what: *what,
                })
            })
            .collect();
        jobs.extend(observer.end(end));
        for job in &jobs {
            if let Some(finish) = job.finish {
                assert_eq!(finish - job.release, job.response());
            }
        }
        jobs
    }

    use Happening::{Asking, Blocked, Deep, FaultBegun, FaultEnded, Lost, On, Preempted, Woken};

    #[test]
    fn a_job_runs_from_the_wake_up_to_the_block() {
        let jobs = jobs(
            &[
                (5, Blocked),
                (100, Woken),
                (110, On),
                (200, Preempted),
                (250, On),
                (300, Blocked),
                (1100, Woken),
                (1101, On),
                (1102, Blocked),
            ],
            2000,
        );
        assert_eq!(jobs.len(), 2);
        let expected = DetectedJob {
            release: 100,
            start: 110,
            finish: Some(300),
            cpu: 140,
            cpu_wait: 60,
            periods: 1,
            ..DetectedJob::default()
        };
        assert_eq!(jobs[0], expected);
    }

    #[test]
    fn waiting_for_a_page_is_no_end_of_a_job() {
        let fault = [(1, Blocked), (100, On), (150, FaultBegun), (160, Blocked), (400, Woken)];
        let rest = [(410, On), (415, FaultEnded), (500, Blocked)];
        let jobs = jobs(&[&fault[..], &rest[..]].concat(), 600);
        assert_eq!(jobs.len(), 1);
        assert_eq!(
            (jobs[0].fault_wait, jobs[0].fault_waits, jobs[0].finish),
            (240, 1, Some(500))
        );
        assert_eq!((jobs[0].cpu, jobs[0].cpu_wait), (150, 10));
        // From its begin to the block, and from the next run to its end.
        assert_eq!(jobs[0].fault_cpu, 15);
    }

    #[test]
    fn a_wait_that_no_signal_ends_is_no_end_of_a_job_and_its_wake_up_no_release() {
        let call = [
            (1, Blocked),
            (100, On),
            (160, Deep),
            (160, Blocked),
            (400, Woken),
            (410, On),
            (500, Blocked),
        ];
        // After the job, and past the end of its period.
        let after = [
            (700, On),
            (710, Deep),
            (711, Blocked),
            (1200, On),
            (1300, Blocked),
            (1400, On),
        ];
        let jobs = jobs(&[&call[..], &after[..]].concat(), 1500);
        assert_eq!(jobs.iter().map(|job| job.release).collect::<Vec<_>>(), [100, 1400]);
        assert_eq!((jobs[0].finish, jobs[0].call_wait, jobs[0].cpu), (Some(500), 240, 150));
        assert_eq!((jobs[0].cpu_wait, jobs[0].cpu_after), (10, 111));
    }

    #[test]
    fn a_wait_for_the_agent_is_no_end_of_a_job_and_one_for_a_lock_is() {
        let ask = [(1, Blocked), (100, On), (160, Asking), (160, Blocked), (400, Woken)];
        // The agent had answered before the thread slept.
        let quick = [(410, On), (420, Asking), (421, Woken), (422, Blocked), (430, On)];
        let lock = [(500, Blocked), (510, Woken), (520, On), (600, Blocked), (1100, Woken)];
        let jobs = jobs(&[&ask[..], &quick[..], &lock[..]].concat(), 1200);
        assert_eq!(jobs.iter().map(|job| job.release).collect::<Vec<_>>(), [100, 1100]);
        assert_eq!((jobs[0].finish, jobs[0].call_wait), (Some(500), 248));
        assert_eq!((jobs[0].cpu, jobs[0].cpu_wait, jobs[0].cpu_after), (142, 10, 80));
    }

    #[test]
    fn a_fault_in_which_it_did_not_wait_is_computing() {
        let records = [
            (1, Blocked),
            (100, On),
            (150, FaultBegun),
            (160, FaultEnded),
            (200, Blocked),
        ];
        let jobs = jobs(&records, 600);
        assert_eq!((jobs[0].cpu, jobs[0].fault_cpu), (100, 0));
    }

    #[test]
    fn a_second_wake_up_in_a_period_is_no_release() {
        let records = [
            (1, Blocked),
            (100, On),
            (200, Blocked),
            (500, On),
            (540, Blocked),
            (980, On),
            (990, Blocked),
        ];
        let jobs = jobs(&records, 1000);
        assert_eq!(jobs.iter().map(|job| job.release).collect::<Vec<_>>(), [100, 980]);
        assert_eq!((jobs[0].cpu, jobs[0].cpu_after), (100, 40));
    }

    #[test]
    fn a_job_that_runs_through_periods_is_late_once_and_the_next_wake_up_is_a_release() {
        let jobs = jobs(
            &[(1, Blocked), (100, On), (2600, Blocked), (2610, On), (2700, Blocked)],
            3000,
        );
        assert_eq!(jobs.len(), 2);
        assert_eq!((jobs[0].periods, jobs[0].late), (3, true));
        assert_eq!((jobs[1].release, jobs[1].late), (2610, false));
    }

    #[test]
    fn after_a_loss_jobs_are_found_again() {
        // The end of a fault was lost, and with it the end of a job.
        let before = [
            (1, Blocked),
            (100, On),
            (200, Blocked),
            (1100, On),
            (1110, FaultBegun),
            (1120, Blocked),
        ];
        let after = [
            (1900, Lost),
            (1950, Blocked),
            (2100, On),
            (2200, Blocked),
            (3100, On),
            (3150, Blocked),
        ];
        let jobs = jobs(&[&before[..], &after[..]].concat(), 4000);
        assert_eq!(
            jobs.iter().map(|job| job.release).collect::<Vec<_>>(),
            [100, 2100, 3100]
        );
        assert!(jobs.iter().all(|job| job.fault_waits == 0 && !job.late), "{jobs:?}");
    }

    #[test]
    fn a_job_that_never_blocks_is_late_when_its_period_is_over() {
        let records = [(1, Blocked), (100, On)];
        assert!(jobs(&records, 1200)[0].late);
        assert_eq!(jobs(&records, 900)[0].finish, None);
        assert!(!jobs(&records, 900)[0].late);
    }

    #[test]
    fn a_job_that_finishes_at_its_deadline_is_in_time() {
        assert!(!jobs(&[(1, Blocked), (100, On), (1100, Blocked)], 1200)[0].late);
        assert!(jobs(&[(1, Blocked), (100, On), (1101, Blocked)], 1200)[0].late);
    }
}
