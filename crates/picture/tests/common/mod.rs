//! Runs to draw.
#![allow(dead_code, reason = "each test uses a part of it")]

use freehold_picture::Run;
use freehold_report::reservation::{ReservationCounts, ReservationFrames, ReservationLists};
use freehold_scenario::Scenario;
use freehold_scenario::recording::{
    Capacity, Eviction, EvictionReason, FaultKind, FaultSpan, JobSpan, LockHold, Recording, Sample, Span,
    TaskRecording, TaskState, Transfer, TransferKind,
};
use freehold_scenario::results::{LockResult, RunResult, Violation};
use freehold_sim::{Options, simulate};
use proptest::prelude::*;

/// A run with all that a picture of it needs.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) scenario: Scenario,
    pub(crate) result: RunResult,
    pub(crate) recording: Recording,
}

impl Recorded {
    pub(crate) fn of(scenario: Scenario) -> Self {
        let options = Options {
            recording: Some(Capacity::default()),
            check_every: Some(0),
            ..Options::default()
        };
        let outcome = simulate(&scenario, &options).expect("a scenario that can be run");
        Self {
            scenario,
            result: outcome.result,
            recording: outcome.recording.expect("a recording was asked for"),
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        Self::of(Scenario::parse(text, "test.toml").expect("a valid scenario"))
    }

    /// A scenario of the repository.
    pub(crate) fn load(path: &str) -> Self {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self::of(Scenario::load(&root.join(path), &[] as &[&str]).expect("a valid scenario"))
    }

    pub(crate) fn run(&self) -> Run<'_> {
        Run {
            scenario: &self.scenario,
            result: &self.result,
            recording: &self.recording,
        }
    }

    /// The same run with this recording, and every number of the result the largest there is.
    pub(crate) fn with_huge_counts(mut self, recording: Recording) -> Self {
        let most = u64::MAX;
        self.recording = recording;
        let result = &mut self.result;
        for task in &mut result.tasks {
            (task.jobs, task.misses, task.max_tardiness_ns, task.late.late_jobs_total) = (most, most, most, most);
            (task.response_ns.p50, task.response_ns.p99, task.response_ns.max) = (most, most, most);
            (
                task.faults.soft_faults,
                task.faults.swap_ins,
                task.times.cpu_ns,
                task.late.late_response_ns,
            ) = (most, most, most, most);
            task.late.late_delays_ns.cpu_wait_ns = most;
            task.late.late_delays_ns.store_wait_ns = most;
            (task.deadline_ns, task.period_ns) = (Some(most), Some(most));
        }
        for reservation in &mut result.reservations {
            (reservation.lists.capacity, reservation.lists.active) = (most, most);
            reservation.frames.held = most;
        }
        (result.head.duration_ns, result.memory.pool, result.store.reads) = (most, most, most);
        result.lock = Some(LockResult {
            holds: most,
            longest_hold_ns: most,
            longest_wait_ns: most,
        });
        result.laws.checked = most;
        result.laws.violations.push(Violation {
            law: 255,
            at_ns: most,
            what: "x".repeat(300),
        });
        self
    }
}

/// Two tasks, one of which evicts the other's pages.
pub(crate) const NONE: &str = "scenarios/two-tasks-none.toml";

/// Nothing but a pool.
pub(crate) const EMPTY: &str = "name = \"empty\"\nduration = \"1s\"\nmemory.pool = \"1MiB\"\n";

/// A task whose first release is after the end.
pub(crate) const NO_JOBS: &str = "\
name = \"no-jobs\"
duration = \"1s\"
memory.pool = \"1MiB\"
[[task]]
name = \"late\"
class = \"fifo\"
period = \"10s\"
phase = \"5s\"
compute = \"1ms\"
";

/// So many cases; a failing one is printed and not kept in a file.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(count)
    }
}

/// Times of all sizes, many of them small, equal or the largest.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..50, 0_u64..2_000_000_000, any::<u64>(), Just(u64::MAX)]
}

fn job() -> impl Strategy<Value = JobSpan> {
    let times = (time(), time(), time(), time(), prop::option::of(time()));
    (times, any::<bool>(), any::<bool>()).prop_map(
        |((number, release_ns, begin_ns, end_ns, deadline_ns), missed, finished)| JobSpan {
            number,
            release_ns,
            begin_ns,
            end_ns,
            deadline_ns,
            missed,
            finished,
            ..JobSpan::default()
        },
    )
}

fn task() -> impl Strategy<Value = TaskRecording> {
    let states = [
        TaskState::Running,
        TaskState::Ready,
        TaskState::StoreSpin,
        TaskState::StoreWait,
    ];
    let span = (time(), time(), prop::sample::select(states.to_vec()));
    let span = span.prop_map(|(from_ns, to_ns, state)| Span { from_ns, to_ns, state });
    let fault = (
        time(),
        time(),
        any::<u16>(),
        any::<u32>(),
        prop::sample::select(FaultKind::ALL.to_vec()),
    );
    let fault = fault.prop_map(|(from_ns, to_ns, region, page, kind)| FaultSpan {
        from_ns,
        to_ns,
        region,
        page,
        kind,
    });
    let jobs = prop::collection::vec(job(), 0..20);
    let (spans, faults) = (prop::collection::vec(span, 0..20), prop::collection::vec(fault, 0..20));
    (jobs, spans, faults).prop_map(|(jobs, spans, faults)| TaskRecording {
        jobs,
        spans,
        faults,
        pinning: Vec::new(),
        pinning_lost: 0,
    })
}

fn sample() -> impl Strategy<Value = Sample> {
    let reservation = (time(), time(), time()).prop_map(|(active, free, owned)| ReservationCounts {
        lists: ReservationLists {
            active,
            free,
            ..ReservationLists::default()
        },
        frames: ReservationFrames {
            owned,
            ..ReservationFrames::default()
        },
    });
    let reservations = prop::collection::vec(reservation, 0..4);
    (time(), reservations, prop::collection::vec(time(), 0..4)).prop_map(|(at_ns, reservations, resident)| Sample {
        at_ns,
        reservations,
        pool_free: at_ns,
        pool_used: u64::MAX,
        regions_resident: resident,
    })
}

/// A recording that no run would give: times in any order, positions of nothing.
pub(crate) fn wild_recording() -> impl Strategy<Value = Recording> {
    let transfer = (time(), time(), any::<u16>(), any::<bool>()).prop_map(|(from_ns, to_ns, region, read)| Transfer {
        from_ns,
        to_ns,
        region,
        page: u32::MAX,
        kind: if read { TransferKind::Read } else { TransferKind::Write },
        failed: read,
        task: Some(region),
    });
    let eviction = (time(), prop::option::of(0_u16..3)).prop_map(|(at_ns, reservation)| Eviction {
        at_ns,
        region: u16::MAX,
        page: 1,
        reservation,
        reason: EvictionReason::TakenBack,
        write_back: true,
    });
    let hold = (time(), time(), time()).prop_map(|(from_ns, to_ns, waited_ns)| LockHold {
        from_ns,
        to_ns,
        waited_ns,
        task: None,
    });
    let lists = (
        prop::collection::vec(task(), 0..4),
        prop::collection::vec(sample(), 0..9),
        prop::collection::vec(transfer, 0..9),
        prop::collection::vec(eviction, 0..9),
        prop::collection::vec(hold, 0..9),
    );
    (lists, any::<bool>(), time()).prop_map(|((tasks, samples, transfers, evictions, lock_holds), sorted, lost)| {
        let mut recording = Recording {
            tasks,
            samples,
            evictions,
            transfers,
            lock_holds,
            lost,
        };
        if sorted {
            recording.sort();
        }
        recording
    })
}
