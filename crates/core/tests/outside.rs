//! The core's door: what leaves the page lists, comes back, and is recalled.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, Shape, World, first_seed, setting};
use freehold_core::effect::Holder;
use freehold_core::error::{AdmitError, CreateError, LockError, TakeOutsideError};
use freehold_core::id::ReservationId;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, PageIndex};

/// A reservation of 16 frames without tasks, one of 24 with one, a task of the pool, and so many frames beside.
fn world(kind: ReservationKind, spare: u32) -> World {
    World::new(&Shape {
        frames: 40 + spare,
        reservations: vec![(16, kind), (24, kind)],
        objects: vec![
            (ObjectKind::Shared, 64, Regime::Conserve),
            (ObjectKind::Private, 64, Regime::Conserve),
        ],
        views: Vec::new(),
        tasks: vec![Some(1), None],
    })
}

fn touch_all(world: &mut World, task: usize, mapping: usize, pages: u32) {
    for page in 0..pages {
        world.touch(task, mapping, PageIndex::new(page), true);
        world.complete_all();
    }
}

fn outside(world: &World, of: usize) -> (u32, u32, u32) {
    let view = world.memory.reservation(world.reservations[of]).unwrap();
    (view.outside.get(), view.borrowed.get(), view.recalled.get())
}

#[test]
fn a_hard_reservation_never_has_more_outside_than_its_capacity() {
    let mut world = world(ReservationKind::Hard, 8);
    let id = world.reservations[0];
    world.take_outside(id, 10).unwrap();
    let kept = TakeOutsideError::Kept {
        available: FrameCount::new(6),
    };
    assert_eq!(world.take_outside(id, 7), Err(kept));
    world.take_outside(id, 6).unwrap();
    assert_eq!(outside(&world, 0), (16, 0, 0));
    world.return_outside(id, 16);
    let view = world.memory.reservation(id).unwrap();
    assert_eq!((view.outside.get(), view.free.get(), view.held.get()), (0, 16, 16));
}

/// Of a reservation with a task 8 frames stay for its pages, and its pages leave for what goes outside.
#[test]
fn pages_keep_eight_frames() {
    let mut world = world(ReservationKind::Hard, 0);
    let id = world.reservations[1];
    touch_all(&mut world, 0, 0, 24);
    let mut tries = 0;
    while let Err(TakeOutsideError::InUse { .. }) = world.take_outside(id, 16) {
        world.complete_all();
        tries += 1;
        assert!(tries <= 16, "each batch brings it nearer");
    }
    assert_eq!(outside(&world, 1), (16, 0, 0));
    assert!(matches!(world.take_outside(id, 1), Err(TakeOutsideError::Kept { available }) if available.is_zero()));
    touch_all(&mut world, 0, 0, 40);
    assert_eq!(world.tasks[0].errors, 0, "8 frames serve every fault");
}

#[test]
fn locks_and_tasks_find_what_is_outside_gone() {
    let mut world = world(ReservationKind::Hard, 0);
    let (id, object) = (world.reservations[1], world.objects[0]);
    world.take_outside(id, 10).unwrap();
    let refused = world.memory.lock(id, object, World::range(0, 7));
    assert_eq!(
        refused,
        Err(LockError::TooLarge {
            needed: FrameCount::new(25)
        })
    );
    world.memory.lock(id, object, World::range(0, 6)).unwrap();
    world.drain();
    world.complete_all();
    assert!(matches!(world.take_outside(id, 1), Err(TakeOutsideError::Kept { .. })));
    let other = world.reservations[0];
    world.take_outside(other, 9).unwrap();
    assert_eq!(world.memory.add_task(Some(other)), Err(CreateError::FramesOutside));
    world.return_outside(other, 1);
    assert!(world.memory.add_task(Some(other)).is_ok());
}

/// Whoever has a claim gets what was lent by one recall of as many frames as are missing, and waits for nothing else.
#[test]
fn what_is_lent_is_recalled_at_once_and_goes_to_who_wants_it() {
    let mut world = world(ReservationKind::Firm, 30);
    let id = world.reservations[0];
    assert!(matches!(
        world.take_outside(id, 47),
        Err(TakeOutsideError::NotLent { missing }) if missing.get() == 1
    ));
    world.take_outside(id, 46).unwrap();
    assert_eq!(outside(&world, 0), (46, 30, 0));
    assert_eq!(
        world.memory.reclaim_for_admission(FrameCount::new(20)).unwrap().get(),
        20
    );
    world.drain();
    assert_eq!(outside(&world, 0), (46, 30, 20), "what is wanted, and not one more");
    world.memory.reclaim_for_admission(FrameCount::new(20)).unwrap();
    world.drain();
    assert_eq!(outside(&world, 0), (46, 30, 20), "nobody is asked twice");
    // It returns some, as it likes.
    world.return_outside(id, 5);
    assert_eq!(outside(&world, 0), (41, 25, 15));
    world.return_outside(id, 15);
    let spec = ReservationSpec {
        capacity: FrameCount::new(20),
        kind: ReservationKind::Hard,
    };
    world.memory.admit(spec).unwrap();
    world.drain();
    assert_eq!(outside(&world, 0), (26, 10, 0));
}

/// A task of the pool that finds no frame waits for what was recalled, and no longer.
#[test]
fn a_task_of_the_pool_waits_for_the_recall() {
    let mut world = world(ReservationKind::Firm, 8);
    let id = world.reservations[0];
    world.take_outside(id, 24).unwrap();
    world.touch(1, 0, PageIndex::new(0), true);
    world.complete_all();
    assert!(world.tasks[1].waiting.is_some());
    assert_eq!(outside(&world, 0), (24, 8, 1));
    world.answer_recalls();
    world.complete_all();
    assert!(world.tasks[1].waiting.is_none() && world.tasks[1].errors == 0);
    assert_eq!(outside(&world, 0), (23, 7, 0));
}

/// Pages of the borrower leave before frames outside are recalled, but the locks and 8 frames stay.
#[test]
fn pages_go_first_but_keep_their_part() {
    let mut world = world(ReservationKind::Firm, 16);
    let id = world.reservations[1];
    world.take_outside(id, 16).unwrap();
    touch_all(&mut world, 0, 0, 24);
    assert_eq!(
        outside(&world, 1),
        (16, 16, 0),
        "24 pages, of which 16 lie in frames that were lent"
    );
    world.memory.reclaim_for_admission(FrameCount::new(16)).unwrap();
    world.drain();
    world.complete_all();
    assert_eq!(outside(&world, 1), (16, 0, 0));
    touch_all(&mut world, 0, 0, 24);
    assert_eq!(world.tasks[0].errors, 0);
    world.memory.stop_reclaim();
    world.drain();
    world.take_outside(id, 12).unwrap();
    assert_eq!(outside(&world, 1), (28, 12, 0));
    world.memory.reclaim_for_admission(FrameCount::new(16)).unwrap();
    world.drain();
    assert_eq!(outside(&world, 1), (28, 12, 12), "nothing but what is outside can go");
}

/// A region for devices is promised to nobody else until it is put back.
#[test]
fn what_is_set_aside_is_admitted_like_a_reservation() {
    let mut world = world(ReservationKind::Hard, 30);
    touch_all(&mut world, 1, 1, 30);
    assert!(matches!(
        world.memory.set_aside(FrameCount::new(31)),
        Err(AdmitError::Overcommitted { available, .. }) if available.get() == 30
    ));
    assert!(matches!(
        world.memory.set_aside(FrameCount::new(0)),
        Err(AdmitError::ZeroCapacity)
    ));
    world.memory.reclaim_for_admission(FrameCount::new(20)).unwrap();
    world.drain();
    world.complete_all();
    let region = world.memory.set_aside(FrameCount::new(20)).unwrap();
    world.drain();
    let view = world.memory.pool_view();
    assert_eq!((region.count().get(), view.outside.get()), (20, 20));
    assert_eq!(view.memory_used.get(), 70 - view.free.get());
    let spec = ReservationSpec {
        capacity: FrameCount::new(11),
        kind: ReservationKind::Hard,
    };
    assert!(
        matches!(world.memory.admit(spec), Err(AdmitError::Overcommitted { available, .. }) if available.get() == 10)
    );
    touch_all(&mut world, 1, 1, 40);
    assert_eq!(world.tasks[1].errors, 0, "ten frames serve the task of the pool");
    assert!(world.memory.put_back(region).is_ok());
    world.drain();
    assert_eq!(world.memory.pool_view().outside.get(), 0);
}

/// What a hard reservation evicts, in order, while its task touches pages and somebody outside takes and returns its
/// frames: alone, or beside a task of the pool and a firm reservation with frames outside.
fn evictions(seed: u64, in_company: bool) -> Vec<(usize, u32)> {
    let mut world = World::new(&Shape {
        frames: 64,
        reservations: vec![(20, ReservationKind::Hard), (8, ReservationKind::Firm)],
        objects: vec![
            (ObjectKind::Shared, 40, Regime::Conserve),
            (ObjectKind::Private, 40, Regime::Conserve),
        ],
        views: Vec::new(),
        tasks: vec![Some(0), None],
    });
    let (mut own, mut others) = (Random(seed), Random(seed + 1));
    let (hard, firm) = (world.reservations[0], world.reservations[1]);
    for _ in 0..400 {
        if in_company {
            for _ in 0..others.below(4) {
                company(&mut world, &mut others, firm);
            }
        }
        match own.below(16) {
            0 => {
                let _refused_or_not = world.take_outside(hard, own.below(6) as u32);
                world.complete_all();
            }
            1 => world.return_outside(hard, own.below(6) as u32),
            // Pages of its own: law 0 allows that company turns a fill into a soft fault, not that it changes victims.
            _ => {
                let page = PageIndex::new(own.below(40) as u32);
                world.touch(0, own.below(2), page, own.chance(2));
                world.complete_all();
            }
        }
    }
    let mine = world
        .evicted
        .get(&Holder::Reservation(hard))
        .cloned()
        .unwrap_or_default();
    let number = |object| world.objects.iter().position(|found| *found == object).unwrap();
    mine.iter()
        .map(|page| (number(page.object()), page.page().get()))
        .collect()
}

fn company(world: &mut World, random: &mut Random, firm: ReservationId) {
    match random.below(4) {
        0 => {
            let _refused_or_not = world.take_outside(firm, random.below(12) as u32);
        }
        1 => world.return_outside(firm, random.below(12) as u32),
        2 => world.answer_recalls(),
        _ => world.touch(1, 0, PageIndex::new(random.below(40) as u32), random.chance(2)),
    }
    if random.chance(2) {
        world.complete_all();
    }
}

/// Law 0 with the door: company changes nothing of what a hard reservation evicts.
#[test]
fn what_others_have_outside_changes_nobodys_victims() {
    for round in 0..setting("FREEHOLD_WORLDS", 200) {
        let seed = 2 * (first_seed() + round);
        let alone = evictions(seed, false);
        assert!(alone.len() > 50, "seed {seed}: too few evictions to mean anything");
        assert_eq!(alone, evictions(seed, true), "seed {seed}");
    }
}
