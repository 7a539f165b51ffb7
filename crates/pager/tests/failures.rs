//! A store that fails in the middle: one task gets a defined error, nobody else notices, dirty pages are kept.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{WORDS, audit, check_page, every_pager, hard, pager, private, stamp, write_page};
use freehold_pager::core::fact::{PageRef, Request};
use freehold_pager::store::Slot;
use freehold_pager::{AccessError, Bound, Failure, MappedRegion, Pager};

const FAILED_READ: AccessError = AccessError::Failed(Failure::Read);
const FAILED_WRITE_BACK: AccessError = AccessError::Failed(Failure::WriteBack);

/// A task with 16 frames and a region of 64 pages, all of them written.
fn with_filled_region(pager: &Pager, work: impl FnOnce(&Bound<'_>, &MappedRegion)) {
    let reservation = hard(pager, 16);
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(private(pager, 64)).unwrap();
    let bound = task.enter().unwrap();
    for page in 0..64 {
        write_page(&bound, &region, page, 1);
    }
    work(&bound, &region);
}

#[test]
fn a_failed_read_is_an_error_once_and_the_page_is_still_there() {
    for pager in every_pager(32, 64) {
        with_filled_region(&pager, |bound, region| {
            // Page 0 was evicted long ago.
            pager.store().faults().fail_read(1);
            assert_eq!(bound.read_word(region, 0), Err(FAILED_READ));
            check_page(bound, region, 0, 1);
            assert_eq!(bound.task().times().failures, 1);
            for page in 0..64 {
                check_page(bound, region, page, 1);
            }
        });
        audit(&pager);
    }
}

#[test]
fn a_damaged_record_is_an_error_every_time_and_never_returned() {
    for pager in every_pager(32, 64) {
        with_filled_region(&pager, |bound, region| {
            pager.store().damage(Slot::new(5)).unwrap();
            for _ in 0..3 {
                assert_eq!(bound.read_word(region, 5 * WORDS), Err(FAILED_READ));
                assert_eq!(bound.write_word(region, 5 * WORDS, 1), Err(FAILED_READ));
            }
            for page in (0..64).filter(|&page| page != 5) {
                check_page(bound, region, page, 1);
            }
        });
        audit(&pager);
    }
}

#[test]
fn copies_stop_at_the_page_that_cannot_be_had() {
    for pager in every_pager(32, 64) {
        with_filled_region(&pager, |bound, region| {
            pager.store().damage(Slot::new(2)).unwrap();
            let mut bytes = vec![0; 4 * 4096];
            assert_eq!(bound.read(region, 0, &mut bytes), Err(FAILED_READ));
            let word = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap());
            for at in 0..2 * WORDS {
                assert_eq!(word(at), stamp(at / WORDS, at % WORDS, 1));
            }
            assert_eq!(word(2 * WORDS), 0);
            assert_eq!(bound.write(region, 4096, &bytes[4096..]), Err(FAILED_READ));
        });
        audit(&pager);
    }
}

#[test]
fn pages_that_cannot_be_written_back_are_kept_dirty() {
    for pager in every_pager(32, 64) {
        with_filled_region(&pager, |bound, region| {
            let resident_before = pager.report().unwrap().resident_measured;
            pager.store().faults().fail_all_writes(true);
            let mut refused = 0;
            for page in 0..64 {
                match bound.read_word(region, page * WORDS) {
                    Ok(word) => assert_eq!(word, stamp(page, 0, 1)),
                    Err(error) => {
                        assert_eq!(error, FAILED_WRITE_BACK);
                        refused += 1;
                    }
                }
            }
            assert!(refused > 0, "16 frames of dirty pages cannot hold 64 pages");
            pager.store().faults().fail_all_writes(false);
            for page in 0..64 {
                check_page(bound, region, page, 1);
            }
            assert!(pager.report().unwrap().resident_measured.get() <= resident_before.get() + 16);
        });
        audit(&pager);
    }
}

#[test]
fn others_do_not_notice() {
    for pager in every_pager(64, 128) {
        let (victim, bystander) = (hard(&pager, 16), hard(&pager, 16));
        let failing = pager.add_task(Some(victim)).unwrap();
        let other = pager.add_task(Some(bystander)).unwrap();
        let (at_failing, at_other) = (
            failing.map(private(&pager, 48)).unwrap(),
            other.map(private(&pager, 48)).unwrap(),
        );
        std::thread::scope(|scope| {
            let failing = scope.spawn(|| {
                let bound = failing.enter().unwrap();
                (0..48).for_each(|page| write_page(&bound, &at_failing, page, 1));
                // The first object has the first slots. A write still under way would make the damage good.
                let ours =
                    |(page, _): &(PageRef, Request)| page.object() == at_failing.object() && page.page().get() < 24;
                while pager.outstanding().iter().any(ours) {
                    bound.job_end();
                }
                (0..24).for_each(|slot| pager.store().damage(Slot::new(slot)).unwrap());
                let errors = (0..48)
                    .filter(|page| bound.read_word(&at_failing, page * WORDS) == Err(FAILED_READ))
                    .count();
                assert_eq!(errors, 24);
            });
            let other = scope.spawn(|| {
                let bound = other.enter().unwrap();
                for version in 1..6 {
                    for page in 0..48 {
                        check_page(&bound, &at_other, page, version - 1);
                        write_page(&bound, &at_other, page, version);
                    }
                }
            });
            failing.join().unwrap();
            other.join().unwrap();
        });
        assert_eq!(other.times().failures, 0);
        drop((failing, other));
        audit(&pager);
    }
}

/// Run in a process of its own, because it dies.
#[test]
fn an_access_that_is_not_ours_dies_as_it_would_natively() {
    if std::env::var_os("FREEHOLD_DIE").is_some() {
        let pager = pager(32, 64, 0);
        with_filled_region(&pager, |_, region| {
            pager.store().damage(Slot::new(0)).unwrap();
            // SAFETY: the region is mapped for this thread's task; the page cannot be had, so this never returns.
            unsafe { region.base().read_volatile() };
        });
        return;
    }
    use std::os::unix::process::ExitStatusExt;
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "an_access_that_is_not_ours_dies_as_it_would_natively",
            "--test-threads=1",
        ])
        .env("FREEHOLD_DIE", "1")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(7), "{status}");
}
