//! A recording is of the run it is said to be of, and the run is the same without it. Random scenarios; a failing one
//! prints its seed.

mod common;

use common::{checked, computing, region, reservation, spec, walking};
use freehold_scenario::ClassSpec::Fifo;
use freehold_scenario::Scenario;
use freehold_scenario::recording::{Capacity, EvictionReason, FaultKind, JobSpan, Recording, TaskState, TransferKind};
use freehold_sim::{Change, Mix, Options, Outcome, random_scenario, simulate};

fn recorded(scenario: &Scenario, room: Capacity) -> (Outcome, Recording) {
    let options = Options {
        recording: Some(room),
        sequences: true,
        check_every: Some(0),
        ..Options::default()
    };
    let mut outcome = simulate(scenario, &options).expect("a scenario that can be run");
    let recording = outcome.recording.take().expect("a recording was asked for");
    (outcome, recording)
}

/// Room also for a task that does nothing but end its jobs.
fn room() -> Capacity {
    Capacity {
        per_task_jobs: 100_000,
        ..Capacity::default()
    }
}

fn seeds(mix: Mix, check: impl Fn(u64, &Scenario, &Outcome, &Recording)) {
    for seed in 0..400 {
        let scenario = random_scenario(seed, mix);
        let (outcome, recording) = recorded(&scenario, room());
        assert_eq!(recording.lost, 0, "seed {seed}");
        check(seed, &scenario, &outcome, &recording);
    }
}

#[test]
fn recording_changes_nothing() {
    seeds(Mix::everything(), |seed, scenario, outcome, recording| {
        let options = Options {
            sequences: true,
            check_every: Some(0),
            ..Options::default()
        };
        assert_eq!(simulate(scenario, &options).as_ref(), Ok(outcome), "seed {seed}");
        let again = recorded(scenario, room()).1;
        assert_eq!(&again, recording, "seed {seed}");
    });
}

#[test]
fn jobs_and_spans_are_those_of_the_result() {
    seeds(Mix::everything(), |seed, scenario, outcome, recording| {
        for (task, of) in outcome.result.tasks.iter().zip(&recording.tasks) {
            let what = format!("seed {seed}, {}", task.name);
            let counted = of.jobs.iter().filter(|job| job.finished || job.missed).count() as u64;
            let misses = of.jobs.iter().filter(|job| job.missed).count() as u64;
            assert_eq!((counted, misses), (task.jobs, task.misses), "{what}");
            let late = of.jobs.iter().filter(|job| job.missed);
            let worst = late.map(|job| job.tardiness_ns()).max().unwrap_or(0);
            assert_eq!(worst, task.max_tardiness_ns, "{what}");
            let longest = of.jobs.iter().filter(|job| job.finished).map(|job| job.response_ns());
            assert_eq!(longest.max().unwrap_or(0), task.response_ns.max, "{what}");
            for late in &task.late.late_jobs {
                let job = &of.jobs[usize::try_from(late.job).unwrap()];
                assert_eq!((job.release_ns, job.delays), (late.release_ns, late.delays), "{what}");
            }
            for (number, job) in of.jobs.iter().enumerate() {
                assert_eq!(job.number, number as u64, "{what}");
                assert!(
                    job.release_ns <= job.begin_ns && job.begin_ns <= job.end_ns,
                    "{what}: {job:?}"
                );
            }
            let time = |states: &[TaskState]| {
                let chosen = of.spans.iter().filter(|span| states.contains(&span.state));
                chosen.map(|span| span.to_ns - span.from_ns).sum::<u64>()
            };
            assert_eq!(
                time(&[TaskState::Running, TaskState::StoreSpin]),
                task.times.cpu_ns,
                "{what}"
            );
            assert_eq!(time(&[TaskState::Ready]), task.waits.cpu_wait_ns, "{what}");
            let waits = [TaskState::StoreSpin, TaskState::StoreWait];
            assert_eq!(time(&waits), task.times.store_wait_ns, "{what}");
            assert!(of.spans.iter().all(|span| span.from_ns < span.to_ns), "{what}");
            assert!(of.spans.windows(2).all(|two| two[0].to_ns <= two[1].from_ns), "{what}");
            assert!(
                of.spans.last().is_none_or(|span| span.to_ns <= scenario.duration.get()),
                "{what}"
            );
        }
    });
}

#[test]
fn faults_and_transfers_are_those_counted() {
    let mut compared = 0;
    for seed in 0..400 {
        let scenario = random_scenario(seed, Mix::everything());
        let (outcome, recording) = recorded(&scenario, Capacity::default());
        let end = scenario.duration.get();
        for faults in recording.tasks.iter().map(|task| &task.faults) {
            assert!(
                faults
                    .iter()
                    .all(|fault| fault.from_ns <= fault.to_ns && fault.to_ns <= end),
                "seed {seed}"
            );
        }
        if outcome.counted_at.get() != end {
            continue;
        }
        for ((task, extras), of) in outcome.result.tasks.iter().zip(&outcome.extras).zip(&recording.tasks) {
            let found = FaultKind::ALL.map(|kind| of.faults.iter().filter(|fault| fault.kind == kind).count() as u64);
            let counted = [
                task.faults.soft_faults,
                task.faults.zero_fills,
                task.faults.swap_ins - task.faults.shared_swap_ins,
                task.faults.shared_swap_ins,
                extras.file_reads,
                extras.copies,
                task.write_faults,
                extras.errors,
            ];
            assert_eq!(found, counted, "seed {seed}, {}", task.name);
            compared += found.iter().sum::<u64>();
        }
        let transfers = |kind| {
            let ended = recording
                .transfers
                .iter()
                .filter(|transfer| transfer.kind == kind && !transfer.failed);
            ended.count() as u64
        };
        assert!(
            transfers(TransferKind::Read) >= outcome.result.store.reads,
            "seed {seed}"
        );
        assert!(
            transfers(TransferKind::Write) >= outcome.result.store.writes,
            "seed {seed}"
        );
        assert!(
            recording.transfers.iter().all(|transfer| transfer.to_ns <= end),
            "seed {seed}"
        );
    }
    assert!(compared > 10_000, "only {compared} faults were compared");
}

#[test]
fn transfers_that_fail_are_marked() {
    let failed = |mix| {
        let failed = (0..100).map(|seed| {
            let (_, recording) = recorded(&random_scenario(seed, mix), Capacity::default());
            recording.transfers.iter().filter(|transfer| transfer.failed).count()
        });
        failed.sum::<usize>()
    };
    assert_eq!(failed(Mix::default()), 0);
    assert!(failed(Mix::everything()) > 10);
}

#[test]
fn faults_of_a_task_follow_each_other_within_its_jobs() {
    seeds(Mix::default(), |seed, _, _, recording| {
        for task in &recording.tasks {
            for two in task.faults.windows(2) {
                assert!(two[0].to_ns <= two[1].from_ns, "seed {seed}: {two:?}");
            }
            for fault in &task.faults {
                let within = |job: &JobSpan| job.begin_ns <= fault.from_ns && fault.to_ns <= job.end_ns;
                assert!(task.jobs.iter().any(within), "seed {seed}: {fault:?}");
            }
        }
    });
}

#[test]
fn evictions_are_those_of_the_sequences() {
    seeds(Mix::default(), |seed, _, outcome, recording| {
        for (position, events) in outcome.sequences.iter().enumerate() {
            let evicted = events.iter().filter(|event| event.change == Change::Evicted).count();
            let mine = |reservation: Option<u16>| reservation.map(usize::from) == Some(position);
            let found = recording.evictions.iter().filter(|eviction| mine(eviction.reservation));
            let found = found
                .filter(|eviction| eviction.reason == EvictionReason::Eviction)
                .count();
            assert_eq!(found, evicted, "seed {seed}, reservation {position}");
        }
    });
}

#[test]
fn samples_obey_the_laws() {
    seeds(Mix::everything(), |seed, scenario, _, recording| {
        let room = Capacity::default().samples;
        assert_eq!(recording.samples.len(), room, "seed {seed}");
        assert_eq!(recording.samples[0].at_ns, 0, "seed {seed}");
        assert_eq!(
            recording.samples[room - 1].at_ns,
            scenario.duration.get(),
            "seed {seed}"
        );
        for sample in &recording.samples {
            assert_eq!(sample.regions_resident.len(), scenario.regions.len());
            for (of, reservation) in sample.reservations.iter().zip(&scenario.reservations) {
                assert_eq!(of.lists.capacity, u64::from(reservation.capacity.get()), "seed {seed}");
                assert_eq!(of.usable(), of.entitled(), "seed {seed}: {sample:?}");
                assert_eq!(of.frames.held, of.uses(), "seed {seed}");
            }
        }
    });
}

#[test]
fn what_finds_no_room_is_counted() {
    let scenario = random_scenario(7, Mix::default());
    let (_, whole) = recorded(&scenario, Capacity::default());
    let nothing = Capacity {
        per_task_jobs: 0,
        per_task_spans: 0,
        per_task_faults: 0,
        samples: 0,
        evictions: 0,
        transfers: 0,
        lock_holds: 0,
    };
    let (outcome, recording) = recorded(&scenario, nothing);
    let events: usize = whole.tasks.iter().map(|task| task.jobs.len() + task.faults.len()).sum();
    let events = (events + whole.evictions.len() + whole.transfers.len()) as u64;
    assert!(recording.lost > events && events > 0, "{} of {events}", recording.lost);
    assert!(recording.samples.is_empty() && recording.tasks[0].jobs.is_empty());
    assert_eq!(outcome.recording, None);
}

#[test]
fn a_fault_lasts_until_its_service_is_paid() {
    let mut spec = spec(100, 8);
    region(&mut spec, "data", 2);
    reservation(&mut spec, "r", 8);
    let mut task = walking("walker", "r", "data", 100, true);
    task.compute = common::ms(2);
    spec.tasks.push(task);
    spec.tasks.push(computing("idle", Fifo(None), 1, Some(100)));
    let scenario = checked(spec);
    let (_, recording) = recorded(&scenario, Capacity::default());
    let cost = scenario.costs.zero_fill.get();
    let faults = &recording.tasks[0].faults;
    assert_eq!(faults.len(), 2);
    for fault in faults {
        assert_eq!((fault.kind, fault.to_ns - fault.from_ns), (FaultKind::ZeroFill, cost));
    }
    assert_eq!(faults[0].page + 1, faults[1].page);
    let job = &recording.tasks[0].jobs[0];
    assert_eq!(
        (job.begin_ns, job.deadline_ns, job.missed),
        (0, Some(100_000_000), false)
    );
    // The second task begins when the first is done.
    assert_eq!(recording.tasks[1].jobs[0].begin_ns, job.end_ns);
}
