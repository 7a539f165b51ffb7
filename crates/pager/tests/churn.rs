//! Tasks, reservations and locks come and go while others fault.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, WORDS, audit, check_page, hard, object, pager, private, shared, stamp, write_page};
use freehold_pager::Locking;
use freehold_pager::core::limits::{ObjectKind, PageRange, Regime, ReservationKind, ReservationSpec};
use freehold_pager::core::units::{FrameCount, PageCount, PageIndex};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn tasks_come_and_go_under_a_task_that_stays() {
    for latency in [0, 60] {
        let pager = pager(128, 256, latency);
        let (first, second) = (hard(&pager, 32), hard(&pager, 32));
        let region = shared(&pager, 48);
        let stays = pager.add_task(Some(first)).unwrap();
        let (at_stays, own) = (stays.map(region).unwrap(), stays.map(private(&pager, 48)).unwrap());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let bound = stays.enter().unwrap();
                let mut version = 0;
                while !stop.load(Ordering::Relaxed) {
                    version += 1;
                    for page in 0..48 {
                        // Its own word of every shared page, and all of its private pages.
                        let at = page * WORDS;
                        let found = bound.read_word(&at_stays, at).unwrap();
                        let wanted = if version == 1 { 0 } else { stamp(page, 0, version - 1) };
                        assert_eq!(found, wanted);
                        bound.write_word(&at_stays, at, stamp(page, 0, version)).unwrap();
                        check_page(&bound, &own, page, version - 1);
                        write_page(&bound, &own, page, version);
                    }
                }
            });
            for life in 1..=60_u64 {
                // In a reservation, in the other one, or without any.
                let reservation = [Some(second), Some(first), None][usize::try_from(life % 3).unwrap()];
                let task = pager.add_task(reservation).unwrap();
                let mapped = task.map(region).unwrap();
                let bound = task.enter().unwrap();
                let mut random = Random(life);
                for _ in 0..100 {
                    let page = random.below(48);
                    let at = page * WORDS + 1 + random.below(3);
                    let found = bound.read_word(&mapped, at).unwrap();
                    assert!(
                        found == 0 || found == stamp(page, at % WORDS, found >> 40),
                        "{found:#x}"
                    );
                    bound.write_word(&mapped, at, stamp(page, at % WORDS, life)).unwrap();
                }
                bound.job_end();
                drop(bound);
                drop(task);
                pager.check_laws().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
        drop(stays);
        audit(&pager);
    }
}

#[test]
fn a_firm_reservation_borrows_and_gives_back() {
    let pager = pager(64, 128, 0);
    let spec = |capacity, kind| ReservationSpec {
        capacity: FrameCount::new(capacity),
        kind,
    };
    let firm = pager.reserve(spec(16, ReservationKind::Firm)).unwrap();
    let task = pager.add_task(Some(firm)).unwrap();
    let region = task.map(private(&pager, 48)).unwrap();
    {
        let bound = task.enter().unwrap();
        (0..48).for_each(|page| write_page(&bound, &region, page, 1));
    }
    let view = pager.inspect(|core| core.reservation(firm)).unwrap();
    assert!(view.borrowed.get() > 16, "{view:?}");
    audit(&pager);
    // A reservation that needs lent frames gets them, and the borrower's dirty pages are written back.
    let late = pager.reserve(spec(40, ReservationKind::Hard)).unwrap();
    let view = pager.inspect(|core| core.reservation(late)).unwrap();
    assert_eq!(view.free.get(), 40);
    audit(&pager);
    let bound = task.enter().unwrap();
    (0..48).for_each(|page| check_page(&bound, &region, page, 1));
    drop(bound);
    drop(task);
    pager.release(late).unwrap();
    audit(&pager);
}

#[test]
fn locks_come_and_go_under_faulting_tasks() {
    let pager = pager(160, 256, 60);
    let (first, second) = (hard(&pager, 48), hard(&pager, 48));
    let region = object(&pager, ObjectKind::Shared, 64, Regime::Conserve);
    let tasks = [first, second].map(|reservation| {
        let task = pager.add_task(Some(reservation)).unwrap();
        let mapped = task.map(region).unwrap();
        (task, mapped)
    });
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, (task, mapped)) in tasks.iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                let bound = task.enter().unwrap();
                let mut version = 0;
                while !stop.load(Ordering::Relaxed) {
                    version += 1;
                    for page in 0..64 {
                        let at = page * WORDS + number;
                        let found = bound.read_word(mapped, at).unwrap();
                        let wanted = if version == 1 {
                            0
                        } else {
                            stamp(page, number, version - 1)
                        };
                        assert_eq!(found, wanted);
                        bound.write_word(mapped, at, stamp(page, number, version)).unwrap();
                    }
                }
            });
        }
        let mut random = Random(3);
        for _ in 0..40 {
            let range = PageRange {
                first: PageIndex::new(u32::try_from(random.below(40)).unwrap()),
                count: PageCount::new(16),
            };
            for reservation in [first, second] {
                assert_eq!(pager.lock_pages(reservation, region, range), Ok(Locking::Complete));
            }
            pager.check_laws().unwrap();
            for reservation in [first, second] {
                pager.unlock_pages(reservation, region, range).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(tasks);
    audit(&pager);
}
