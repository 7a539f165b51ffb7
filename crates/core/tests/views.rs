//! Copy-on-write views in the corners.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Shape, World};
use freehold_core::effect::{Effect, Source};
use freehold_core::error::FaultError;
use freehold_core::fact::{Access, Fault, Request};
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::{Instant, PageIndex};

fn shape(frames: u32, reservations: &[u32], tasks: Vec<Option<usize>>) -> Shape {
    Shape {
        frames,
        reservations: reservations
            .iter()
            .map(|&capacity| (capacity, ReservationKind::Hard))
            .collect(),
        objects: vec![
            (ObjectKind::File, 8, Regime::Conserve),
            (ObjectKind::Shared, 16, Regime::Conserve),
        ],
        views: vec![0],
        tasks,
    }
}

/// Two reservations wait for a frame to copy the same page; one gives up. The other still gets a copy, not zeros.
#[test]
fn a_copy_is_made_for_who_still_waits() {
    let mut world = World::new(&shape(2, &[1, 1], vec![Some(0), Some(1)]));
    // Of the world's mappings the first is of the shared object, the second of the view.
    for task in [0, 1] {
        world.touch(task, 0, PageIndex::new(task as u32), true);
    }
    world.complete_all();
    for task in [0, 1] {
        world.touch(task, 1, PageIndex::new(3), true);
    }
    assert_eq!(world.outstanding.len(), 2, "a page of each leaves first");
    world.remove_task(0);
    while let Some(at) = world.outstanding.iter().position(|found| found.1 == Request::Evict) {
        world.complete(at, false);
    }
    let sources: Vec<_> = world.outstanding.iter().map(|found| found.2).collect();
    assert!(matches!(sources[..], [Some(Source::CopyOf(_))]), "{sources:?}");
}

/// A reservation that maps a file and a view of it ends the one mapping: it still uses the pages through the other.
#[test]
fn a_view_keeps_its_base_in_use() {
    let mut world = World::new(&shape(8, &[4], vec![Some(0)]));
    let (task, base) = (world.tasks[0].id, world.objects[0]);
    let direct = world.memory.map(task, base).expect("room for the mapping");
    world.tasks[0].mappings.push((direct, base));
    // Mapped through the view, which shows the base's pages.
    for page in 0..3 {
        world.touch(0, 1, PageIndex::new(page), false);
        world.complete_all();
    }
    world.memory.unmap(direct).expect("the task does not wait");
    world.tasks[0].mappings.pop();
    world.drain();
    let view = world
        .memory
        .reservation(world.reservations[0])
        .expect("a live reservation");
    assert_eq!((view.active.get(), view.inactive.get()), (3, 0));
}

/// A write to a file is under way when a view of it is made: the write comes too late.
#[test]
fn a_view_freezes_its_base_at_once() {
    let mut world = World::new(&Shape {
        views: Vec::new(),
        ..shape(8, &[4], vec![Some(0)])
    });
    let fault = Fault {
        mapping: world.tasks[0].mappings[0].0,
        page: PageIndex::new(0),
        access: Access::Write,
    };
    let base = world.objects[0];
    // The limits of the world leave no page for a view: give up the other object.
    let other = world.tasks[0].mappings[1].0;
    world.memory.unmap(other).expect("the task does not wait");
    world.memory.remove_object(world.objects[1]).expect("nobody maps it");
    world.memory.handle_fault(Instant::ZERO, fault).expect("a legal fault");
    let Some(Effect::Fill { page, .. }) = world.memory.poll_effect() else {
        panic!("no fill");
    };
    world.memory.create_view(base).expect("room where the other object was");
    world
        .memory
        .handle_done(Instant::ZERO, page, Request::Fill)
        .expect("an outstanding request");
    let effect = world.memory.poll_effect();
    assert!(matches!(effect, Some(Effect::Retry { .. })), "{effect:?}");
    let again = world.memory.handle_fault(Instant::ZERO, fault);
    assert_eq!(again, Err(FaultError::Frozen));
    let view = world.memory.page(base, PageIndex::new(0)).expect("a page of the world");
    assert!(!view.dirty, "nothing was written");
}
