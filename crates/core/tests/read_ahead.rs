//! Swap read-ahead of tasks without a reservation.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Shape, World};
use freehold_core::ReadAhead;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::PageIndex;
use freehold_core::view::{PageState, TaskCounts};

const FRAMES: u32 = 64;
const PAGES: u32 = 256;

/// A task of the pool, or of a reservation of all frames, that has written more pages than there are frames.
fn world(reserved: bool, read_ahead: u32) -> World {
    let mut world = World::new(&Shape {
        frames: FRAMES,
        reservations: if reserved {
            vec![(FRAMES, ReservationKind::Hard)]
        } else {
            Vec::new()
        },
        objects: vec![(ObjectKind::Private, PAGES, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![reserved.then_some(0)],
    });
    world
        .memory
        .set_read_ahead(ReadAhead::of(read_ahead).expect("a power of two"));
    for page in 0..PAGES {
        touch(&mut world, page, true);
    }
    world
}

fn touch(world: &mut World, page: u32, write: bool) {
    world.touch(0, 0, PageIndex::new(page), write);
    world.complete_all();
}

fn counts(world: &World) -> TaskCounts {
    world.memory.task(world.tasks[0].id).expect("a live task")
}

fn state(world: &World, page: u32) -> PageState {
    let view = world.memory.page(world.objects[0], PageIndex::new(page));
    view.expect("a page of the object").state
}

/// What the task faults on when it reads the first half of its pages.
fn read_half(reserved: bool, read_ahead: u32) -> TaskCounts {
    let mut world = world(reserved, read_ahead);
    let before = counts(&world);
    for page in 0..PAGES / 2 {
        touch(&mut world, page, false);
        assert_eq!(state(&world, page), PageState::Resident);
    }
    let after = counts(&world);
    TaskCounts {
        swap_ins: after.swap_ins - before.swap_ins,
        soft_faults: after.soft_faults - before.soft_faults,
        read_ahead: after.read_ahead - before.read_ahead,
        ..after
    }
}

#[test]
fn a_page_by_itself_unless_it_is_asked_for() {
    let found = read_half(false, 1);
    assert_eq!((found.swap_ins, found.read_ahead), (u64::from(PAGES / 2), 0));
}

#[test]
fn who_goes_upwards_reads_back_an_eighth_of_the_pages_and_has_soft_faults_for_the_rest() {
    let found = read_half(false, 8);
    assert_eq!(found.swap_ins + found.read_ahead, u64::from(PAGES / 2));
    // A batch of evictions gives eight frames here, so not every cluster can be had whole.
    assert!(found.read_ahead >= u64::from(PAGES / 8), "{found:?}");
    assert_eq!(found.soft_faults, found.read_ahead);
}

#[test]
fn a_reservation_reads_nothing_ahead() {
    let (with, without) = (read_half(true, 8), read_half(true, 1));
    assert_eq!((with.swap_ins, with.read_ahead), (without.swap_ins, 0));
}

#[test]
fn only_pages_of_the_same_cluster_and_in_the_store_come_along() {
    let mut world = world(false, 4);
    // Frames that nobody waits for.
    world
        .memory
        .forget(world.objects[0], World::range(PAGES - 32, 32))
        .expect("sound");
    world.drain();
    let page = 6;
    touch(&mut world, page, false);
    for number in 0..16 {
        let expected = if (4..8).contains(&number) {
            PageState::Resident
        } else {
            PageState::Stored
        };
        assert_eq!(state(&world, number), expected, "{number}");
    }
    assert_eq!(counts(&world).read_ahead, 3);
}

#[test]
fn sizes_are_powers_of_two_up_to_64() {
    for (pages, good) in [(0, false), (1, true), (3, false), (64, true), (128, false)] {
        assert_eq!(ReadAhead::of(pages).is_some(), good, "{pages}");
    }
}
