//! One task in one reservation: faults, evictions and refills on real pages.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, audit, check_page, config, hard, object, pager, private, write_page};
use freehold_linux::PageRange;
use freehold_pager::core::limits::{ObjectKind, Regime};
use freehold_pager::core::units::{PageCount, PageIndex};
use freehold_pager::{AccessError, Locking, Pager, StoreMedium};

#[test]
fn pages_that_fit_are_filled_once_and_stay() {
    let pager = pager(64, 64, 0);
    let reservation = hard(&pager, 40);
    let region = private(&pager, 32);
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(region).unwrap();
    let bound = task.enter().unwrap();
    for page in 0..32 {
        check_page(&bound, &region, page, 0);
    }
    for version in 1..4 {
        for page in 0..32 {
            write_page(&bound, &region, page, version);
            check_page(&bound, &region, page, version);
        }
    }
    let counts = task.counts();
    assert_eq!((counts.zero_fills, counts.swap_ins, counts.evictions), (32, 0, 0));
    // Read fills are write-protected, so that the core learns of the first write.
    assert_eq!(counts.write_faults, 32);
    assert_eq!(task.times().faults, 64 + counts.soft_faults);
    drop(bound);
    audit(&pager);
}

#[test]
fn a_first_write_needs_one_fault_and_a_clean_page_no_store() {
    let pager = pager(32, 128, 0);
    let reservation = hard(&pager, 16);
    let object = private(&pager, 64);
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(object).unwrap();
    let bound = task.enter().unwrap();
    for page in 0..64 {
        check_page(&bound, &region, page, 0);
    }
    assert_eq!(pager.store().stats().writes, 0);
    assert!(task.counts().evictions > 0);
    let before = task.counts();
    write_page(&bound, &region, 0, 1);
    let after = task.counts();
    assert_eq!(after.zero_fills, before.zero_fills + 1);
    assert_eq!(after.write_faults, before.write_faults);
    drop(bound);
    audit(&pager);
}

fn cycle(latency_us: u64) {
    let pager = pager(64, 128, latency_us);
    let reservation = hard(&pager, 32);
    let object = private(&pager, 96);
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(object).unwrap();
    let bound = task.enter().unwrap();
    for version in 1..4 {
        for page in 0..96 {
            if version > 1 {
                check_page(&bound, &region, page, version - 1);
            }
            write_page(&bound, &region, page, version);
        }
        bound.job_end();
        let view = pager.inspect(|core| core.reservation(reservation)).unwrap();
        assert_eq!(view.held.get(), 32);
    }
    let counts = task.counts();
    assert_eq!(counts.zero_fills, 96);
    assert_eq!(counts.swap_ins, pager.store().stats().reads);
    assert!(counts.swap_ins >= 96 && counts.evictions >= counts.swap_ins);
    drop(bound);
    audit(&pager);
}

#[test]
fn a_region_larger_than_its_reservation_keeps_its_content() {
    cycle(0);
}

#[test]
fn the_same_with_a_latency_to_spin_for() {
    cycle(10);
}

#[test]
fn the_same_with_a_latency_to_sleep_for() {
    cycle(100);
}

#[test]
fn random_accesses_find_what_was_written_last() {
    let pager = pager(48, 256, 60);
    let reservation = hard(&pager, 24);
    let object = private(&pager, 200);
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(object).unwrap();
    let bound = task.enter().unwrap();
    let mut random = Random(7);
    let mut versions = [0_u64; 200];
    for _ in 0..3000 {
        let page = random.below(200);
        check_page(&bound, &region, page, versions[page]);
        if random.below(3) == 0 {
            versions[page] += 1;
            write_page(&bound, &region, page, versions[page]);
        }
        if random.below(50) == 0 {
            bound.job_end();
        }
    }
    for (page, version) in versions.iter().enumerate() {
        check_page(&bound, &region, page, *version);
    }
    let times = task.times();
    assert_eq!(times.failures, 0);
    assert!(!times.store_slept.is_zero() && times.store_spun.is_zero());
    drop(bound);
    audit(&pager);
}

#[test]
fn a_task_without_a_reservation_lives_in_the_pool() {
    let pager = pager(32, 96, 0);
    let object = private(&pager, 64);
    let task = pager.add_task(None).unwrap();
    let region = task.map(object).unwrap();
    let bound = task.enter().unwrap();
    for version in 1..3 {
        for page in 0..64 {
            check_page(&bound, &region, page, version - 1);
            write_page(&bound, &region, page, version);
        }
    }
    drop(bound);
    audit(&pager);
    assert_eq!(pager.report().unwrap().backing.frames.get(), 0);
}

#[test]
fn file_pages_are_read_at_first_touch_with_the_content_they_were_given() {
    let pager = pager(32, 32, 0);
    let reservation = hard(&pager, 16);
    let file = object(&pager, ObjectKind::File, 32, Regime::Conserve);
    let content = [0x5a; 4096];
    pager.load(file, PageIndex::new(3), &content).unwrap();
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(file).unwrap();
    let bound = task.enter().unwrap();
    for page in 0..32 {
        let wanted = if page == 3 { 0x5a5a_5a5a_5a5a_5a5a } else { 0 };
        assert_eq!(bound.read_word(&region, page * common::WORDS), Ok(wanted));
    }
    assert_eq!(task.counts().file_reads, 32);
    assert_eq!(pager.store().stats().writes, 0);
    drop(bound);
    audit(&pager);
}

#[test]
fn bytes_are_copied_across_pages() {
    let pager = pager(32, 64, 0);
    let reservation = hard(&pager, 12);
    let object = private(&pager, 40);
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(object).unwrap();
    let bound = task.enter().unwrap();
    let sent: Vec<u8> = (0..40 * 4096 - 100)
        .map(|at: usize| (at % 251).to_le_bytes()[0])
        .collect();
    bound.write(&region, 77, &sent).unwrap();
    let mut received = vec![0; sent.len()];
    bound.read(&region, 77, &mut received).unwrap();
    assert!(sent == received);
    assert_eq!(
        bound.read(&region, 77, &mut vec![0; 40 * 4096]),
        Err(AccessError::OutOfBounds)
    );
    assert_eq!(bound.read_word(&region, region.words()), Err(AccessError::OutOfBounds));
    drop(bound);
    audit(&pager);
}

#[test]
fn two_pagers_in_one_process_do_not_meet() {
    let make = || Pager::new(config(32, 32, 0)).unwrap();
    let pagers = [make(), make()];
    std::thread::scope(|scope| {
        for pager in &pagers {
            scope.spawn(move || {
                let reservation = hard(pager, 16);
                let task = pager.add_task(Some(reservation)).unwrap();
                let region = task.map(private(pager, 32)).unwrap();
                let bound = task.enter().unwrap();
                for page in 0..32 {
                    write_page(&bound, &region, page, 1);
                }
                for page in 0..32 {
                    check_page(&bound, &region, page, 1);
                }
            });
        }
    });
    for pager in &pagers {
        audit(pager);
    }
}

#[test]
fn pages_zapped_by_hand_come_back_as_soft_faults() {
    let pager = pager(32, 32, 0);
    let reservation = hard(&pager, 24);
    let object = private(&pager, 16);
    let (task, other) = (
        pager.add_task(Some(reservation)).unwrap(),
        pager.add_task(Some(reservation)).unwrap(),
    );
    let (region, foreign) = (task.map(object).unwrap(), other.map(object).unwrap());
    let bound = task.enter().unwrap();
    for page in 0..16 {
        write_page(&bound, &region, page, 1);
    }
    assert_eq!(bound.zap(&region, PageRange::new(4, 8)), Ok(()));
    for page in 0..16 {
        check_page(&bound, &region, page, 1);
        write_page(&bound, &region, page, 2);
    }
    let counts = task.counts();
    assert_eq!((counts.zero_fills, counts.soft_faults, counts.write_faults), (16, 8, 0));
    for outside in [
        PageRange::new(0, 0),
        PageRange::new(8, 9),
        PageRange::new(usize::MAX, 2),
    ] {
        assert_eq!(bound.zap(&region, outside), Err(AccessError::OutOfBounds));
    }
    assert_eq!(bound.zap(&foreign, PageRange::new(0, 1)), Err(AccessError::OutOfBounds));
    drop(bound);
    audit(&pager);
}

/// However many pages are locked at once, the machine gives no more frames than are promised, but for the headroom.
#[test]
fn fills_run_ahead_of_the_reserve_by_no_more_than_the_headroom() {
    for kind in [ObjectKind::Shared, ObjectKind::File] {
        for medium in [StoreMedium::Memory, common::file(true)] {
            let pager = common::pager_over(600, 512, medium);
            let reservation = hard(&pager, 512);
            let region = object(&pager, kind, 500, Regime::Conserve);
            let task = pager.add_task(Some(reservation)).unwrap();
            task.map(region).unwrap();
            let all = freehold_pager::core::limits::PageRange {
                first: PageIndex::new(0),
                count: PageCount::new(500),
            };
            assert_eq!(pager.lock_pages(reservation, region, all), Ok(Locking::Complete));
            let report = pager.report().unwrap();
            assert!(report.backing.most_behind.get() <= 16, "{kind:?}: {report:#?}");
            drop(task);
        }
    }
}

/// Pages are evicted in batches, but a fault does not pay for a batch of compressions.
#[test]
fn a_fault_compresses_few_pages_however_many_are_evicted() {
    let pager = common::pager_over(1024, 2048, StoreMedium::Compressed(None));
    let reservation = hard(&pager, 512);
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(private(&pager, 2048)).unwrap();
    let bound = task.enter().unwrap();
    let mut most = 0;
    for _ in 0..3 {
        for page in 0..2048 {
            let before = pager.store().stats().writes;
            bound.write_word(&region, page * common::WORDS, 1).unwrap();
            most = most.max(pager.store().stats().writes - before);
        }
    }
    assert!((1..=3).contains(&most), "a fault compressed {most} pages");
}
