//! What is recorded is what happened: event by event, as many as were counted.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, WORDS, audit, config, event_capacity, hard, private, shared};
use freehold_pager::core::effect::{Holder, Resolution, UnmapReason};
use freehold_pager::core::fact::Request;
use freehold_pager::core::id::ReservationId;
use freehold_pager::core::units::Instant;
use freehold_pager::core::view::TaskCounts;
use freehold_pager::store::FileConfig;
use freehold_pager::{Bound, Config, Events, FaultEnd, MappedRegion, Pager, StoreMedium, TaskEvents, TaskHandle};

fn recording_pager(latency_us: u64, medium: StoreMedium, events: usize) -> Pager {
    Pager::new(Config {
        events: Some(event_capacity(events)),
        medium,
        ..config(96, 256, latency_us)
    })
    .unwrap()
}

fn touch_at_random(bound: &Bound<'_>, regions: &[MappedRegion], seed: u64, rounds: u64) {
    let mut random = Random(seed);
    for round in 0..rounds {
        let region = &regions[random.below(regions.len())];
        let word = random.below(region.words() / WORDS) * WORDS + usize::try_from(seed).unwrap();
        // Failures are the store's, where a test has it fail.
        let _ = bound.read_word(region, word);
        let _ = bound.write_word(region, word, round);
        if round % 100 == 0 {
            bound.job_end();
        }
    }
}

/// Two reservations with a shared region and one of their own each, far too large for them.
fn busy(pager: &Pager, rounds: u64) -> ([ReservationId; 2], [TaskHandle; 2]) {
    let reservations = [hard(pager, 24), hard(pager, 24)];
    let region = shared(pager, 48);
    let tasks = reservations.map(|reservation| pager.add_task(Some(reservation)).unwrap());
    let regions = [&tasks[0], &tasks[1]].map(|task| {
        let own = private(pager, 40);
        [task.map(region).unwrap(), task.map(own).unwrap()]
    });
    pager.take_events().unwrap();
    std::thread::scope(|scope| {
        for (number, (task, regions)) in tasks.iter().zip(&regions).enumerate() {
            scope.spawn(move || touch_at_random(&task.enter().unwrap(), regions, number as u64, rounds));
        }
    });
    (reservations, tasks)
}

fn now() -> Instant {
    Instant::new(freehold_linux::clock::now().as_nanos())
}

fn ended(task: &TaskEvents, wanted: impl Fn(Resolution) -> bool) -> u64 {
    let hit = |end| matches!(end, FaultEnd::Resolved(resolution) if wanted(resolution));
    task.faults.iter().filter(|fault| hit(fault.end)).count() as u64
}

fn counted(task: &TaskEvents) -> TaskCounts {
    TaskCounts {
        soft_faults: ended(task, |end| end == Resolution::Soft),
        zero_fills: ended(task, |end| end == Resolution::ZeroFill),
        swap_ins: ended(task, |end| matches!(end, Resolution::SwapIn { .. })),
        shared_swap_ins: ended(task, |end| end == Resolution::SwapIn { shared: true }),
        file_reads: ended(task, |end| end == Resolution::FileRead),
        copies: ended(task, |end| end == Resolution::Copy),
        write_faults: ended(task, |end| end == Resolution::Upgrade),
        ..TaskCounts::default()
    }
}

fn check_order(events: &Events, begun: Instant) {
    let end = now();
    for task in &events.tasks {
        assert!(
            task.faults
                .iter()
                .all(|fault| begun <= fault.from && fault.from <= fault.to && fault.to <= end)
        );
        assert!(task.faults.windows(2).all(|pair| pair[0].to <= pair[1].from));
        for wait in &task.waits {
            let during = |fault: &freehold_pager::FaultEvent| {
                fault.from <= wait.from && wait.to <= wait.resumed && wait.resumed <= fault.to
            };
            assert!(task.faults.iter().any(during), "a wait outside any fault: {wait:?}");
        }
    }
    assert!(events.evictions.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert!(
        events
            .transfers
            .iter()
            .all(|transfer| begun <= transfer.from && transfer.from <= transfer.to)
    );
    let holds = &events.lock_holds;
    assert!(
        holds.windows(2).all(|pair| pair[0].to <= pair[1].from),
        "two held the lock at once"
    );
}

/// Every store, with its latency in microseconds where it has one.
fn stores() -> [(u64, StoreMedium); 5] {
    let file = StoreMedium::File(FileConfig::new(0, env!("CARGO_TARGET_TMPDIR").into()));
    [
        (0, StoreMedium::Memory),
        (20, StoreMedium::Memory),
        (80, StoreMedium::Memory),
        (0, StoreMedium::Compressed(None)),
        (0, file),
    ]
}

#[test]
fn there_is_an_event_for_everything_counted() {
    for (latency, medium) in stores() {
        let begun = now();
        let pager = recording_pager(latency, medium, 1 << 16);
        let (reservations, tasks) = busy(&pager, 3000);
        audit(&pager);
        let report = pager.report().unwrap();
        let events = pager.take_events().unwrap();
        assert_eq!(events.lost, 0);
        check_order(&events, begun);
        let mut evictions = 0;
        for task in &tasks {
            let (counts, recorded) = (task.counts(), &events.tasks[task.id().index()]);
            evictions += counts.evictions;
            let expected = TaskCounts {
                evictions: 0,
                waited: freehold_pager::core::units::Duration::ZERO,
                ..counts
            };
            assert_eq!(counted(recorded), expected);
            assert!(counts.swap_ins > 100);
            assert_eq!(recorded.faults.len() as u64, task.times().faults);
            let waited = |spun| -> u64 {
                let waits = recorded.waits.iter().filter(|wait| wait.spun == spun);
                waits.map(|wait| wait.to.get() - wait.from.get()).sum()
            };
            assert_eq!(waited(false), task.times().store_slept.get());
            assert_eq!(waited(true), task.times().store_spun.get());
            let late = recorded.waits.iter().map(|wait| wait.resumed.get() - wait.to.get());
            assert_eq!(late.sum::<u64>(), task.times().resumed_late.get());
        }
        let moved = |kind| events.transfers.iter().filter(|moved| moved.kind == kind).count() as u64;
        assert_eq!(moved(Request::Fill), report.store.reads);
        assert_eq!(moved(Request::Evict), report.store.writes);
        assert!(events.transfers.iter().all(|transfer| !transfer.failed));
        let evicted = || {
            events
                .evictions
                .iter()
                .filter(|eviction| eviction.reason == UnmapReason::Eviction)
        };
        assert_eq!(evicted().count() as u64, evictions);
        assert_eq!(
            evicted().filter(|eviction| eviction.write_back).count() as u64,
            report.store.writes
        );
        let known = |holder| reservations.map(Holder::Reservation).contains(&holder);
        assert!(evicted().all(|eviction| known(eviction.holder)));
        assert_eq!(events.short_holds, 0);
        // Taken while nothing happens, events are taken out once.
        let again = pager.take_events().unwrap();
        assert_eq!((again.transfers.len(), again.evictions.len(), again.lost), (0, 0, 0));
    }
}

#[test]
fn what_finds_no_room_is_counted_and_nothing_else_changes() {
    let pager = recording_pager(0, StoreMedium::Memory, 10);
    let (_, tasks) = busy(&pager, 1000);
    audit(&pager);
    let times = tasks.each_ref().map(|task| task.times().faults);
    let events = pager.take_events().unwrap();
    for (task, faults) in tasks.iter().zip(times) {
        assert_eq!(events.tasks[task.id().index()].faults.len(), 10);
        assert!(faults > 100 && events.lost > faults - 10);
    }
}

#[test]
fn failed_faults_and_transfers_are_recorded_as_such() {
    let pager = recording_pager(0, StoreMedium::Memory, 1 << 16);
    pager.store().faults().fail_all_reads(true);
    let (_, tasks) = busy(&pager, 300);
    pager.store().faults().fail_all_reads(false);
    pager.settle().unwrap();
    let stats = pager.report().unwrap().store;
    let events = pager.take_events().unwrap();
    let failed = events.transfers.iter().filter(|transfer| transfer.failed).count() as u64;
    assert!(failed > 0);
    assert_eq!(failed, stats.failed_reads);
    for task in &tasks {
        let faults = &events.tasks[task.id().index()].faults;
        let failures = faults.iter().filter(|fault| fault.end == FaultEnd::Failed).count() as u64;
        assert_eq!(failures, task.times().failures);
        assert!(failures > 0);
    }
}

#[test]
fn without_being_asked_nothing_is_recorded() {
    let pager = Pager::new(config(8, 8, 0)).unwrap();
    assert_eq!(pager.take_events(), None);
}
