//! Who hurries is served first, though others came before.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{WORDS, audit, config, hard, object, write_page};
use freehold_pager::core::limits::{ObjectKind, Regime};
use freehold_pager::core::units::Duration;
use freehold_pager::store::Urgency;
use freehold_pager::{Pager, StoreShape, TaskHandle};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};

/// One channel, and slow: everybody waits for it.
fn slow_pager() -> Pager {
    let mut config = config(128, 256, 0);
    config.store = StoreShape {
        latency: Duration::from_millis(20),
        parallel: 1,
    };
    Pager::new(config).unwrap()
}

/// Five tasks read a page of a file each, one after the other; the order in which they get it.
fn order(urgencies: [u8; 5]) -> Vec<usize> {
    let pager = slow_pager();
    let file = object(&pager, ObjectKind::File, 8, Regime::Conserve);
    let reservation = hard(&pager, 24);
    let tasks: Vec<(TaskHandle, _)> = urgencies
        .iter()
        .map(|&urgency| {
            let task = pager.add_task(Some(reservation)).unwrap();
            task.set_urgency(Urgency::new(urgency));
            let region = task.map(file).unwrap();
            (task, region)
        })
        .collect();
    let (order, turn) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (number, (task, region)) in tasks.iter().enumerate() {
            let (order, turn, pager) = (&order, &turn, &pager);
            scope.spawn(move || {
                let bound = task.enter().unwrap();
                // Each begins its transfer once the one before has.
                while turn.load(Ordering::SeqCst) < number {
                    std::thread::yield_now();
                }
                std::thread::scope(|inner| {
                    inner.spawn(|| {
                        while pager.outstanding().len() <= number && order.lock().unwrap().is_empty() {
                            std::thread::yield_now();
                        }
                        turn.store(number + 1, Ordering::SeqCst);
                    });
                    bound.read_word(region, number * WORDS).unwrap();
                    order.lock().unwrap().push(number);
                });
            });
        }
    });
    drop(tasks);
    audit(&pager);
    order.into_inner().unwrap()
}

#[test]
fn the_urgent_overtake_those_that_wait() {
    // The first has the channel; of the others the most urgent is next.
    assert_eq!(order([0, 0, 5, 200, 5]), [0, 3, 2, 4, 1]);
    assert_eq!(order([0; 5]), [0, 1, 2, 3, 4]);
}

/// A task that comes to wait for a page on its way makes it as urgent as itself.
#[test]
fn who_joins_a_wait_hastens_it() {
    let pager = slow_pager();
    let file = object(&pager, ObjectKind::File, 8, Regime::Conserve);
    let (slow, fast) = (hard(&pager, 16), hard(&pager, 16));
    let background: Vec<_> = (0..4)
        .map(|_| {
            let task = pager.add_task(Some(slow)).unwrap();
            let region = task.map(file).unwrap();
            (task, region)
        })
        .collect();
    let urgent = pager.add_task(Some(fast)).unwrap();
    urgent.set_urgency(Urgency::HIGHEST);
    let at_urgent = urgent.map(file).unwrap();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (page, (task, region)) in background.iter().enumerate() {
            let before = page;
            let (order, pager) = (&order, &pager);
            scope.spawn(move || {
                let bound = task.enter().unwrap();
                while pager.outstanding().len() < before {
                    std::thread::yield_now();
                }
                bound.read_word(region, page * WORDS).unwrap();
                order.lock().unwrap().push(page);
            });
        }
        scope.spawn(|| {
            let bound = urgent.enter().unwrap();
            while pager.outstanding().len() < 4 {
                std::thread::yield_now();
            }
            // The last of four that wait.
            bound.read_word(&at_urgent, 3 * WORDS).unwrap();
        });
    });
    // The first was at the device already.
    let order = order.into_inner().unwrap();
    assert_eq!(order.iter().position(|&page| page == 3), Some(1), "{order:?}");
    drop((background, urgent));
    audit(&pager);
}

/// A write-back carries the urgency of the task whose fault caused it: beside three that wait for theirs, the urgent
/// task waits for one transfer at most before its own.
#[test]
fn write_backs_are_as_urgent_as_the_fault_that_causes_them() {
    let pager = slow_pager();
    let barrier = Barrier::new(4);
    let setups = [0, 0, 0, 255].map(|urgency| {
        let task = pager.add_task(Some(hard(&pager, 24))).unwrap();
        task.set_urgency(Urgency::new(urgency));
        let region = task.map(common::private(&pager, 48)).unwrap();
        (task, region)
    });
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (number, (task, region)) in setups.iter().enumerate() {
            let (barrier, order) = (&barrier, &order);
            scope.spawn(move || {
                let bound = task.enter().unwrap();
                (0..24).for_each(|page| write_page(&bound, region, page, 1));
                barrier.wait();
                // Every one of these needs the frame of a page that must be written first.
                (24..30).for_each(|page| write_page(&bound, region, page, 1));
                order.lock().unwrap().push(number);
            });
        }
    });
    // Six of its own and six of others; the others need three times as many for six of theirs.
    assert_eq!(order.into_inner().unwrap()[0], 3);
    drop(setups);
    audit(&pager);
}
