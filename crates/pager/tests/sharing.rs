//! Two reservations share a region: conserved, locked, and unmanaged for comparison.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{WORDS, audit, check_page, hard, object, pager, shared, stamp, write_page};
use freehold_pager::core::id::{ObjectId, ReservationId};
use freehold_pager::core::limits::{ObjectKind, PageRange, Regime};
use freehold_pager::core::units::{PageCount, PageIndex};
use freehold_pager::{Locking, Pager};

/// Runs `work` as a task of `reservation` that maps `object`, in a thread of its own, to its end.
fn as_task<R: Send>(
    pager: &Pager,
    reservation: ReservationId,
    object: ObjectId,
    work: impl FnOnce(&freehold_pager::Bound<'_>, &freehold_pager::MappedRegion) -> R + Send,
) -> R {
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(object).unwrap();
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let bound = task.enter().unwrap();
                work(&bound, &region)
            })
            .join()
            .unwrap()
    })
}

#[test]
fn what_one_task_wrote_another_reads_without_a_fill() {
    let pager = pager(64, 64, 0);
    let (first, second) = (hard(&pager, 24), hard(&pager, 24));
    let region = shared(&pager, 16);
    let writer = pager.add_task(Some(first)).unwrap();
    let reader = pager.add_task(Some(second)).unwrap();
    let (at_writer, at_reader) = (writer.map(region).unwrap(), reader.map(region).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bound = writer.enter().unwrap();
            (0..16).for_each(|page| write_page(&bound, &at_writer, page, 1));
        });
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bound = reader.enter().unwrap();
            (0..16).for_each(|page| check_page(&bound, &at_reader, page, 1));
        });
    });
    assert_eq!(reader.counts().soft_faults, 16);
    assert_eq!(reader.counts().zero_fills, 0);
    // Conservation: the reader's frames for these pages are set aside, so both hold all they were promised.
    for reservation in [first, second] {
        let view = pager.inspect(|core| core.reservation(reservation)).unwrap();
        assert_eq!(view.held, view.capacity);
    }
    assert_eq!(
        pager.inspect(|core| core.reservation(second)).unwrap().conserved.get(),
        16
    );
    audit(&pager);
}

#[test]
fn a_conserved_page_survives_its_owner() {
    let pager = pager(64, 128, 0);
    let (first, second) = (hard(&pager, 24), hard(&pager, 24));
    let region = shared(&pager, 16);
    let survivor = pager.add_task(Some(second)).unwrap();
    let at_survivor = survivor.map(region).unwrap();
    as_task(&pager, first, region, |bound, mapped| {
        (0..16).for_each(|page| write_page(bound, mapped, page, 3));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let bound = survivor.enter().unwrap();
                (0..16).for_each(|page| check_page(&bound, &at_survivor, page, 3));
            });
        });
    });
    pager.release(first).unwrap();
    audit(&pager);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bound = survivor.enter().unwrap();
            (0..16).for_each(|page| check_page(&bound, &at_survivor, page, 3));
        });
    });
    assert_eq!(survivor.counts().swap_ins, 0);
    audit(&pager);
}

/// Two tasks take turns over a region larger than either reservation; returns all swap-ins.
fn take_turns(regime: Regime) -> u64 {
    let pager = pager(64, 96, 0);
    let reservations = [hard(&pager, 24), hard(&pager, 24)];
    let region = object(&pager, ObjectKind::Shared, 64, regime);
    let tasks = reservations.map(|reservation| pager.add_task(Some(reservation)).unwrap());
    let regions = [tasks[0].map(region).unwrap(), tasks[1].map(region).unwrap()];
    for version in 1..5_u64 {
        let turn = usize::try_from(version % 2).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let bound = tasks[turn].enter().unwrap();
                for page in 0..64 {
                    check_page(&bound, &regions[turn], page, version - 1);
                    write_page(&bound, &regions[turn], page, version);
                }
                bound.job_end();
            });
        });
    }
    audit(&pager);
    tasks.iter().map(|task| task.counts().swap_ins).sum()
}

#[test]
fn turns_under_conservation() {
    assert!(take_turns(Regime::Conserve) > 0);
}

#[test]
fn turns_unmanaged() {
    assert!(take_turns(Regime::Unmanaged) > 0);
}

#[test]
fn locked_pages_are_resident_before_the_first_touch_and_stay() {
    let pager = pager(96, 160, 0);
    let (first, second) = (hard(&pager, 32), hard(&pager, 32));
    let region = shared(&pager, 16);
    let other = object(&pager, ObjectKind::Private, 80, Regime::Conserve);
    let task = pager.add_task(Some(first)).unwrap();
    let sharer = pager.add_task(Some(second)).unwrap();
    let (locked, sharers) = (task.map(region).unwrap(), sharer.map(region).unwrap());
    let private = task.map(other).unwrap();
    let range = PageRange {
        first: PageIndex::new(0),
        count: PageCount::new(16),
    };
    for reservation in [first, second] {
        assert_eq!(pager.lock_pages(reservation, region, range), Ok(Locking::Complete));
    }
    audit(&pager);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bound = task.enter().unwrap();
            (0..16).for_each(|page| write_page(&bound, &locked, page, 1));
            // Enough pressure to evict everything that can be.
            for version in 1..3 {
                (0..80).for_each(|page| write_page(&bound, &private, page, version));
            }
            (0..16).for_each(|page| check_page(&bound, &locked, page, 1));
        });
    });
    let counts = task.counts();
    assert_eq!(counts.soft_faults, 16);
    assert_eq!(counts.zero_fills, 80);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bound = sharer.enter().unwrap();
            (0..16).for_each(|page| check_page(&bound, &sharers, page, 1));
        });
    });
    for reservation in [first, second] {
        pager.unlock_pages(reservation, region, range).unwrap();
    }
    audit(&pager);
}

#[test]
fn a_page_that_everybody_wants_at_once_is_filled_once() {
    const PAGES: usize = 40;
    for latency in [0, 60] {
        let pager = pager(128, 64, latency);
        let reservations = [hard(&pager, 48), hard(&pager, 48)];
        let region = shared(&pager, 40);
        let tasks: Vec<_> = (0..4)
            .map(|number| {
                let task = pager.add_task(Some(reservations[number % 2])).unwrap();
                let mapped = task.map(region).unwrap();
                (task, mapped)
            })
            .collect();
        let barrier = std::sync::Barrier::new(tasks.len());
        std::thread::scope(|scope| {
            for (number, (task, mapped)) in tasks.iter().enumerate() {
                let barrier = &barrier;
                scope.spawn(move || {
                    let bound = task.enter().unwrap();
                    for page in 0..PAGES {
                        barrier.wait();
                        let word = page * WORDS + number;
                        bound.write_word(mapped, word, stamp(page, number, 1)).unwrap();
                        barrier.wait();
                        for other in 0..4 {
                            let found = bound.read_word(mapped, page * WORDS + other).unwrap();
                            assert_eq!(found, stamp(page, other, 1));
                        }
                    }
                });
            }
        });
        let counts: Vec<_> = tasks.iter().map(|(task, _)| task.counts()).collect();
        let fills: u64 = counts.iter().map(|counts| counts.zero_fills).sum();
        let soft: u64 = counts.iter().map(|counts| counts.soft_faults).sum();
        assert_eq!((fills, soft), (40, 3 * 40));
        audit(&pager);
    }
}
