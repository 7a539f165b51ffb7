//! Real threads, real releases. Counts and orders are asserted, never lengths of time.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_rt::class::{Class, ClassError};
use freehold_rt::job::{Delays, Split};
use freehold_rt::pacer::Pacer;
use freehold_rt::record::Record;
use freehold_rt::runner::{self, Work};
use freehold_rt::stop::StopFlag;
use freehold_rt::timing::Timing;

struct Sleeper {
    naps: Vec<Duration>,
    slept: Duration,
    jobs: u64,
}

impl Work for Sleeper {
    fn job(&mut self, number: u64, _: &Pacer) -> ControlFlow<()> {
        assert_eq!(number, self.jobs, "jobs are done in order, none left out");
        self.jobs += 1;
        let nap = usize::try_from(number)
            .ok()
            .and_then(|at| self.naps.get(at))
            .copied()
            .unwrap_or_default();
        std::thread::sleep(nap);
        self.slept += nap;
        ControlFlow::Continue(())
    }

    fn delays(&self) -> Delays {
        Delays {
            store_wait: self.slept,
            ..Delays::default()
        }
    }
}

fn sleeper(naps: &[u64]) -> Sleeper {
    Sleeper {
        naps: naps.iter().map(|&nap| Duration::from_millis(nap)).collect(),
        slept: Duration::ZERO,
        jobs: 0,
    }
}

fn timing(period: u64, jobs: u64) -> Timing {
    let first = clock::now().saturating_add(Duration::from_millis(5));
    let period = Duration::from_millis(period);
    let end = first.saturating_add(period * u32::try_from(jobs).expect("few jobs"));
    Timing {
        first,
        period: Some(period),
        deadline: Some(period),
        end,
    }
}

#[test]
fn every_release_gets_its_job() {
    let timing = timing(20, 10);
    let (mut work, mut record) = (sleeper(&[]), Record::for_timing(&timing));
    runner::run(&timing, &StopFlag::new(), &mut work, &mut record);
    assert_eq!(timing.releases(), 10);
    assert_eq!(record.jobs().len(), 10);
    for job in record.jobs() {
        assert_eq!(
            Some(job.release),
            timing.release(job.number).map(MonotonicTime::as_nanos)
        );
        assert!(job.start >= job.release && job.finish >= job.start);
    }
}

#[test]
fn a_late_job_delays_the_next_and_passes_its_reason_on() {
    let timing = timing(50, 6);
    let (mut work, mut record) = (sleeper(&[0, 120]), Record::for_timing(&timing));
    runner::run(&timing, &StopFlag::new(), &mut work, &mut record);
    let jobs = record.jobs();
    assert_eq!(jobs.len(), 6, "releases never skip");
    assert!(jobs[1].late && jobs[1].split.store_wait >= Duration::from_millis(100));
    assert!(jobs[2].late, "the job behind it is late too");
    assert!(
        jobs[2].split.store_wait > jobs[2].split.cpu_wait,
        "for the same reason: {:?}",
        jobs[2].split
    );
    assert!(jobs[2].start >= jobs[1].finish);
}

#[test]
fn the_reason_is_passed_on_through_short_jobs() {
    let timing = timing(20, 8);
    let (mut work, mut record) = (sleeper(&[110]), Record::for_timing(&timing));
    runner::run(&timing, &StopFlag::new(), &mut work, &mut record);
    // Jobs 1 to 4 are released while job 0 waits, and run one after the other once it is done.
    for job in &record.jobs()[1..5] {
        assert!(job.late, "{job:?}");
        assert!(job.split.store_wait > job.split.cpu_wait, "{job:?}");
        assert!(
            job.split.store_wait <= job.response(),
            "no more than there was: {job:?}"
        );
    }
}

#[test]
fn a_job_unfinished_past_its_deadline_is_one_miss() {
    let timing = timing(30, 2);
    let (mut work, mut record) = (sleeper(&[200]), Record::for_timing(&timing));
    runner::run(&timing, &StopFlag::new(), &mut work, &mut record);
    let late: Vec<u64> = record
        .jobs()
        .iter()
        .filter(|job| job.late)
        .map(|job| job.number)
        .collect();
    assert_eq!(late, [0, 1], "the one that ran on, and the one released meanwhile");
    assert!(record.jobs().iter().all(|job| !job.finished));
}

#[test]
fn a_raised_flag_ends_the_sleep() {
    let timing = Timing {
        end: clock::now().saturating_add(Duration::from_secs(3_600)),
        ..timing(3_000_000, 1)
    };
    let timing = Timing {
        first: timing.first.saturating_add(Duration::from_secs(1_000)),
        ..timing
    };
    let stop = Arc::new(StopFlag::new());
    let raiser = Arc::clone(&stop);
    let thread = std::thread::spawn(move || raiser.raise());
    let (mut work, mut record) = (sleeper(&[]), Record::for_timing(&timing));
    runner::run(&timing, &stop, &mut work, &mut record);
    thread.join().expect("raises");
    assert_eq!(record.jobs().len(), 0);
}

#[test]
fn time_off_the_cpu_without_memory_delay_is_cpu_wait() {
    let millis = Duration::from_millis;
    let delays = Delays {
        store_wait: millis(30),
        fault_service: millis(2),
        ..Delays::default()
    };
    let split = Split::of(millis(100), millis(50), &delays);
    assert_eq!(split.cpu_wait, millis(20));
    assert_eq!(split.store_wait, millis(30));
    assert_eq!(
        Split::of(millis(100), millis(40), &Delays::default()).cpu_wait,
        millis(60)
    );
}

#[test]
fn classes_are_applied_or_refused_by_name() {
    std::thread::spawn(|| {
        let cpu = freehold_linux::sched::allowed_cpus().expect("CPUs")[0];
        match (Class::Fifo { priority: 5 }).apply(&[cpu]) {
            Ok(()) => {}
            Err(error) => eprintln!("NOT CHECKED: SCHED_FIFO is not permitted here: {error}"),
        }
        let span = Duration::from_millis;
        let class = Class::Deadline {
            runtime: span(10),
            deadline: span(100),
            period: span(100),
        };
        assert!(matches!(class.apply(&[cpu]), Err(ClassError::DeadlinePinned)));
    })
    .join()
    .expect("no panic");
}

#[test]
fn a_job_that_the_end_cuts_off_took_no_longer_than_until_then() {
    let timing = timing(20, 1);
    let (stop, mut record) = (StopFlag::new(), Record::for_timing(&timing));
    // Past the end, at which it is late.
    runner::run(&timing, &stop, &mut sleeper(&[60]), &mut record);
    let [job] = record.jobs() else {
        panic!("one job: {:?}", record.jobs());
    };
    let Split {
        cpu_wait,
        store_wait,
        fault_service,
        lock_wait,
    } = job.split;
    assert!(job.late && !job.finished, "{job:?}");
    assert!(
        cpu_wait + store_wait + fault_service + lock_wait <= job.response(),
        "{job:?}"
    );
}
