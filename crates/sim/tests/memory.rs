//! What the simulator counts and refuses, and what store faults do.

mod common;

use common::{checked, computing, ms, pages, region, reservation, run, spec, walking};
use freehold_core::units::{ByteLen, Duration};
use freehold_scenario::results::TaskResult;
use freehold_scenario::{
    AccessSpec, ClassSpec, Faults, LockSpec, Pattern, RegionKind, ReservationIndex, Scenario, ScenarioSpec, Sharing,
};
use freehold_sim::{Change, Options, SimError, differential, simulate};

fn lock(region: &str, size: u64) -> LockSpec {
    LockSpec {
        region: region.to_owned(),
        offset: ByteLen::ZERO,
        size: pages(size),
    }
}

/// Two tasks that walk through 40 shared pages; the second has too few frames.
fn two_tasks(sharing: Sharing) -> ScenarioSpec {
    let mut spec = spec(100, 200);
    region(&mut spec, "shm", 40);
    spec.regions[0].sharing = sharing;
    let ample = if sharing == Sharing::Spel { 50 } else { 16 };
    for (name, frames) in [("large", 60), ("small", ample)] {
        reservation(&mut spec, name, frames);
        spec.tasks.push(walking(&format!("in-{name}"), name, "shm", 10, false));
    }
    spec.tasks[1].accesses[0].write = true;
    spec
}

#[test]
fn conservation_keeps_a_neighbour_from_evicting() {
    let outcome = run(two_tasks(Sharing::Spc));
    let [large, small] = &outcome.result.tasks[..] else {
        panic!()
    };
    // The neighbour comes second and finds every page resident. It writes them; the owner keeps them.
    assert_eq!(
        (large.faults.zero_fills, large.faults.soft_faults, large.faults.swap_ins),
        (40, 0, 0)
    );
    assert_eq!((small.faults.zero_fills, small.faults.swap_ins), (0, 0));
    assert!(small.faults.evictions > 200);
    let [large, small] = &outcome.result.reservations[..] else {
        panic!()
    };
    assert_eq!(
        (large.frames.held, large.frames.owned, large.frames.conserved),
        (60, 40, 0)
    );
    assert_eq!((small.frames.held, small.frames.owned), (16, 0));
    assert_eq!(outcome.result.memory.used, 76);
    assert_eq!(outcome.result.memory.resident_measured, 76);
}

#[test]
fn without_management_it_does() {
    let outcome = run(two_tasks(Sharing::None));
    let large = &outcome.result.tasks[0];
    assert!(large.faults.shared_swap_ins > 0, "{large:#?}");
    let reservation = ReservationIndex::new(0);
    let refused = differential(&checked(two_tasks(Sharing::None)), reservation).unwrap_err();
    assert!(matches!(refused, SimError::NotComparable { .. }), "{refused}");
}

#[test]
fn law_0_of_two_tasks() {
    let agreement = differential(&checked(two_tasks(Sharing::Spc)), ReservationIndex::new(1))
        .unwrap()
        .unwrap();
    // Every fill of the small one was made for it by the large one.
    assert!(agreement.softened > 100 && agreement.compared > 200, "{agreement:?}");
}

#[test]
fn locked_pages_are_there_when_time_begins() {
    let outcome = run(two_tasks(Sharing::Spel));
    let [large, small] = &outcome.result.tasks[..] else {
        panic!()
    };
    assert_eq!(
        (
            large.faults.zero_fills,
            large.faults.soft_faults,
            large.faults.evictions
        ),
        (0, 40, 0)
    );
    assert_eq!(
        (
            small.faults.zero_fills,
            small.faults.soft_faults,
            small.faults.evictions
        ),
        (0, 40, 0)
    );
    assert_eq!(outcome.result.memory.used, 60 + 50 - 40);
    assert_eq!(outcome.result.reservations[1].lists.locked, 40);
}

#[test]
fn frames_that_a_lock_gives_back_are_there_for_the_next_reservation() {
    let mut spec = spec(10, 150);
    region(&mut spec, "shm", 50);
    spec.regions[0].sharing = Sharing::Spel;
    for name in ["a", "b", "c"] {
        reservation(&mut spec, name, 60);
        spec.tasks.push(walking(&format!("in-{name}"), name, "shm", 10, false));
    }
    let outcome = run(spec.clone());
    assert_eq!(outcome.result.memory.used, 3 * 60 - 2 * 50);
    spec.memory.pool = pages(110);
    let refused = simulate(&checked(spec), &Options::default()).unwrap_err();
    let SimError::Admission { reservation, reason } = refused else {
        panic!("{refused}")
    };
    assert_eq!(reservation, "b");
    assert!(reason.to_string().contains("60 frames wanted"), "{reason}");
}

#[test]
fn a_region_that_no_task_of_the_locker_touches_is_mapped_by_a_keeper() {
    let mut spec = spec(10, 100);
    region(&mut spec, "shm", 20);
    reservation(&mut spec, "idle", 40);
    spec.reservations[0].locks.push(lock("shm", 12));
    reservation(&mut spec, "busy", 30);
    spec.tasks.push(walking("walker", "busy", "shm", 10, false));
    let outcome = run(spec);
    assert_eq!(outcome.result.reservations[0].lists.locked, 12);
    assert_eq!(
        (
            outcome.result.tasks[0].faults.soft_faults,
            outcome.result.tasks[0].faults.zero_fills
        ),
        (12, 8)
    );
}

#[test]
fn refusals_name_reservation_region_and_reason() {
    let text = r#"
        name = "view"
        duration = "10ms"
        memory.pool = "1MiB"
        [[region]]
        name = "lib"
        kind = "file"
        size = "16KiB"
        [[region]]
        name = "copy"
        kind = "private"
        copy_of = "lib"
        [[reservation]]
        name = "r1"
        size = "64KiB"
        lock = [{ region = "copy", offset = "0B", size = "4KiB" }]
    "#;
    let scenario = Scenario::parse(text, "view.toml").unwrap();
    let refused = simulate(&scenario, &Options::default()).unwrap_err().to_string();
    assert!(
        refused.contains("r1") && refused.contains("copy") && refused.contains("cannot be locked"),
        "{refused}"
    );
}

#[test]
fn use_of_regions() {
    let mut spec = spec(100, 100);
    region(&mut spec, "data", 40);
    reservation(&mut spec, "r", 60);
    reservation(&mut spec, "other", 10);
    let mut task = walking("window", "r", "data", 10, false);
    task.accesses[0].pattern = Pattern::Window {
        size: pages(8),
        shift: pages(3),
        every: 1,
    };
    task.accesses[0].amount = Some(pages(24));
    spec.tasks.push(task);
    let outcome = run(spec);
    let data = &outcome.result.regions[0];
    // Ten jobs of 8 pages each, every page touched three times; the windows begin at 0, 3, .. 27.
    assert_eq!(
        (data.max_use.as_slice(), data.avg_use.as_slice()),
        (&[35, 0][..], &[8.0, 0.0][..])
    );
    assert_eq!(data.resident, 35);
}

#[test]
fn counts_are_those_of_the_last_full_hyperperiod() {
    let mut spec = spec(35, 100);
    region(&mut spec, "data", 40);
    reservation(&mut spec, "r", 60);
    let mut task = walking("window", "r", "data", 10, false);
    task.accesses[0].amount = Some(pages(4));
    spec.tasks.push(task);
    let outcome = run(spec);
    assert_eq!(outcome.counted_at.get(), 30_000_000);
    // Three jobs' pages; the fourth job is in the jobs, not in the counts.
    assert_eq!(
        (outcome.result.tasks[0].faults.zero_fills, outcome.result.tasks[0].jobs),
        (12, 4)
    );
    assert_eq!(outcome.result.regions[0].resident, 12);
}

#[test]
fn a_file_is_read_from_the_store() {
    let mut spec = spec(30, 100);
    region(&mut spec, "file", 6);
    spec.regions[0].kind = RegionKind::File;
    reservation(&mut spec, "r", 10);
    spec.tasks.push(walking("reader", "r", "file", 10, false));
    let outcome = run(spec);
    assert_eq!(outcome.extras[0].file_reads, 6);
    assert_eq!(
        (outcome.result.store.reads, outcome.result.store.read_bytes),
        (6, 6 * 4096)
    );
    assert_eq!(
        (
            outcome.result.tasks[0].faults.zero_fills,
            outcome.result.tasks[0].faults.swap_ins
        ),
        (0, 0)
    );
}

/// A task that writes 12 pages in 4 frames.
fn thrashing() -> ScenarioSpec {
    let mut spec = spec(100, 100);
    region(&mut spec, "data", 12);
    reservation(&mut spec, "r", 4);
    spec.tasks.push(walking("writer", "r", "data", 10, true));
    spec
}

#[test]
fn a_store_that_takes_nothing_loses_nothing() {
    let mut spec = thrashing();
    spec.faults = Some(Faults {
        fail: 1.0,
        ..Faults::default()
    });
    let outcome = run(spec);
    let writer = &outcome.result.tasks[0];
    // The first four pages stay, dirty; every other access ends with an error, and the jobs go on.
    assert_eq!((writer.faults.zero_fills, writer.jobs), (4, 10));
    assert_eq!(outcome.result.regions[0].resident, 4);
    assert_eq!((outcome.result.store.reads, outcome.result.store.writes), (0, 0));
    assert!(outcome.extras[0].errors >= 10 * 8, "{:?}", outcome.extras[0]);
    assert!(
        outcome
            .result
            .warnings
            .iter()
            .any(|warning| warning.contains("ended with an error"))
    );
}

#[test]
fn a_full_store_refuses_and_keeps() {
    let mut spec = thrashing();
    spec.memory.capacity = Some(pages(5));
    let outcome = run(spec);
    assert!(outcome.extras[0].errors > 0);
    // What could not be written stays, dirty, and takes all frames.
    assert_eq!(
        (outcome.result.store.writes, outcome.result.regions[0].resident),
        (5, 4)
    );
}

#[test]
fn nobody_else_notices_a_failing_store() {
    let mut spec = thrashing();
    spec.memory.pool = pages(100);
    region(&mut spec, "calm-data", 10);
    reservation(&mut spec, "calm", 10);
    spec.tasks.push(walking("calm", "calm", "calm-data", 10, true));
    let well = run(spec.clone());
    spec.faults = Some(Faults {
        fail: 0.5,
        ..Faults::default()
    });
    let ill = run(spec);
    assert!(ill.extras[0].errors > 0);
    assert_eq!(ill.sequences[1], well.sequences[1]);
    assert_eq!(ill.extras[1].errors, 0);
}

#[test]
fn late_and_reordered_completions_change_times_only() {
    let plain = run(thrashing());
    let mut spec = thrashing();
    spec.faults = Some(Faults {
        late: 0.5,
        late_by: ms(1),
        reorder: true,
        ..Faults::default()
    });
    let disturbed = run(spec);
    let pages = |outcome: &freehold_sim::Outcome| -> Vec<_> {
        outcome.sequences[0]
            .iter()
            .map(|event| (event.page, matches!(event.change, Change::Evicted)))
            .collect()
    };
    let (plain_pages, disturbed_pages) = (pages(&plain), pages(&disturbed));
    let both = plain_pages.len().min(disturbed_pages.len());
    assert!(both > 80, "{both}");
    assert_eq!(plain_pages[..both], disturbed_pages[..both]);
    assert!(disturbed.result.tasks[0].response_ns.max > plain.result.tasks[0].response_ns.max);
}

#[test]
fn a_task_without_reservation_lives_on_what_is_left() {
    let mut spec = spec(50, 30);
    region(&mut spec, "held", 20);
    region(&mut spec, "loose", 20);
    reservation(&mut spec, "r", 20);
    spec.tasks.push(walking("held", "r", "held", 10, true));
    let mut loose = computing("loose", ClassSpec::BestEffort, 0, None);
    let mut access = AccessSpec::new("loose", Pattern::Random);
    access.write = true;
    loose.accesses.push(access);
    spec.tasks.push(loose);
    let outcome = run(spec);
    assert_eq!(
        (
            outcome.result.tasks[0].faults.swap_ins,
            outcome.result.tasks[0].faults.evictions
        ),
        (0, 0)
    );
    assert!(outcome.result.tasks[1].faults.evictions > 0);
    assert!(outcome.result.regions[1].resident <= 10);
}

#[test]
fn a_long_run_of_hits_is_quick() {
    let mut spec = spec(10_000, 400);
    region(&mut spec, "data", 256);
    reservation(&mut spec, "r", 300);
    let mut task = walking("walker", "r", "data", 100, true);
    task.accesses[0].amount = Some(pages(500_000));
    spec.tasks.push(task);
    spec.memory.latency = Duration::from_micros(100);
    let scenario = checked(spec);
    let outcome = simulate(&scenario, &Options::default()).unwrap();
    assert_eq!(
        (outcome.result.tasks[0].jobs, outcome.result.tasks[0].faults.zero_fills),
        (100, 256)
    );
    assert_eq!(outcome.result.tasks[0].response_ns.p50 / 1_000_000, 50);
}

/// A task of this class in a reservation of its own, beside many that keep the only channel of the store busy, and
/// `siblings` best-effort tasks in its reservation that touch the same pages.
fn beside_a_flood(class: ClassSpec, siblings: usize) -> TaskResult {
    let mut spec = spec(1_000, 200);
    spec.memory.parallel = 1;
    spec.memory.latency = ms(1);
    spec.cpus = 2;
    region(&mut spec, "wide", 100);
    region(&mut spec, "narrow", 12);
    reservation(&mut spec, "busy", 60);
    reservation(&mut spec, "calm", 10);
    let mut looked_at = walking("looked-at", "calm", "narrow", 100, true);
    looked_at.class = Some(class);
    looked_at.budget = Some(ms(90));
    spec.tasks.push(looked_at);
    for number in 0..12 + siblings {
        let (kin, region) = if number < 12 {
            ("busy", "wide")
        } else {
            ("calm", "narrow")
        };
        let mut other = walking(&format!("{kin}-{number}"), kin, region, 10, true);
        (other.period, other.class) = (None, Some(ClassSpec::BestEffort));
        other.accesses[0].pattern = Pattern::Random;
        spec.tasks.push(other);
    }
    let found = run(spec).result.tasks.swap_remove(0);
    assert!(found.faults.swap_ins > 5, "{found:#?}");
    found
}

#[test]
fn the_store_serves_the_more_urgent_first() {
    // In latencies, for each page that comes back.
    let wait = |class| {
        let found = beside_a_flood(class, 0);
        found.times.store_wait_ns / found.faults.swap_ins / 1_000_000
    };
    let [deadline, fifo, best_effort] = [ClassSpec::Deadline, ClassSpec::Fifo(None), ClassSpec::BestEffort].map(wait);
    // A page's own write-back, its fill, and for each at most one request that is being served already.
    assert!(deadline <= 4 && fifo <= 4, "{deadline} {fifo}");
    assert!(best_effort > 8, "{best_effort}");
}

/// Siblings that are not urgent bring in pages that the urgent task finds there, and never hold it up: it lifts what
/// they began and it waits for.
#[test]
fn what_an_urgent_task_waits_for_is_lifted() {
    let wait = |siblings| {
        let found = beside_a_flood(ClassSpec::Fifo(None), siblings);
        found.times.store_wait_ns / found.jobs
    };
    let alone = wait(0);
    for siblings in 1..5 {
        let beside = wait(siblings);
        assert!(
            beside * 10 < alone * 6,
            "{siblings} siblings: {beside} ns a job, alone {alone}"
        );
    }
}
