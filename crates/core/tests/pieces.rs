//! What ends piece by piece ends as if it had ended at once.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Random, Shape, World};
use freehold_core::error::{CreateError, RemoveError};
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::{PageCount, PageIndex};

/// The task that ends in these tests.
const LEAVER: usize = 0;
const PAGES: u32 = 24;

/// Two reservations and the pool share two objects, of which the second is under `regime`; two tasks are in the first.
fn world(seed: u64, regime: Regime) -> World {
    let shape = Shape {
        frames: 60,
        reservations: vec![(20, ReservationKind::Hard), (16, ReservationKind::Hard)],
        objects: vec![
            (ObjectKind::Shared, PAGES, Regime::Conserve),
            (ObjectKind::Shared, PAGES, regime),
        ],
        views: Vec::new(),
        tasks: vec![Some(0), Some(0), Some(1), None],
    };
    let mut world = World::new(&shape);
    let mut random = Random(seed);
    for _ in 0..300 {
        let (task, object) = (random.below(4), random.below(2));
        let page = PageIndex::new(random.below(PAGES as usize) as u32);
        world.touch(task, object, page, random.chance(2));
        world.complete_all();
    }
    world
}

/// Everything that can be seen of who has which page, in the order in which it will go.
fn everything(world: &World) -> String {
    let held = world.reservations.iter().map(|&id| {
        let pages: Vec<_> = world.memory.pages_of(id).collect();
        (world.memory.reservation(id), pages)
    });
    let resident: Vec<_> = world.objects.iter().map(|&id| world.memory.resident(id)).collect();
    format!(
        "{:?} {resident:?} {:?}",
        held.collect::<Vec<_>>(),
        world.memory.pool_view()
    )
}

/// Does `partly` until nothing of it is left, a few pages at a time.
fn in_pieces(
    world: &mut World,
    random: &mut Random,
    mut partly: impl FnMut(&mut World, PageCount) -> Result<bool, RemoveError>,
) -> u32 {
    for calls in 1.. {
        let most = PageCount::new(1 + random.below(5) as u32);
        let over = partly(world, most).expect("nothing is in the way");
        world.drain();
        world.memory.check_laws().expect("no law is broken between two pieces");
        if over {
            return calls;
        }
    }
    unreachable!("pieces come to an end")
}

/// Ends a thing of one world at once and the same of its twin in pieces; returns how many these were.
fn twins(
    seed: u64,
    regime: Regime,
    prepare: impl Fn(&mut World),
    partly: impl FnMut(&mut World, PageCount) -> Result<bool, RemoveError>,
    end: impl Fn(&mut World),
) -> u32 {
    let mut whole = world(seed, regime);
    let mut parted = world(seed, regime);
    for world in [&mut whole, &mut parted] {
        prepare(world);
        world.complete_all();
    }
    assert_eq!(everything(&whole), everything(&parted), "seed {seed}: twins");
    let pieces = in_pieces(&mut parted, &mut Random(seed), partly);
    for world in [&mut whole, &mut parted] {
        end(world);
        world.complete_all();
    }
    assert_eq!(
        everything(&whole),
        everything(&parted),
        "seed {seed}: in {pieces} pieces"
    );
    pieces
}

const REGIMES: [Regime; 2] = [Regime::Conserve, Regime::Unmanaged];

#[test]
fn a_mapping() {
    let mut pieces = 0;
    for (seed, regime) in (1..60).flat_map(|seed| REGIMES.map(|regime| (seed, regime))) {
        let mapping = |world: &World| world.tasks[LEAVER].mappings[0].0;
        pieces += twins(
            seed,
            regime,
            // Its sibling ends: then it is the last of its reservation that maps the object.
            |world| world.remove_task(1),
            |world, most| world.memory.unmap_partly(mapping(world), most),
            |world| world.unmap_object(LEAVER, mapping(world)),
        );
    }
    assert!(pieces > 59 * 2 * 4, "{pieces} pieces");
}

#[test]
fn a_task_whose_siblings_stay_without_its_objects() {
    let mut pieces = 0;
    for (seed, regime) in (1..60).flat_map(|seed| REGIMES.map(|regime| (seed, regime))) {
        pieces += twins(
            seed,
            regime,
            |world| {
                while let Some((mapping, _)) = world.tasks[1].mappings.first().copied() {
                    world.unmap_object(1, mapping);
                }
            },
            |world, most| world.memory.remove_task_partly(world.tasks[LEAVER].id, most),
            |world| world.remove_task(LEAVER),
        );
    }
    assert!(pieces > 59 * 2 * 8, "{pieces} pieces");
}

#[test]
fn an_object() {
    let mut pieces = 0;
    for (seed, regime) in (1..60).flat_map(|seed| REGIMES.map(|regime| (seed, regime))) {
        let object = |world: &World| world.objects[1];
        pieces += twins(
            seed,
            regime,
            |world| {
                for task in 0..4 {
                    let (mapping, _) = world.tasks[task].mappings[1];
                    world.unmap_object(task, mapping);
                }
            },
            |world, most| world.memory.remove_object_partly(object(world), most),
            |world| {
                world.memory.remove_object(object(world)).expect("nobody maps it");
                world.drain();
            },
        );
    }
    assert!(pieces > 59 * 2 * 4, "{pieces} pieces");
}

#[test]
fn a_reservation() {
    let mut pieces = 0;
    for (seed, regime) in (1..60).flat_map(|seed| REGIMES.map(|regime| (seed, regime))) {
        let id = |world: &World| world.reservations[0];
        pieces += twins(
            seed,
            regime,
            |world| {
                if seed % 2 == 0 {
                    let range = World::range(0, 6);
                    let _full = world.memory.lock(world.reservations[0], world.objects[0], range);
                    world.complete_all();
                }
                world.remove_task(1);
                world.remove_task(0);
            },
            |world, most| world.memory.release_partly(id(world), most),
            |world| {
                let _over_in_the_one = world.memory.release(id(world));
                world.drain();
                assert_eq!(world.memory.release(id(world)), Err(RemoveError::Stale));
            },
        );
    }
    assert!(pieces > 59 * 2 * 3, "{pieces} pieces");
}

#[test]
fn what_is_being_removed_cannot_be_mapped_any_more() {
    let mut world = world(7, Regime::Conserve);
    while !world.tasks.is_empty() {
        world.remove_task(0);
    }
    let object = world.objects[0];
    assert_eq!(world.memory.remove_object_partly(object, PageCount::new(3)), Ok(false));
    let task = world.memory.add_task(None).expect("room for it");
    assert_eq!(world.memory.map(task, object), Err(CreateError::Stale));
    assert_eq!(world.memory.remove_object(object), Ok(()));
}

#[test]
fn parts_are_refused_where_the_whole_is() {
    let mut world = world(7, Regime::Conserve);
    let some = PageCount::new(3);
    let (object, reservation) = (world.objects[0], world.reservations[0]);
    assert_eq!(world.memory.remove_object_partly(object, some), Err(RemoveError::Busy));
    assert_eq!(world.memory.release_partly(reservation, some), Err(RemoveError::Busy));
    let task = world.tasks[LEAVER].id;
    let mapping = world.tasks[LEAVER].mappings[0].0;
    world.remove_task(LEAVER);
    assert_eq!(world.memory.remove_task_partly(task, some), Err(RemoveError::Stale));
    assert_eq!(world.memory.unmap_partly(mapping, some), Err(RemoveError::Stale));
}
