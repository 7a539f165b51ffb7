//! Frames that were lent come back on real pages: within the stated number of transfers, without the borrower's help,
//! and with nothing lost.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, audit, check_page, hard, pager, private, write_page};
use freehold_pager::core::error::AdmitError;
use freehold_pager::core::id::ReservationId;
use freehold_pager::core::limits::{ReservationKind, ReservationSpec};
use freehold_pager::core::units::FrameCount;
use freehold_pager::{Pager, ReserveError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

const POOL: u32 = 1024;
const PAGES: u32 = 900;
/// What is evicted together, at most.
const BATCH: u64 = 16;

fn firm(pager: &Pager, frames: u32) -> ReservationId {
    pager
        .reserve(ReservationSpec {
            capacity: FrameCount::new(frames),
            kind: ReservationKind::Firm,
        })
        .unwrap()
}

/// The borrower's thread does nothing at all while its frames are taken back.
#[test]
fn a_sleeping_borrower_gives_back_what_is_wanted_and_loses_nothing() {
    let pager = pager(POOL, PAGES, 200);
    let borrower = firm(&pager, 64);
    let object = private(&pager, PAGES);
    let task = pager.add_task(Some(borrower)).unwrap();
    let region = task.map(object).unwrap();
    let ((written, is_written), (go_on, goes_on)) = (channel(), channel());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let goes_on = goes_on;
            let bound = task.enter().unwrap();
            (0..PAGES as usize).for_each(|page| write_page(&bound, &region, page, 1));
            written.send(()).unwrap();
            goes_on.recv().unwrap();
            (0..PAGES as usize).for_each(|page| check_page(&bound, &region, page, 1));
        });
        is_written.recv().unwrap();
        let lent = pager.inspect(|core| core.reservation(borrower)).unwrap().borrowed.get();
        assert_eq!(lent, PAGES - 64, "it has borrowed all it needs");
        assert_eq!(pager.report().unwrap().store.writes, 0);
        let wanted = 600;
        let missing = u64::from(wanted - (POOL - PAGES));
        let claimant = hard(&pager, wanted);
        let report = pager.report().unwrap();
        assert!(
            (missing..=missing + BATCH).contains(&report.store.writes),
            "{} writes for {missing} frames",
            report.store.writes
        );
        assert!(
            report.most_transfers > 8,
            "they are on their way together, not one after the other"
        );
        let view = pager.inspect(|core| core.reservation(borrower)).unwrap();
        assert_eq!(view.taken_back, report.store.writes);
        assert_eq!(
            pager.inspect(|core| core.reservation(claimant)).unwrap().free.get(),
            wanted
        );
        go_on.send(()).unwrap();
    });
    audit(&pager);
}

/// Reservations come and go while two borrowers fault at full rate; every one that fits is admitted.
#[test]
fn busy_borrowers_cannot_keep_a_reservation_out() {
    let pager = pager(POOL, 2 * PAGES, 20);
    let object = private(&pager, 2 * PAGES);
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            let task = pager.add_task(Some(firm(&pager, 64))).unwrap();
            let region = task.map(object).unwrap();
            (task, region)
        })
        .collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, (task, region)) in tasks.iter().enumerate() {
            let over = &over;
            scope.spawn(move || {
                let bound = task.enter().unwrap();
                let mut random = Random(number as u64 + 1);
                let mut versions = vec![0; PAGES as usize];
                while !over.load(Ordering::Relaxed) {
                    // Each writes pages of its own half.
                    let page = random.below(PAGES as usize);
                    let at = number * PAGES as usize + page;
                    check_page(&bound, region, at, versions[page]);
                    versions[page] += 1;
                    write_page(&bound, region, at, versions[page]);
                }
            });
        }
        for round in 0..40 {
            // Few frames too: what the borrowers read back meanwhile must not count against them.
            let capacity = if round % 2 == 0 {
                1 + round / 8
            } else {
                100 + 20 * round
            };
            let admitted = pager.reserve(ReservationSpec {
                capacity: FrameCount::new(capacity),
                kind: ReservationKind::Hard,
            });
            let id = admitted.unwrap_or_else(|error| panic!("round {round}: {error}"));
            pager.release(id).unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    audit(&pager);
}

/// A store that refuses every write gives nothing back: the admission is refused, and the borrower keeps its pages.
#[test]
fn a_failing_store_refuses_the_claimant_and_harms_nobody() {
    let pager = pager(POOL, PAGES, 0);
    let borrower = firm(&pager, 64);
    let object = private(&pager, PAGES);
    let task = pager.add_task(Some(borrower)).unwrap();
    let region = task.map(object).unwrap();
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let bound = task.enter().unwrap();
                (0..PAGES as usize).for_each(|page| write_page(&bound, &region, page, 1));
                pager.store().faults().fail_all_writes(true);
                let refused = pager.reserve(ReservationSpec {
                    capacity: FrameCount::new(500),
                    kind: ReservationKind::Hard,
                });
                assert!(
                    matches!(refused, Err(ReserveError::Refused(AdmitError::InUse { .. }))),
                    "{refused:?}"
                );
                pager.store().faults().fail_all_writes(false);
                (0..PAGES as usize).for_each(|page| check_page(&bound, &region, page, 1));
            })
            .join()
            .unwrap();
    });
    assert_eq!(task.counts().swap_ins, 0, "nothing of it left memory");
    audit(&pager);
}
