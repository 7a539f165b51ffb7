//! Foresight that are mapped before anybody faults on them.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Shape, World};
use freehold_core::Foresight;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::PageIndex;

const FRAMES: u32 = 16;

/// A program leaves `left` pages of a file behind in its reservation. How many of them has the next one mapped, after
/// it faulted on the first?
fn mapped_after_one_fault(left: u32) -> usize {
    let mut world = World::new(&Shape {
        frames: FRAMES,
        reservations: vec![(FRAMES, ReservationKind::Hard)],
        objects: vec![(ObjectKind::File, FRAMES, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0)],
    });
    for page in 0..left {
        world.touch(0, 0, PageIndex::new(page), false);
        world.complete_all();
    }
    map_again(&mut world);
    world.touch(0, 0, PageIndex::new(0), false);
    world.ahead(0, 0, World::range(0, left), (Foresight::Guess, false));
    world.mapped.len()
}

/// The task maps its object anew: until then nobody of its reservation does.
fn map_again(world: &mut World) {
    let (mapping, object) = world.tasks[0].mappings[0];
    world.memory.unmap(mapping).expect("a live mapping");
    world.mapped.clear();
    world.drain();
    let mapping = world.memory.map(world.tasks[0].id, object).expect("room for mappings");
    world.tasks[0].mappings[0] = (mapping, object);
}

#[test]
fn what_a_program_left_is_mapped_for_the_next_one_under_its_reservation() {
    assert_eq!(mapped_after_one_fault(8), 8);
}

/// A page that became active cannot be told from one that is used, where frames are short.
#[test]
fn where_frames_are_short_what_a_program_left_waits_to_be_touched() {
    assert_eq!(mapped_after_one_fault(14), 1);
}

const MANY: u32 = 256;

/// A task in a reservation of all frames that has touched so many pages of twice as many.
fn used(pages: u32, reads_on: bool) -> World {
    let mut world = World::new(&Shape {
        frames: MANY,
        reservations: vec![(MANY, ReservationKind::Hard)],
        objects: vec![(ObjectKind::Private, 2 * MANY, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0)],
    });
    world.memory.set_reads_on(reads_on);
    for page in 0..pages {
        world.touch(0, 0, PageIndex::new(page), true);
        world.complete_all();
    }
    world
}

/// How many of the pages behind those that were touched come along, and how many others leave for them.
fn come(touched: u32, reads_on: bool, why: Foresight) -> (u32, u64) {
    let mut world = used(touched, reads_on);
    let counts = |world: &World| world.memory.task(world.tasks[0].id).expect("a live task");
    let before = counts(&world);
    // What is taken up in one step is mapped in the next.
    for _ in 0..3 {
        world.ahead(0, 0, World::range(touched, 64), (why, true));
        world.complete_all();
    }
    let after = counts(&world);
    ((after.ahead - before.ahead) as u32, after.evictions - before.evictions)
}

#[test]
fn of_the_last_frames_a_stream_gets_a_part_and_a_guess_none() {
    for free in [0u32, 16, 32, 35, 36, 56, 63] {
        let part = |free: u32| free.saturating_sub(32) / 4;
        let expected = part(free) + part(free - part(free));
        assert_eq!(
            come(MANY - free, false, Foresight::Stream),
            (expected, 0),
            "{free} free"
        );
        assert_eq!(come(MANY - free, false, Foresight::Guess), (0, 0), "{free} free");
    }
}

#[test]
fn a_program_alone_evicts_a_batch_for_what_a_stream_goes_on_to() {
    // In the first step none is free.
    let batch = MANY / 32;
    assert_eq!(come(MANY, true, Foresight::Stream), (batch, 3 * u64::from(batch)));
    assert_eq!(come(MANY, true, Foresight::Guess), (0, 0));
}
