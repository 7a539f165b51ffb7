//! Pages that a restoring pool's jobs went on to the last time, taken as touched where faults are dear.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::pinned::{Pinned, settings};
use freehold_core::pinning::{JobReport, PinningSettings};
use freehold_core::units::{Instant, PageCount, PageIndex};

const PAGES: u32 = 40;

/// A task whose job has gone through all of its pages upwards.
fn gone_through(restore: bool) -> Pinned {
    let chosen = PinningSettings {
        initial_capacity: PageCount::ZERO,
        restore: PageCount::new(u32::from(restore)),
        ..settings()
    };
    let mut world = Pinned::new(120, PAGES, 900, chosen);
    (0..PAGES).for_each(|page| world.touch_task(page));
    world
}

fn onwards(world: &Pinned, page: u32) -> Option<u32> {
    let next = world.memory.onwards(world.mapping(), PageIndex::new(page));
    next.map(PageIndex::get)
}

fn touch_onwards(world: &mut Pinned, page: u32) -> bool {
    let (mapping, now) = (world.mapping(), Instant::new(world.now));
    let touched = world.memory.touch_onwards(now, mapping, PageIndex::new(page));
    world.drain();
    world.check();
    touched.expect("a page of the task's")
}

/// What is named for restoring after a job.
fn named(world: &mut Pinned) -> Vec<u32> {
    world.end_job(&JobReport::default());
    let pages = core::iter::from_fn(|| world.memory.next_to_restore(world.pool));
    pages.map(|(_, page)| page.get()).collect()
}

#[test]
fn the_way_that_was_gone_is_known_where_pages_are_restored() {
    let world = gone_through(true);
    assert_eq!((onwards(&world, 0), onwards(&world, 17)), (Some(1), Some(18)));
    assert_eq!((onwards(&world, PAGES - 1), onwards(&world, PAGES)), (None, None));
    assert_eq!(onwards(&gone_through(false), 0), None);
}

#[test]
fn what_is_there_is_touched_and_mapped_and_nothing_else() {
    let mut world = gone_through(true);
    assert!(touch_onwards(&mut world, 7));
    let counts = world.memory.task(world.task).expect("a live task");
    assert_eq!((counts.ahead, counts.soft_faults), (1, 0));
    (0..900).for_each(|page| world.touch_hog(page));
    assert!(!touch_onwards(&mut world, 7), "it has left");
    let outside = world
        .memory
        .touch_onwards(Instant::new(world.now), world.mapping(), PageIndex::new(PAGES));
    assert!(outside.is_err());
}

/// The next job goes on from there.
#[test]
fn the_way_goes_on_from_what_was_touched_onwards() {
    for (onwards, next) in [(0, 14), (3, 17)] {
        let mut world = gone_through(true);
        (0..900).for_each(|page| world.touch_hog(page));
        assert_eq!(named(&mut world).len(), PAGES as usize);
        (10..14).for_each(|page| world.touch_task(page));
        world.restore(14..18);
        assert!((14..14 + onwards).all(|page| touch_onwards(&mut world, page)));
        (0..900).for_each(|page| world.touch_hog(page));
        assert_eq!(named(&mut world).first(), Some(&next));
    }
}
