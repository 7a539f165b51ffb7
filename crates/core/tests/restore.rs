//! Restore before release: what is named, what stays, what is pinned as it comes back.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::pinned::{Pinned, settings};
use freehold_core::limits::ObjectKind;
use freehold_core::pinning::{JobReport, PinningSettings};
use freehold_core::units::PageCount;

/// A pool that restores, of this capacity.
fn with_capacity(pages: u32) -> PinningSettings {
    PinningSettings {
        initial_capacity: PageCount::new(pages),
        restore: PageCount::new(1),
        ..settings()
    }
}

fn restoring() -> PinningSettings {
    with_capacity(0)
}

fn named(world: &mut Pinned) -> usize {
    core::iter::from_fn(|| world.memory.next_to_restore(world.pool)).count()
}

#[test]
fn what_jobs_faulted_on_is_named_once_when_it_has_left() {
    let mut world = Pinned::new(120, 60, 900, restoring());
    for page in 0..40 {
        world.touch_task(page);
    }
    assert_eq!(named(&mut world), 0, "no job has ended");
    world.end_job(&JobReport::default());
    assert_eq!(named(&mut world), 0, "all are resident");
    // The next job faults on nothing; what the one before faulted on is wanted all the same.
    for page in 0..40 {
        world.touch_task(page);
    }
    for page in 0..900 {
        world.touch_hog(page);
    }
    world.end_job(&JobReport::default());
    assert_eq!(named(&mut world), 40);
    assert_eq!(named(&mut world), 0);
    // Nobody wanted them since: they are not brought back again.
    world.end_job(&JobReport::default());
    assert_eq!(named(&mut world), 0);
    for page in 0..30 {
        world.touch_task(page);
    }
    for page in 0..900 {
        world.touch_hog(page);
    }
    world.end_job(&JobReport::default());
    // The last time page 29 was followed by ten others.
    assert_eq!(named(&mut world), 40);
}

/// The first pages of all are in use when the last frame is taken. Where a pool restores, they have shown it by then.
#[test]
fn bits_are_cleared_before_a_page_has_to_leave_where_a_pool_restores() {
    for restore in [true, false] {
        let chosen = PinningSettings {
            restore: PageCount::new(u32::from(restore)),
            ..restoring()
        };
        let mut world = Pinned::new(1000, 100, 2000, chosen);
        for page in 0..2000 {
            if page % 50 == 0 {
                (0..100).for_each(|page| world.touch_task(page));
            }
            world.touch_hog(page);
        }
        let lost = world.evicted.iter().filter(|page| **page < 100).count();
        assert_eq!(lost == 0, restore, "{lost} pages of the task's left");
    }
}

#[test]
fn what_comes_back_is_pinned_at_once_while_there_is_capacity() {
    let mut world = Pinned::new(120, 60, 900, with_capacity(10));
    (0..40).for_each(|page| world.touch_task(page));
    (0..900).for_each(|page| world.touch_hog(page));
    assert_eq!(world.pinned(), (vec![], vec![]));
    (0..15).for_each(|page| world.touch_task(page));
    assert_eq!(world.pinned().1, (0..10).collect::<Vec<u32>>());
    assert_eq!(world.view().unpinned, 0, "nothing gave way");
}

#[test]
fn what_is_read_from_a_file_for_the_first_time_does_not_come_back() {
    let mut world = Pinned::of(ObjectKind::File, 120, [60, 900], with_capacity(10));
    (0..15).for_each(|page| world.touch_task(page));
    assert_eq!(world.pinned(), (vec![], vec![]));
}

/// Nobody has come by the page behind the last one, so the way goes on in the order of pages.
#[test]
fn where_nobody_has_gone_on_the_pages_behind_are_named() {
    let mut world = Pinned::new(120, 400, 900, restoring());
    // A start that leaves them in another order.
    (0..400).rev().for_each(|page| world.touch_task(page));
    (0..900).for_each(|page| world.touch_hog(page));
    world.end_job(&JobReport::default());
    let first = world.memory.next_to_restore(world.pool).map(|(_, page)| page.get());
    assert_eq!(first, Some(1), "the last that it touched was page 0");
}

/// Jobs go round: each wants ten pages more, which left long ago.
#[test]
fn what_jobs_went_on_to_the_last_time_is_named_first() {
    let mut world = Pinned::new(120, 400, 900, restoring());
    let job = |world: &mut Pinned, number: u32| {
        for page in 0..10 {
            world.touch_task((number * 10 + page) % 400);
        }
        for page in 0..900 {
            world.touch_hog(page);
        }
        world.end_job(&JobReport::default());
    };
    (0..40).for_each(|number| job(&mut world, number));
    for number in 40..60 {
        job(&mut world, number);
        let next = (number + 1) * 10;
        for page in next..next + 10 {
            let named = world.memory.next_to_restore(world.pool).map(|(_, page)| page.get());
            assert_eq!(named, Some(page % 400), "job {number}");
        }
    }
}

#[test]
fn only_so_many_pages_are_remembered_the_latest() {
    let mut world = Pinned::new(120, 1500, 900, restoring());
    for page in 0..1500 {
        world.touch_task(page);
    }
    for page in 0..900 {
        world.touch_hog(page);
    }
    world.end_job(&JobReport::default());
    let first = world.memory.next_to_restore(world.pool).map(|(_, page)| page.get());
    assert_eq!(first, Some(1499));
    assert_eq!(named(&mut world), 1023);
}
