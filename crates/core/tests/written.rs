//! Pages that are written without a fault, or whose records the store gives up.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Shape, World};
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::PageIndex;

/// One reservation of four frames, and a private and a shared object.
fn world() -> World {
    World::new(&Shape {
        frames: 4,
        reservations: vec![(4, ReservationKind::Hard)],
        objects: vec![
            (ObjectKind::Private, 16, Regime::Conserve),
            (ObjectKind::Shared, 16, Regime::Conserve),
        ],
        views: Vec::new(),
        tasks: vec![Some(0)],
    })
}

/// Has every page of an object touched, so that those before have left.
fn sweep(world: &mut World, mapping: usize, pages: std::ops::Range<u32>, write: bool) {
    for page in pages {
        world.touch(0, mapping, PageIndex::new(page), write);
        world.complete_all();
    }
}

#[test]
fn a_clean_page_that_was_written_unseen_is_stored_again() {
    let mut world = world();
    let (object, page) = (world.objects[0], PageIndex::new(0));
    let dirty = |world: &World| world.memory.page(object, page).expect("a page").dirty;
    sweep(&mut world, 0, 0..16, true);
    sweep(&mut world, 0, 0..1, false);
    assert!(!dirty(&world), "it has been read back");
    world.write_unseen(object, page);
    assert!(dirty(&world));
    // The world compares what is read back with what was written last.
    sweep(&mut world, 0, 1..16, true);
    sweep(&mut world, 0, 0..1, false);
}

#[test]
fn only_private_pages_in_frames_can_be() {
    let mut world = world();
    let (private, shared) = (world.objects[0], world.objects[1]);
    assert!(!world.memory.handle_written(private, PageIndex::new(0)), "it is empty");
    assert!(
        !world.memory.handle_written(private, PageIndex::new(16)),
        "there is none"
    );
    sweep(&mut world, 0, 0..16, true);
    assert!(!world.memory.handle_written(private, PageIndex::new(0)), "it has left");
    sweep(&mut world, 1, 0..1, false);
    assert!(!world.memory.handle_written(shared, PageIndex::new(0)), "it is shared");
}

#[test]
fn what_the_store_has_of_a_page_in_a_frame_is_needless_and_written_again() {
    let mut world = world();
    for (mapping, object) in [(0, world.objects[0]), (1, world.objects[1])] {
        let page = PageIndex::new(0);
        assert!(world.memory.give_up_record(object, page), "it is empty");
        assert!(
            !world.memory.give_up_record(object, PageIndex::new(16)),
            "there is none"
        );
        sweep(&mut world, mapping, 0..16, true);
        assert!(!world.give_up_record(object, page), "it is in the store only");
        sweep(&mut world, mapping, 0..1, false);
        assert!(world.give_up_record(object, page));
        // The world compares what is read back with what was written last.
        sweep(&mut world, mapping, 1..16, false);
        sweep(&mut world, mapping, 0..16, false);
    }
}
