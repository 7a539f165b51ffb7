//! Neighbours that are mapped before anybody faults on them.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Shape, World};
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
    world.ahead(0, 0, World::range(0, left), false);
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
