//! Law 4 in the corners: locks that begin together, that meet leaving pages and failing stores, and that end in any
//! order.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Shape, World};
use freehold_core::Memory;
use freehold_core::effect::Effect;
use freehold_core::error::{LockError, RemoveError, UnlockError};
use freehold_core::fact::Request;
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};

fn shape(capacities: &[u32], spare: u32, objects: Vec<(ObjectKind, u32, Regime)>) -> Shape {
    Shape {
        frames: capacities.iter().sum::<u32>() + spare,
        reservations: capacities
            .iter()
            .map(|&capacity| (capacity, ReservationKind::Hard))
            .collect(),
        objects,
        views: Vec::new(),
        tasks: (0..capacities.len()).map(Some).collect(),
    }
}

fn touch(world: &mut World, task: usize, object: usize, page: u32) {
    world.touch(task, object, PageIndex::new(page), true);
    world.complete_all();
}

fn lock(world: &mut World, reservation: usize, object: usize, first: u32, count: u32) -> Result<(), LockError> {
    let (reservation, object) = (world.reservations[reservation], world.objects[object]);
    let result = world.memory.lock(reservation, object, World::range(first, count));
    world.drain();
    result
}

fn lockers(world: &World, object: usize, page: u32) -> u32 {
    let view = world.memory.page(world.objects[object], PageIndex::new(page));
    view.expect("a page of the world").lockers
}

/// A lock holds a frame for a page whose write-back then fails: the page stays, locked.
#[test]
fn a_leaving_page_that_comes_back_is_locked() {
    let mut world = World::new(&shape(&[96], 0, vec![(ObjectKind::Shared, 128, Regime::Conserve)]));
    for page in 0..96 {
        touch(&mut world, 0, 0, page);
    }
    // A batch of three leaves: the claim gets the frame of the second, that of the third is free.
    world.touch(0, 0, PageIndex::new(100), true);
    assert_eq!(world.outstanding.len(), 3);
    world.complete(2, false);
    world.complete(1, false);
    assert_eq!(lock(&mut world, 0, 0, 0, 1), Ok(()));
    let at = world.outstanding.iter().position(|found| found.1 == Request::Evict);
    world.complete(at.expect("the first page is still leaving"), true);
    world.complete_all();
    assert!(
        world.locked.contains(&world.reservations[0]),
        "the lock is said to be done"
    );
    assert_eq!(lockers(&world, 0, 0), 1, "and is");
}

/// Two locks of the same pages begin before either has any; the table of shared locks holds none of them.
#[test]
fn locks_that_begin_together_never_overrun_the_table() {
    for limit in 0..4 {
        let mut memory = small(3, limit);
        let reservations = memory.1;
        let (object, memory) = (memory.2, &mut memory.0);
        for reservation in reservations {
            let _refused_or_not = memory.lock(reservation, object, World::range(0, 4));
        }
        let mut outcomes = Vec::new();
        drive(memory, &mut outcomes);
        memory.check_laws().expect("all laws hold");
        assert_eq!(outcomes.len(), 3, "every lock ends: {outcomes:?}");
        let paid_by_others: u32 = (0..4)
            .map(|page| {
                memory
                    .page(object, PageIndex::new(page))
                    .expect("a page")
                    .lockers
                    .saturating_sub(1)
            })
            .sum();
        assert!(paid_by_others <= limit, "{paid_by_others} of {limit}");
    }
}

/// As many shared locks as the limit's documentation says: (n − 1)·MS.
#[test]
fn three_lockers_need_twice_the_pages() {
    let (mut memory, reservations, object) = small(3, 8);
    let mut outcomes = Vec::new();
    for reservation in reservations {
        assert_eq!(memory.lock(reservation, object, World::range(0, 4)), Ok(()));
        drive(&mut memory, &mut outcomes);
    }
    assert_eq!(outcomes, [true, true, true]);
    memory.check_laws().expect("all laws hold");
}

fn small(
    count: usize,
    shared_locks: u32,
) -> (
    Memory,
    [freehold_core::id::ReservationId; 3],
    freehold_core::id::ObjectId,
) {
    let limits = Limits {
        frames: FrameCount::new(16 * count as u32),
        pages: PageCount::new(64),
        reservations: 3,
        objects: 2,
        tasks: 4,
        mappings: 8,
        compared_pages: PageCount::ZERO,
        shared_locks: PageCount::new(shared_locks),
    };
    let mut memory = limits.seal().expect("room for small tables");
    let spec = ObjectSpec {
        kind: ObjectKind::Shared,
        pages: PageCount::new(16),
        regime: Regime::Conserve,
    };
    let object = memory.create_object(spec).expect("room for the object");
    let reservations = [0, 1, 2].map(|_| {
        let spec = ReservationSpec {
            capacity: FrameCount::new(16),
            kind: ReservationKind::Hard,
        };
        let id = memory.admit(spec).expect("room for the reservation");
        let task = memory.add_task(Some(id)).expect("room for the task");
        memory.map(task, object).expect("room for the mapping");
        id
    });
    (memory, reservations, object)
}

/// Answers every request at once; notes whether locks succeed.
fn drive(memory: &mut Memory, outcomes: &mut Vec<bool>) {
    while let Some(effect) = memory.poll_effect() {
        let (page, request) = match effect {
            Effect::Fill { page, .. } => (page, Request::Fill),
            Effect::WriteBack { page, .. } | Effect::Discard { page, .. } => (page, Request::Evict),
            Effect::Locked { .. } => {
                outcomes.push(true);
                continue;
            }
            Effect::LockFailed { .. } => {
                outcomes.push(false);
                continue;
            }
            _ => continue,
        };
        memory
            .handle_done(Instant::ZERO, page, request)
            .expect("an outstanding request");
    }
}

/// A lock that still waits for its first frame holds the object: it cannot be removed under it.
#[test]
fn an_object_being_locked_stays() {
    let objects = vec![
        (ObjectKind::Private, 16, Regime::Conserve),
        (ObjectKind::Shared, 16, Regime::Conserve),
    ];
    let mut world = World::new(&shape(&[9], 0, objects));
    for page in 0..9 {
        touch(&mut world, 0, 0, page);
    }
    assert_eq!(lock(&mut world, 0, 1, 0, 1), Ok(()));
    assert_eq!(world.outstanding.len(), 1, "a page of the other object leaves first");
    let mapping = world.tasks[0].mappings[1].0;
    assert_eq!(world.memory.unmap(mapping), Err(RemoveError::Busy));
    world.remove_task(0);
    assert_eq!(world.memory.remove_object(world.objects[1]), Err(RemoveError::Busy));
    world.complete_all();
    assert_eq!(lockers(&world, 1, 0), 1);
}

/// Frames returned under `none` are promised to somebody: unlocking cannot use them up for good.
#[test]
fn an_unlock_takes_no_frame_that_is_promised() {
    let objects = vec![
        (ObjectKind::Shared, 4, Regime::Conserve),
        (ObjectKind::Shared, 4, Regime::Unmanaged),
    ];
    let mut world = World::new(&shape(&[12, 12], 2, objects));
    for reservation in [0, 1] {
        assert_eq!(lock(&mut world, reservation, 0, 0, 4), Ok(()));
        world.complete_all();
    }
    // Four frames came back from the locks; with the two spare ones they are promised anew.
    let third = world.memory.admit(ReservationSpec {
        capacity: FrameCount::new(6),
        kind: ReservationKind::Hard,
    });
    let third = third.expect("the frames that locking saved");
    world.reservations.push(third);
    world.add_task(Some(third));
    touch(&mut world, 2, 1, 0);
    touch(&mut world, 0, 1, 0);
    assert_eq!(world.memory.pool_view().free.get(), 1, "one frame returned under none");
    let refused = world
        .memory
        .unlock(world.reservations[1], world.objects[0], World::range(0, 1));
    world.drain();
    assert!(
        matches!(refused, Err(UnlockError::PoolLacksFrames { .. })),
        "{refused:?}"
    );
    let view = world.memory.pool_view();
    assert!(view.committed <= view.total, "more is promised than there is");
}

/// The payer leaves by unlocking or exiting, in every order, with a sharer under conservation in between.
#[test]
fn payers_leave_in_every_order() {
    for order in 0..64_usize {
        let mut world = World::new(&shape(
            &[12, 12, 12],
            3,
            vec![(ObjectKind::Shared, 8, Regime::Conserve)],
        ));
        // Who touches and who locks first differs with `order`.
        let first = order % 3;
        for turn in 0..3 {
            let who = (first + turn) % 3;
            touch(&mut world, who, 0, 0);
            if turn != (order / 3) % 4 {
                assert_eq!(lock(&mut world, who, 0, 0, 1), Ok(()));
                world.complete_all();
            }
        }
        let mut left = [0, 1, 2];
        left.rotate_left((order / 12) % 3);
        for (turn, who) in left.into_iter().enumerate() {
            let unlocks = (order >> turn) & 1 == 0;
            if unlocks {
                let result = world
                    .memory
                    .unlock(world.reservations[who], world.objects[0], World::range(0, 1));
                assert!(matches!(result, Ok(()) | Err(UnlockError::NotLocked)), "{result:?}");
                world.drain();
            } else {
                let id = world.reservations[who];
                let index = world
                    .tasks
                    .iter()
                    .position(|task| task.reservation == Some(id))
                    .expect("its task");
                world.remove_task(index);
                world.memory.release(id).expect("its tasks are gone");
                world.drain();
            }
        }
    }
}

/// A lock goes on for as many pages as it is allowed, whether they are there or have to come.
#[test]
fn a_lock_goes_on_as_far_as_it_is_allowed() {
    let mut world = World::new(&shape(&[64], 0, vec![(ObjectKind::Shared, 40, Regime::Conserve)]));
    for page in 0..10 {
        touch(&mut world, 0, 0, page);
    }
    world.memory.allow_locking(PageCount::ZERO);
    assert_eq!(lock(&mut world, 0, 0, 0, 30), Ok(()));
    let locked = |world: &World| {
        world
            .memory
            .reservation(world.reservations[0])
            .expect("admitted")
            .locked
    };
    for step in 0..6 {
        assert!(world.memory.wants_locking(), "step {step}");
        assert_eq!(locked(&world), PageCount::new(5 * step));
        world.memory.allow_locking(PageCount::new(5));
        world.drain();
        world.complete_all();
    }
    assert_eq!(locked(&world), PageCount::new(30));
    // All pages are locked; that it has ended may be told with the next.
    world.memory.allow_locking(PageCount::new(5));
    world.drain();
    assert!(!world.memory.wants_locking());
    assert_eq!(world.locked, world.reservations);
}

/// Whether a small object has a locked page is not asked of the long list of another's.
#[test]
fn a_small_object_goes_beside_a_large_one_that_is_locked() {
    for locks in [false, true] {
        let kind = ObjectKind::Shared;
        let objects = vec![(kind, 40, Regime::Conserve), (kind, 4, Regime::Conserve)];
        let mut world = World::new(&shape(&[64], 0, objects));
        assert_eq!(lock(&mut world, 0, 0, 0, 30), Ok(()));
        world.complete_all();
        touch(&mut world, 0, 1, 2);
        if locks {
            assert_eq!(lock(&mut world, 0, 1, 3, 1), Ok(()));
            world.complete_all();
        }
        let expected = if locks { Err(RemoveError::Busy) } else { Ok(()) };
        let mapping = world.tasks[0].mappings[1].0;
        assert_eq!(world.memory.unmap(mapping), expected);
        world.drain();
        let large = world.tasks[0].mappings[0].0;
        assert_eq!(world.memory.unmap(large), Err(RemoveError::Busy));
    }
}
