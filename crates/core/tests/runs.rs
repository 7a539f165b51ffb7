//! Reading on: what a reservation reads back in the order of addresses comes with what follows.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Shape, World};
use freehold_core::Memory;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::PageIndex;
use freehold_core::view::{PageState, TaskCounts};

const FRAMES: u32 = 512;
const PAGES: u32 = 1_024;

/// A task in a reservation of all frames, that has written twice as many pages.
fn world(kind: ObjectKind, reads_on: bool) -> World {
    let mut world = World::new(&Shape {
        frames: FRAMES,
        reservations: vec![(FRAMES, ReservationKind::Hard)],
        objects: vec![(kind, PAGES, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0)],
    });
    world.memory.set_reads_on(reads_on);
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

/// What the task faults on when it reads these pages.
fn read(world: &mut World, pages: impl IntoIterator<Item = u32>) -> TaskCounts {
    let before = counts(world);
    for page in pages {
        touch(world, page, false);
        let view = world.memory.page(world.objects[0], PageIndex::new(page));
        assert_eq!(view.expect("a page of the object").state, PageState::Resident);
    }
    let after = counts(world);
    TaskCounts {
        swap_ins: after.swap_ins - before.swap_ins,
        evictions: after.evictions - before.evictions,
        read_ahead: after.read_ahead - before.read_ahead,
        ..after
    }
}

#[test]
fn who_goes_upwards_waits_for_a_sixth_of_the_pages_at_most() {
    let mut world = world(ObjectKind::Private, true);
    let found = read(&mut world, 0..PAGES);
    let all = found.swap_ins + found.read_ahead;
    assert!(all <= u64::from(PAGES), "{found:?}");
    assert!(6 * found.swap_ins < all, "{found:?}");
}

#[test]
fn a_batch_more_is_evicted_for_it_and_not_two() {
    let (mut on, mut off) = (world(ObjectKind::Private, true), world(ObjectKind::Private, false));
    let (with, without) = (read(&mut on, 0..PAGES), read(&mut off, 0..PAGES));
    assert_eq!(without.read_ahead, 0);
    let batch = u64::from(FRAMES / 32);
    assert!(with.evictions <= without.evictions + batch, "{with:?} {without:?}");
}

#[test]
fn who_jumps_about_faults_as_ever() {
    // Each page once, never one behind another: 389 is no divisor of 1,024.
    let scattered = || (0..PAGES).map(|step| step * 389 % PAGES);
    let (mut on, mut off) = (world(ObjectKind::Private, true), world(ObjectKind::Private, false));
    let (with, without) = (read(&mut on, scattered()), read(&mut off, scattered()));
    assert_eq!((with.swap_ins, with.read_ahead), (without.swap_ins, 0));
    assert_eq!(with.evictions, without.evictions);
}

#[test]
fn downwards_is_no_run() {
    let mut world = world(ObjectKind::Private, true);
    assert_eq!(read(&mut world, (0..PAGES).rev()).read_ahead, 0);
}

#[test]
fn files_are_read_ahead_by_who_reads_them() {
    let mut world = world(ObjectKind::File, true);
    assert_eq!(read(&mut world, 0..PAGES).read_ahead, 0);
}

#[test]
fn no_more_come_along_than_said() {
    let mut world = world(ObjectKind::Private, true);
    for page in 0..PAGES {
        let found = read(&mut world, [page]);
        assert!(found.read_ahead <= u64::from(Memory::most_read_on()), "{found:?}");
    }
}
