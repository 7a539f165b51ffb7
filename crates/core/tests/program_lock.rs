//! What programs lock for themselves (law 4): admitted first, on no replacement list, paid by the holder alone, and
//! gone with the page.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Random, Shape, World};
use freehold_core::UNLOCKED_FRAMES;
use freehold_core::error::LockError;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::{FrameCount, PageCount, PageIndex};

fn shape(capacities: &[u32], spare: u32, tasks: Vec<Option<usize>>) -> Shape {
    let hard = |&capacity: &u32| (capacity, ReservationKind::Hard);
    Shape {
        frames: capacities.iter().sum::<u32>() + spare,
        reservations: capacities.iter().map(hard).collect(),
        objects: vec![
            (ObjectKind::Private, 64, Regime::Conserve),
            (ObjectKind::Shared, 64, Regime::Conserve),
        ],
        views: Vec::new(),
        tasks,
    }
}

fn touch(world: &mut World, task: usize, object: usize, page: u32) {
    world.touch(task, object, PageIndex::new(page), true);
    world.complete_all();
}

fn admit(world: &mut World, task: usize, pages: u32) -> Result<(), LockError> {
    let task = world.tasks[task].id;
    world.memory.admit_program_lock(task, PageCount::new(pages))
}

fn lock(world: &mut World, task: usize, object: usize, page: u32) -> bool {
    let (task, object) = (world.tasks[task].id, world.objects[object]);
    world.memory.lock_in_place(task, object, PageIndex::new(page))
}

fn unlock(world: &mut World, task: usize, object: usize, page: u32) {
    let (task, object) = (world.tasks[task].id, world.objects[object]);
    world.memory.unlock_in_place(task, object, PageIndex::new(page));
}

fn is_resident(world: &World, object: usize, page: u32) -> bool {
    world.memory.is_resident(world.objects[object], PageIndex::new(page))
}

#[test]
fn a_locked_page_stays_whatever_else_is_touched_and_leaves_once_it_is_unlocked() {
    let mut world = World::new(&shape(&[16], 0, vec![Some(0)]));
    touch(&mut world, 0, 0, 0);
    assert!(!lock(&mut world, 0, 0, 0), "nothing was admitted");
    assert_eq!(admit(&mut world, 0, 2), Ok(()));
    assert!(lock(&mut world, 0, 0, 0) && lock(&mut world, 0, 0, 0), "twice is once");
    assert!(!lock(&mut world, 0, 0, 1), "it is not there");
    for page in 1..60 {
        touch(&mut world, 0, 0, page);
    }
    assert!(is_resident(&world, 0, 0));
    unlock(&mut world, 0, 0, 0);
    for page in 1..60 {
        touch(&mut world, 0, 0, page);
    }
    assert!(!is_resident(&world, 0, 0));
    world.memory.check_laws().expect("the laws");
}

#[test]
fn no_more_is_admitted_than_leaves_eight_frames_or_an_eighth_of_the_pool() {
    let mut world = World::new(&shape(&[32], 32, vec![Some(0), None]));
    let needed = FrameCount::new(25 + UNLOCKED_FRAMES);
    assert_eq!(admit(&mut world, 0, 25), Err(LockError::TooLarge { needed }));
    assert_eq!(admit(&mut world, 0, 24), Ok(()));
    let task = world.tasks[0].id;
    world.memory.return_program_lock(task, PageCount::new(24));
    assert_eq!(admit(&mut world, 0, 24), Ok(()), "it was given back");
    let available = FrameCount::new(8);
    assert_eq!(admit(&mut world, 1, 9), Err(LockError::PoolShare { available }));
    assert_eq!(admit(&mut world, 1, 8), Ok(()));
    let available = FrameCount::new(0);
    assert_eq!(admit(&mut world, 1, 1), Err(LockError::PoolShare { available }));
}

/// All but ten frames are reserved: an eighth of the pool would be more than that.
#[test]
fn programs_without_a_reservation_leave_frames_to_each_other() {
    let mut world = World::new(&shape(&[118], 10, vec![Some(0), None, None]));
    let available = FrameCount::new(2);
    assert_eq!(admit(&mut world, 1, 3), Err(LockError::PoolShare { available }));
    assert_eq!(admit(&mut world, 1, 2), Ok(()));
    for page in 0..2 {
        touch(&mut world, 1, 0, page);
        assert!(lock(&mut world, 1, 0, page));
    }
    // Both go on, one after the other.
    for page in 0..60 {
        touch(&mut world, 1, 0, page);
        touch(&mut world, 2, 1, page);
    }
    assert!(is_resident(&world, 0, 0) && is_resident(&world, 0, 1) && is_resident(&world, 1, 59));
    world.memory.check_laws().expect("the laws");
}

#[test]
fn a_shared_page_that_each_locks_is_paid_by_each_and_an_unlock_needs_nothing() {
    let mut world = World::new(&shape(&[16, 16], 0, vec![Some(0), Some(1)]));
    for task in 0..2 {
        touch(&mut world, task, 1, 0);
        assert_eq!(admit(&mut world, task, 1), Ok(()));
        assert!(lock(&mut world, task, 1, 0));
    }
    for task in 0..2 {
        for page in 0..40 {
            touch(&mut world, task, 0, page);
        }
        assert!(is_resident(&world, 1, 0));
    }
    unlock(&mut world, 0, 1, 0);
    for page in 0..40 {
        touch(&mut world, 0, 0, page);
    }
    assert!(is_resident(&world, 1, 0), "the other has it locked");
    world.memory.check_laws().expect("the laws");
}

/// Locks, unlocks, touches and forgotten pages in any order, beside an eviction lock of the same pages.
#[test]
fn the_laws_hold_in_any_order() {
    for seed in 1..common::setting("FREEHOLD_PROGRAM_LOCKS", 40) {
        let mut random = Random(seed);
        let mut world = World::new(&shape(&[24, 24], 16, vec![Some(0), Some(1), None]));
        for task in 0..3 {
            // The third has the pool's share: an eighth of 64.
            assert_eq!(admit(&mut world, task, 8), Ok(()));
        }
        for _ in 0..400 {
            let (task, object) = (random.below(3), random.below(2));
            let page = u32::try_from(random.below(20)).expect("small");
            match random.below(8) {
                0 | 1 => {
                    lock(&mut world, task, object, page);
                }
                2 => unlock(&mut world, task, object, page),
                3 if random.chance(4) && task < 2 => {
                    let (reservation, range) = (world.reservations[task], World::range(page, 1));
                    let object = world.objects[1];
                    if world.memory.lock(reservation, object, range).is_ok() {
                        world.drain();
                        world.complete_all();
                    } else {
                        // It may be locked: then it is unlocked.
                        let _unlocked_or_not = world.memory.unlock(reservation, object, range);
                        world.drain();
                    }
                }
                _ => touch(&mut world, task, object, page),
            }
            world
                .memory
                .check_laws()
                .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        }
    }
}
