//! Who hurries is served first, though others came before.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{WORDS, audit, config, event_capacity, hard, object, write_page};
use freehold_pager::core::limits::{ObjectKind, Regime};
use freehold_pager::core::units::Duration;
use freehold_pager::store::Urgency;
use freehold_pager::{Events, MappedRegion, Pager, StoreShape, TaskHandle};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// One channel, and slow: everybody waits for it.
fn slow_pager(latency: Duration) -> Pager {
    let mut config = config(128, 256, 0);
    config.store = StoreShape { latency, parallel: 1 };
    config.events = Some(event_capacity(1 << 10));
    Pager::new(config).unwrap()
}

/// What `run` finds once it was quick enough for a store so slow.
fn in_time<T>(run: impl Fn(Duration) -> Option<T>) -> T {
    let slower = (0..8).map(|times| Duration::from_millis(10 << times));
    slower.into_iter().find_map(run).unwrap()
}

/// The pages in the order in which the device served them; none where threads were too late to tell.
///
/// Each of the five tasks has to wait well before the first page came, since the device goes on with those that are
/// there, and pages have to be taken well before the next is there.
fn order(events: &Events, latency: Duration) -> Option<Vec<u32>> {
    let mut transfers = events.transfers.clone();
    transfers.sort_by_key(|transfer| transfer.to);
    let begun = transfers.iter().map(|transfer| transfer.from.get()).min()?;
    // A task waits once its transfer is in the device's queue.
    let waits = events.tasks.iter().filter_map(|task| task.waits.first());
    let soon = waits.filter(|wait| wait.from.get() < begun + latency.get() / 2);
    let ends = (1..).map(|served| begun + served * latency.get() + latency.get() / 2);
    let in_time = transfers
        .iter()
        .zip(ends)
        .all(|(transfer, end)| transfer.to.get() < end);
    let order = transfers.iter().map(|transfer| transfer.page.get());
    (soon.count() == 5 && in_time).then(|| order.collect())
}

/// Tasks of these urgencies, which map one file, in one reservation or with the last in one of its own.
fn tasks(pager: &Pager, urgencies: [u8; 5], apart: bool) -> [(TaskHandle, MappedRegion); 5] {
    let file = object(pager, ObjectKind::File, 8, Regime::Conserve);
    let (reservation, of_last) = (hard(pager, 24), hard(pager, 24));
    let mut reservations = [reservation; 5];
    if apart {
        reservations[4] = of_last;
    }
    std::array::from_fn(|at| (urgencies[at], reservations[at])).map(|(urgency, reservation)| {
        let task = pager.add_task(Some(reservation)).unwrap();
        task.set_urgency(Urgency::new(urgency));
        let region = task.map(file).unwrap();
        (task, region)
    })
}

/// Reads a page once `before` transfers are under way, or one has ended: then it was too late.
fn read_after(
    (task, region): &(TaskHandle, MappedRegion),
    page: usize,
    before: usize,
    over: &AtomicBool,
    pager: &Pager,
) {
    let bound = task.enter().unwrap();
    while pager.outstanding().len() < before && !over.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    bound.read_word(region, page * WORDS).unwrap();
    over.store(true, Ordering::SeqCst);
}

/// Five tasks read a page of a file each, one after the other; the order in which they get it.
fn order_of(urgencies: [u8; 5]) -> Vec<u32> {
    in_time(|latency| {
        let pager = slow_pager(latency);
        let tasks = tasks(&pager, urgencies, false);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (number, task) in tasks.iter().enumerate() {
                let (pager, over) = (&pager, &over);
                scope.spawn(move || read_after(task, number, number, over, pager));
            }
        });
        drop(tasks);
        audit(&pager);
        order(&pager.take_events().unwrap(), latency)
    })
}

#[test]
fn the_urgent_overtake_those_that_wait() {
    // The first has the channel; of the others the most urgent is next.
    assert_eq!(order_of([0, 0, 5, 200, 5]), [0, 3, 2, 4, 1]);
    assert_eq!(order_of([0; 5]), [0, 1, 2, 3, 4]);
}

/// A task that comes to wait for a page on its way makes it as urgent as itself, also in the reservation of those that
/// wait for other pages.
#[test]
fn who_joins_a_wait_hastens_it() {
    for apart in [false, true] {
        let order = in_time(|latency| {
            let pager = slow_pager(latency);
            let tasks = tasks(&pager, [0, 0, 0, 0, 255], apart);
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for (number, task) in tasks.iter().enumerate() {
                    let (pager, over) = (&pager, &over);
                    // The last wants what the last of four that wait does.
                    scope.spawn(move || read_after(task, number.min(3), number, over, pager));
                }
            });
            drop(tasks);
            audit(&pager);
            order(&pager.take_events().unwrap(), latency)
        });
        // The first was at the device already.
        assert_eq!(order, [0, 3, 1, 2], "{apart}");
    }
}

/// A write-back carries the urgency of the task whose fault caused it: beside three that wait for theirs, the urgent
/// task waits for one transfer at most before its own.
#[test]
fn write_backs_are_as_urgent_as_the_fault_that_causes_them() {
    let pager = slow_pager(Duration::from_millis(20));
    let barrier = Barrier::new(4);
    let setups = [0, 0, 0, 255].map(|urgency| {
        let task = pager.add_task(Some(hard(&pager, 24))).unwrap();
        task.set_urgency(Urgency::new(urgency));
        let region = task.map(common::private(&pager, 48)).unwrap();
        (task, region)
    });
    std::thread::scope(|scope| {
        for (task, region) in &setups {
            let barrier = &barrier;
            scope.spawn(move || {
                let bound = task.enter().unwrap();
                (0..24).for_each(|page| write_page(&bound, region, page, 1));
                barrier.wait();
                // Every one of these needs the frame of a page that must be written first.
                (24..30).for_each(|page| write_page(&bound, region, page, 1));
            });
        }
    });
    let events = pager.take_events().unwrap();
    let urgent = setups[3].0.id().index();
    let waits = &events.tasks[urgent].waits;
    let others = events.transfers.iter().filter(|transfer| {
        let own = transfer.task.is_some_and(|task| usize::from(task) == urgent);
        !own && waits
            .iter()
            .any(|wait| wait.from < transfer.to && transfer.to < wait.to)
    });
    // In the order of arrival it would be three for each.
    let (others, waits) = (others.count(), waits.len());
    assert!(
        waits >= 6 && others < 2 * waits,
        "{others} transfers of others in {waits} waits"
    );
    drop(setups);
    audit(&pager);
}
