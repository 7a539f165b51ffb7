//! The recording of a live run: an event for everything counted, samples that obey the laws, times within the run.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use freehold_linux::ThreadId;
use freehold_linux::sched::{self, Policy};
use freehold_live::{Options, Outcome, run_in_lockstep, run_with};
use freehold_scenario::Scenario;
use freehold_scenario::recording::{
    Capacity, EvictionReason, FaultKind, Recording, Sample, Span, TaskRecording, TaskState, TransferKind,
};
use freehold_scenario::results::TaskResult;

/// Tasks without a class, so that no right is needed; pages go to the store and come back.
const THRASHING: &str = r#"
name = "thrashing"
duration = "400ms"
seed = 7
memory.pool = "512KiB"
memory.swap = { store = "memory", latency = "200us" }
[[region]]
name = "shm"
kind = "shared"
size = "256KiB"
[[region]]
name = "own"
kind = "private"
size = "256KiB"
[[reservation]]
name = "r1"
size = "192KiB"
[[reservation]]
name = "r2"
size = "256KiB"
type = "firm"
[[task]]
name = "periodic"
reservation = "r1"
class = "best-effort"
period = "50ms"
deadline = "50ms"
compute = "2ms"
[[task.access]]
region = "shm"
pattern = "sequential"
amount = "256KiB"
write = true
[[task]]
name = "restless"
reservation = "r2"
class = "best-effort"
compute = "1ms"
[[task.access]]
region = "shm"
pattern = "random"
amount = "128KiB"
[[task.access]]
region = "own"
pattern = "sequential"
amount = "256KiB"
write = true
[[task]]
name = "poolside"
class = "best-effort"
period = "100ms"
compute = "1ms"
[[task.access]]
region = "shm"
pattern = "sequential"
amount = "64KiB"
"#;

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

fn of_kind(task: &TaskRecording, kinds: &[FaultKind]) -> u64 {
    task.faults.iter().filter(|fault| kinds.contains(&fault.kind)).count() as u64
}

fn check_counts(outcome: &Outcome, recording: &Recording) {
    assert_eq!(recording.lost, 0);
    let result = &outcome.result;
    assert_eq!(result.laws.violations, vec![]);
    for (task, counted) in recording.tasks.iter().zip(&result.tasks) {
        assert_eq!(
            of_kind(task, &[FaultKind::Soft]),
            counted.soft_faults,
            "{}",
            counted.name
        );
        assert_eq!(
            of_kind(task, &[FaultKind::ZeroFill]),
            counted.zero_fills,
            "{}",
            counted.name
        );
        let swap_ins = [FaultKind::SwapIn, FaultKind::SharedSwapIn];
        assert_eq!(of_kind(task, &swap_ins), counted.swap_ins, "{}", counted.name);
        assert_eq!(
            of_kind(task, &swap_ins[1..]),
            counted.shared_swap_ins,
            "{}",
            counted.name
        );
        assert_eq!(
            of_kind(task, &[FaultKind::Upgrade]),
            counted.write_faults,
            "{}",
            counted.name
        );
        assert_eq!(
            of_kind(task, &[FaultKind::Failed, FaultKind::Copy]),
            0,
            "{}",
            counted.name
        );
        check_jobs(task, counted);
        check_coverage(task);
    }
    let moved = |kind| recording.transfers.iter().filter(|moved| moved.kind == kind).count() as u64;
    assert_eq!(moved(TransferKind::Read), result.store.reads);
    assert_eq!(moved(TransferKind::Write), result.store.writes);
    let evicted = recording
        .evictions
        .iter()
        .filter(|eviction| eviction.reason == EvictionReason::Eviction);
    assert_eq!(
        evicted.count() as u64,
        result.tasks.iter().map(|task| task.evictions).sum::<u64>()
    );
    let written = recording
        .evictions
        .iter()
        .filter(|eviction| eviction.write_back)
        .count() as u64;
    assert_eq!(written, result.store.writes);
}

fn check_jobs(task: &TaskRecording, counted: &TaskResult) {
    assert_eq!(task.jobs.len() as u64, counted.jobs, "{}", counted.name);
    assert_eq!(task.jobs.iter().filter(|job| job.missed).count() as u64, counted.misses);
    let ended = task.jobs.iter().filter(|job| job.finished);
    assert_eq!(ended.map(|job| job.response_ns()).max(), Some(counted.response_ns.max));
    for job in &task.jobs {
        assert!(job.release_ns <= job.begin_ns && job.begin_ns <= job.end_ns, "{job:?}");
        if let Some(deadline) = job.deadline_ns.filter(|_| job.finished) {
            assert_eq!(job.missed, job.end_ns > deadline, "{job:?}");
        }
    }
    assert!(task.jobs.windows(2).all(|pair| pair[0].number < pair[1].number));
}

/// While a job is under way its task does something, and it waits only in faults.
fn check_coverage(task: &TaskRecording) {
    let waits = |span: &&Span| matches!(span.state, TaskState::StoreWait | TaskState::StoreSpin);
    for wait in task.spans.iter().filter(waits) {
        let overlaps = |fault: &&freehold_scenario::recording::FaultSpan| {
            fault.from_ns <= wait.from_ns && wait.from_ns <= fault.to_ns
        };
        assert!(task.faults.iter().any(|fault| overlaps(&fault)), "{wait:?}");
    }
    for job in task.jobs.iter().filter(|job| job.finished) {
        let inside = |span: &&Span| span.to_ns > job.begin_ns && span.from_ns < job.end_ns;
        let clipped = |span: &Span| span.to_ns.min(job.end_ns) - span.from_ns.max(job.begin_ns);
        let covered: u64 = task.spans.iter().filter(inside).map(clipped).sum();
        assert_eq!(covered, job.end_ns - job.begin_ns, "{job:?}");
    }
}

/// Spans follow each other.
fn check_spans(task: &TaskRecording, duration: u64) {
    let within = |span: &Span| span.from_ns < span.to_ns && span.to_ns <= duration;
    assert!(task.spans.iter().all(within));
    assert!(task.spans.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns));
}

fn check_times(scenario: &Scenario, recording: &Recording) {
    let duration = scenario.duration.get();
    for task in &recording.tasks {
        check_spans(task, duration);
        assert!(
            task.faults
                .iter()
                .all(|fault| fault.from_ns <= fault.to_ns && fault.to_ns <= duration)
        );
        assert!(task.faults.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns));
        assert!(task.jobs.iter().all(|job| job.end_ns <= duration));
    }
    let regions = scenario.regions.len();
    let pages = |region: u16| scenario.regions[usize::from(region)].pages.get();
    for transfer in &recording.transfers {
        assert!(transfer.from_ns <= transfer.to_ns && transfer.to_ns <= duration);
        assert!(usize::from(transfer.region) < regions && transfer.page < pages(transfer.region));
        assert!(
            transfer
                .task
                .is_none_or(|task| usize::from(task) < scenario.tasks.len())
        );
    }
    for eviction in &recording.evictions {
        assert!(eviction.at_ns <= duration && eviction.page < pages(eviction.region));
    }
    assert!(
        recording
            .lock_holds
            .iter()
            .all(|hold| hold.from_ns <= hold.to_ns && hold.to_ns <= duration)
    );
    let ordered = |times: Vec<u64>| times.is_sorted();
    assert!(ordered(recording.samples.iter().map(|sample| sample.at_ns).collect()));
    assert!(ordered(
        recording.evictions.iter().map(|eviction| eviction.at_ns).collect()
    ));
    assert!(ordered(
        recording.transfers.iter().map(|transfer| transfer.from_ns).collect()
    ));
    assert!(ordered(recording.lock_holds.iter().map(|hold| hold.from_ns).collect()));
}

/// The equations of law 1, at every instant.
fn check_sample(scenario: &Scenario, sample: &Sample) {
    assert!(sample.at_ns <= scenario.duration.get());
    assert_eq!(sample.regions_resident.len(), scenario.regions.len());
    assert_eq!(sample.reservations.len(), scenario.reservations.len());
    let pool = u64::from(scenario.pool.get());
    assert_eq!(sample.pool_free + sample.pool_used, pool);
    for (lists, reservation) in sample.reservations.iter().zip(&scenario.reservations) {
        let effective = lists.active + lists.inactive + lists.locked + lists.free + lists.in_flight + lists.owed;
        let capacity = u64::from(reservation.capacity.get());
        assert_eq!(effective, capacity + lists.borrowed, "{lists:?}");
        assert_eq!(
            lists.held,
            lists.owned + lists.free + lists.in_flight + lists.conserved,
            "{lists:?}"
        );
    }
}

fn check(scenario: &Scenario, outcome: &Outcome, recording: &Recording) {
    check_counts(outcome, recording);
    check_times(scenario, recording);
    assert!(recording.samples.len() >= 10, "{} samples", recording.samples.len());
    recording
        .samples
        .iter()
        .for_each(|sample| check_sample(scenario, sample));
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
        let locked = recording.samples.iter().all(|sample| sample.reservations[0].locked > 0);
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
            .any(|sample| sample.reservations.iter().any(|lists| lists.borrowed > 0))
    );
    let taken = |reason| recording.evictions.iter().any(|eviction| eviction.reason == reason);
    assert!(taken(EvictionReason::TakenBack));
}

#[test]
fn a_recording_is_bounded_and_counts_what_it_left_out() {
    let scenario = parsed(THRASHING);
    let capacity = Capacity {
        per_task_jobs: 2,
        per_task_spans: 3,
        per_task_faults: 5,
        samples: 4,
        evictions: 6,
        transfers: 7,
        lock_holds: 0,
    };
    let (outcome, recording) = recorded(&scenario, capacity);
    check_times(&scenario, &recording);
    assert_eq!(outcome.result.laws.violations, vec![]);
    assert!(
        recording
            .tasks
            .iter()
            .all(|task| task.jobs.len() == 2 && task.spans.len() == 3 && task.faults.len() == 5)
    );
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
        .map(|task| task.soft_faults + task.swap_ins)
        .sum();
    assert!(recording.lost > faults - 15);
}

#[test]
fn a_stopped_run_keeps_what_was_recorded() {
    let scenario = parsed(THRASHING);
    let stop = AtomicBool::new(false);
    let options = Options {
        recording: Some(Capacity::default()),
    };
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(150));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        run_with(&scenario, &options, &stop).unwrap()
    });
    assert!(outcome.stopped);
    let recording = outcome.recording.as_ref().unwrap();
    check_counts(&outcome, recording);
    check_times(&scenario, recording);
    assert!(!recording.samples.is_empty());
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
