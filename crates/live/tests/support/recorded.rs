//! What holds of every recording: an event for everything counted, samples that obey the laws, times within the run.

use freehold_live::Outcome;
use freehold_scenario::Scenario;
use freehold_scenario::recording::{
    EvictionReason, FaultKind, FaultSpan, Recording, Sample, Span, TaskRecording, TaskState, TransferKind,
};
use freehold_scenario::results::TaskResult;

/// Tasks without a class, so that no right is needed; pages go to the store and come back.
pub(crate) const THRASHING: &str = r#"
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

pub(crate) fn of_kind(task: &TaskRecording, kinds: &[FaultKind]) -> u64 {
    task.faults.iter().filter(|fault| kinds.contains(&fault.kind)).count() as u64
}

pub(crate) fn check_counts(outcome: &Outcome, recording: &Recording) {
    assert_eq!(recording.lost, 0);
    let result = &outcome.result;
    assert_eq!(result.laws.violations, vec![]);
    for (task, counted) in recording.tasks.iter().zip(&result.tasks) {
        assert_eq!(
            of_kind(task, &[FaultKind::Soft]),
            counted.faults.soft_faults,
            "{}",
            counted.name
        );
        assert_eq!(
            of_kind(task, &[FaultKind::ZeroFill]),
            counted.faults.zero_fills,
            "{}",
            counted.name
        );
        let swap_ins = [FaultKind::SwapIn, FaultKind::SharedSwapIn];
        assert_eq!(of_kind(task, &swap_ins), counted.faults.swap_ins, "{}", counted.name);
        assert_eq!(
            of_kind(task, &swap_ins[1..]),
            counted.faults.shared_swap_ins,
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
        result.tasks.iter().map(|task| task.faults.evictions).sum::<u64>()
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
    // Of a run that is stopped early, perhaps none.
    let longest = ended.map(|job| job.response_ns()).max();
    assert_eq!(longest.unwrap_or(0), counted.response_ns.max);
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
        let overlaps = |fault: &&FaultSpan| fault.from_ns <= wait.to_ns && wait.from_ns <= fault.to_ns;
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

pub(crate) fn check_times(scenario: &Scenario, recording: &Recording) {
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
    for (counts, reservation) in sample.reservations.iter().zip(&scenario.reservations) {
        assert_eq!(
            counts.lists.capacity,
            u64::from(reservation.capacity.get()),
            "{counts:?}"
        );
        assert_eq!(counts.usable(), counts.entitled(), "{counts:?}");
        assert_eq!(counts.frames.held, counts.uses(), "{counts:?}");
    }
}

pub(crate) fn check(scenario: &Scenario, outcome: &Outcome, recording: &Recording) {
    check_counts(outcome, recording);
    check_times(scenario, recording);
    assert!(recording.samples.len() >= 10, "{} samples", recording.samples.len());
    recording
        .samples
        .iter()
        .for_each(|sample| check_sample(scenario, sample));
}
