//! The recording of a live run: an event for everything counted, samples that obey the laws, times within the run.
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use freehold_linux::ThreadId;
use freehold_linux::sched::{self, Policy};
use freehold_live::{Options, Outcome, run_in_lockstep, run_with};
use freehold_scenario::Scenario;
use freehold_scenario::recording::{Capacity, EvictionReason, FaultKind, Recording, TaskRecording, TaskState};
use support::recorded::{THRASHING, check, check_counts, check_times, of_kind};

fn parsed(text: &str) -> Scenario {
    Scenario::parse(text, "test").unwrap()
}

fn shipped(name: &str, sets: &[&str]) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    Scenario::load(&file, sets).unwrap()
}

fn recorded(scenario: &Scenario, capacity: Capacity) -> (Outcome, Recording) {
    let options = Options {
        recording: Some(capacity),
    };
    let mut outcome = run_with(scenario, &options, &AtomicBool::new(false)).unwrap();
    let recording = outcome.recording.take().unwrap();
    (outcome, recording)
}

/// Whether this process may use the fixed-priority class; says so where it may not.
fn may_use_fifo() -> bool {
    let probe = std::thread::spawn(|| sched::set_policy(ThreadId::current(), Policy::Fifo { priority: 1 }).is_ok());
    let may = probe.join().unwrap();
    if !may {
        eprintln!("skipped: SCHED_FIFO needs CAP_SYS_NICE or an rtprio limit");
    }
    may
}

#[test]
fn a_run_is_recorded_event_by_event() {
    let scenario = parsed(THRASHING);
    let (outcome, recording) = recorded(&scenario, Capacity::default());
    check(&scenario, &outcome, &recording);
    let [periodic, restless, poolside] = &recording.tasks[..] else {
        panic!("three tasks");
    };
    assert!(of_kind(periodic, &[FaultKind::SwapIn]) > 0 && of_kind(restless, &[FaultKind::SwapIn]) > 0);
    assert!(of_kind(poolside, &[FaultKind::Soft, FaultKind::ZeroFill, FaultKind::SwapIn]) > 0);
    let waits = |task: &TaskRecording| task.spans.iter().any(|span| span.state == TaskState::StoreWait);
    assert!(waits(periodic) && waits(restless));
    assert!(
        periodic
            .jobs
            .iter()
            .all(|job| job.deadline_ns == Some(job.release_ns + 50_000_000))
    );
    assert!(recording.transfers.iter().any(|transfer| transfer.task == Some(1)));
    let whose = |reservation| {
        recording
            .evictions
            .iter()
            .any(|eviction| eviction.reservation == Some(reservation))
    };
    assert!(whose(0) && whose(1));
}

#[test]
fn what_locks_brought_in_was_before_the_run() {
    if !may_use_fifo() {
        return;
    }
    for name in ["two-tasks-spel.toml", "two-tasks-none.toml", "two-tasks-spc.toml"] {
        let scenario = shipped(name, &["duration=1s"]);
        let (outcome, recording) = recorded(&scenario, Capacity::default());
        check(&scenario, &outcome, &recording);
        let locked = recording
            .samples
            .iter()
            .all(|sample| sample.reservations[0].lists.locked > 0);
        assert_eq!(locked, name.contains("spel"), "{name}");
    }
}

#[test]
fn pages_taken_back_from_a_borrower_say_so() {
    if !may_use_fifo() {
        return;
    }
    let scenario = shipped("firm-borrowing.toml", &[]);
    let (outcome, recording) = recorded(&scenario, Capacity::default());
    check(&scenario, &outcome, &recording);
    assert!(
        recording
            .samples
            .iter()
            .any(|sample| sample.reservations.iter().any(|row| row.lists.borrowed > 0))
    );
    let taken = |reason| recording.evictions.iter().any(|eviction| eviction.reason == reason);
    assert!(taken(EvictionReason::TakenBack));
}

/// Milliseconds of runs that are tried one after the other.
const LONGER_AND_LONGER: [u64; 4] = [400, 1_000, 4_000, 16_000];

fn lasting(millis: u64) -> Scenario {
    parsed(&THRASHING.replace(r#"duration = "400ms""#, &format!(r#"duration = "{millis}ms""#)))
}

#[test]
fn a_recording_is_bounded_and_counts_what_it_left_out() {
    let capacity = Capacity {
        per_task_jobs: 2,
        per_task_spans: 3,
        per_task_faults: 5,
        samples: 4,
        evictions: 6,
        transfers: 7,
        lock_holds: 0,
    };
    // On a busy machine tasks have few jobs in a short time.
    let full = |task: &TaskRecording| task.jobs.len() == 2 && task.spans.len() == 3 && task.faults.len() == 5;
    let (outcome, recording) = LONGER_AND_LONGER
        .into_iter()
        .map(|millis| recorded(&lasting(millis), capacity))
        .find(|(_, recording)| recording.tasks.iter().all(full))
        .unwrap();
    assert_eq!(outcome.result.laws.violations, vec![]);
    check_times(&lasting(outcome.result.head.duration_ns / 1_000_000), &recording);
    assert!(recording.samples.len() <= 4);
    let kept = (
        recording.evictions.len(),
        recording.transfers.len(),
        recording.lock_holds.len(),
    );
    assert_eq!(kept, (6, 7, 0));
    let faults: u64 = outcome
        .result
        .tasks
        .iter()
        .map(|task| task.faults.soft_faults + task.faults.swap_ins)
        .sum();
    assert!(recording.lost > faults - 15);
}

/// Runs that are stopped after so long, until one was sampled.
#[test]
fn a_stopped_run_keeps_what_was_recorded() {
    assert!(
        LONGER_AND_LONGER
            .into_iter()
            .any(|millis| samples_of_stopped(millis) > 0)
    );
}

fn samples_of_stopped(millis: u64) -> usize {
    let scenario = lasting(2 * millis);
    let stop = AtomicBool::new(false);
    let options = Options {
        recording: Some(Capacity::default()),
    };
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(millis / 2));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        run_with(&scenario, &options, &stop).unwrap()
    });
    assert!(outcome.stopped);
    let recording = outcome.recording.as_ref().unwrap();
    check_counts(&outcome, recording);
    check_times(&scenario, recording);
    recording.samples.len()
}

#[test]
fn nothing_is_recorded_unless_asked_for() {
    let mut scenario = parsed(THRASHING);
    scenario.duration = freehold_core::units::Duration::from_millis(20);
    let outcome = freehold_live::run(&scenario, &AtomicBool::new(false)).unwrap();
    assert_eq!(outcome.recording, None);
    let outcome = run_in_lockstep(&scenario, &AtomicBool::new(false)).unwrap();
    assert_eq!(outcome.recording, None);
}

/// Whether the kernel has this program's code locked.
fn is_code_locked() -> bool {
    let program = std::env::current_exe().unwrap();
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let is_code = |line: &&str| line.contains(" r-xp ") && line.ends_with(&*program.to_string_lossy());
    let mut lines = text.lines().skip_while(|line| !is_code(line));
    let flags = lines.find(|line| line.starts_with("VmFlags:")).unwrap();
    flags.split_whitespace().any(|flag| flag == "lo")
}

#[test]
fn the_program_is_locked_while_its_tasks_run() {
    let mut scenario = parsed(THRASHING);
    scenario.duration = freehold_core::units::Duration::from_millis(20);
    let outcome = freehold_live::run(&scenario, &AtomicBool::new(false)).unwrap();
    let says_so = |warning: &String| warning.contains("is not locked");
    assert_ne!(is_code_locked(), outcome.result.warnings.iter().any(says_so));
}
