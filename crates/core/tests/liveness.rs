//! Nobody waits with nothing outstanding, and nobody is refused what could be had.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Random, Shape, World};
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::PageIndex;

fn touch(world: &mut World, task: usize, object: usize, page: u32, write: bool) {
    world.touch(task, object, PageIndex::new(page), write);
}

fn settled(world: &mut World, task: usize, object: usize, page: u32, write: bool) {
    touch(world, task, object, page, write);
    world.complete_all();
}

fn nobody_waits(world: &World) {
    assert!(world.outstanding.is_empty(), "requests are outstanding");
    for (index, task) in world.tasks.iter().enumerate() {
        assert!(task.waiting.is_none(), "task {index} waits for nothing");
    }
}

/// The pool's only hope is a frame it lent; the borrower's pages are all on their way in when the fault comes.
#[test]
fn a_lent_frame_is_taken_back_when_its_page_has_arrived() {
    let mut world = World::new(&Shape {
        frames: 2,
        reservations: vec![(1, ReservationKind::Firm)],
        objects: vec![(ObjectKind::Shared, 8, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0), Some(0), None],
    });
    touch(&mut world, 0, 0, 0, false);
    touch(&mut world, 1, 0, 1, false);
    touch(&mut world, 2, 0, 2, false);
    assert_eq!(world.outstanding.len(), 2, "both frames are being filled");
    world.complete_all();
    nobody_waits(&world);
    assert_eq!(world.tasks[2].errors, 0);
}

/// The latest borrower has nothing to give: an earlier one has.
#[test]
fn an_earlier_borrower_gives_what_the_latest_cannot() {
    let mut world = World::new(&Shape {
        frames: 4,
        reservations: vec![(1, ReservationKind::Firm), (1, ReservationKind::Firm)],
        objects: vec![(ObjectKind::Shared, 8, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0), Some(1), Some(1), None],
    });
    settled(&mut world, 0, 0, 0, false);
    settled(&mut world, 0, 0, 1, false);
    touch(&mut world, 1, 0, 2, false);
    touch(&mut world, 2, 0, 3, false);
    let before = world.outstanding.len();
    touch(&mut world, 3, 0, 4, false);
    assert_eq!(
        world.outstanding.len(),
        before + 1,
        "the claim makes something move at once"
    );
    world.complete_all();
    nobody_waits(&world);
}

/// Best-effort tasks hold the whole pool when a reservation is owed frames: the pool is reclaimed for it.
#[test]
fn a_debt_is_paid_from_the_pools_own_pages() {
    for idle_debtor in [true, false] {
        let mut world = World::new(&Shape {
            frames: 4,
            reservations: vec![(2, ReservationKind::Hard), (2, ReservationKind::Hard)],
            objects: vec![
                (ObjectKind::Shared, 8, Regime::Unmanaged),
                (ObjectKind::Shared, 8, Regime::Conserve),
            ],
            views: Vec::new(),
            tasks: vec![Some(0), Some(1), None],
        });
        for page in [0, 1] {
            settled(&mut world, 0, 0, page, true);
            settled(&mut world, 1, 0, page, true);
        }
        // The two frames returned go to a task without a reservation.
        settled(&mut world, 2, 1, 0, true);
        settled(&mut world, 2, 1, 1, true);
        // The first reservation evicts both pages for both.
        settled(&mut world, 0, 1, 2, true);
        settled(&mut world, 0, 1, 3, true);
        if !idle_debtor {
            settled(&mut world, 1, 1, 4, true);
            settled(&mut world, 1, 1, 5, true);
        }
        nobody_waits(&world);
        assert_eq!(world.tasks[1].errors, 0);
        let view = world
            .memory
            .reservation(world.reservations[1])
            .expect("a live reservation");
        assert_eq!(view.owed.get(), 0, "the debt is paid");
    }
}

/// The debt is to be paid from pages that cannot be written back: the debtor gets an error, not silence.
#[test]
fn a_debt_that_cannot_be_paid_is_an_error() {
    let mut world = World::new(&Shape {
        frames: 2,
        reservations: vec![(1, ReservationKind::Hard), (1, ReservationKind::Hard)],
        objects: vec![
            (ObjectKind::Shared, 8, Regime::Unmanaged),
            (ObjectKind::Shared, 8, Regime::Conserve),
        ],
        views: Vec::new(),
        tasks: vec![Some(0), Some(1), None],
    });
    settled(&mut world, 0, 0, 0, false);
    settled(&mut world, 1, 0, 0, false);
    settled(&mut world, 2, 1, 0, true);
    settled(&mut world, 0, 1, 1, false);
    touch(&mut world, 1, 1, 2, false);
    for _ in 0..100 {
        world.complete(0, true);
    }
    nobody_waits(&world);
    settled(&mut world, 1, 1, 2, false);
    nobody_waits(&world);
    let view = world
        .memory
        .reservation(world.reservations[1])
        .expect("a live reservation");
    assert_eq!(
        (view.owed.get(), view.active.get()),
        (0, 1),
        "paid once the store works again"
    );
}

/// Many tasks of a small reservation wait at once: pages that are there are found behind those that are not.
#[test]
fn many_claims_hide_no_victim() {
    let tasks = 400;
    for seed in 0..8 {
        let mut random = Random(seed);
        let mut world = World::new(&Shape {
            frames: 4,
            reservations: vec![(2, ReservationKind::Hard)],
            objects: vec![(ObjectKind::Shared, tasks as u32, Regime::Conserve)],
            views: Vec::new(),
            tasks: vec![Some(0); tasks],
        });
        world.check_every = 64;
        for task in 0..tasks {
            touch(&mut world, task, 0, task as u32, false);
        }
        while !world.outstanding.is_empty() {
            world.complete(random.below(4), false);
        }
        nobody_waits(&world);
        assert!(
            world.tasks.iter().all(|task| task.errors == 0),
            "a task is refused a frame"
        );
    }
}

/// One frame is wanted back: one write-back is begun for it, however often the claim is looked at.
#[test]
fn no_more_is_taken_back_than_wanted() {
    let mut world = World::new(&Shape {
        frames: 8,
        reservations: vec![(1, ReservationKind::Firm), (1, ReservationKind::Hard)],
        objects: vec![
            (ObjectKind::Shared, 16, Regime::Conserve),
            (ObjectKind::Private, 16, Regime::Conserve),
        ],
        views: Vec::new(),
        tasks: vec![Some(0), Some(1), None],
    });
    for page in 0..7 {
        settled(&mut world, 0, 0, page, true);
    }
    touch(&mut world, 2, 1, 0, true);
    assert_eq!(world.outstanding.len(), 1, "one write-back for one claim");
    // Something else happens that makes the pool look at its claims again.
    touch(&mut world, 1, 0, 0, false);
    world.complete(1, false);
    let leaving = world.outstanding.len();
    assert_eq!(leaving, 1, "still one");
    world.complete_all();
    nobody_waits(&world);
}

/// A reservation waits for a page that another is writing back, and for a second page with the same frame. The
/// write-back fails, so the first page is there after all: it can be evicted for the second.
#[test]
fn a_page_that_stays_serves_who_waited_for_its_frame() {
    let mut world = World::new(&Shape {
        frames: 2,
        reservations: vec![(1, ReservationKind::Hard)],
        objects: vec![(ObjectKind::Shared, 8, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0), Some(0), None, None],
    });
    settled(&mut world, 2, 0, 0, true);
    touch(&mut world, 2, 0, 1, true);
    assert_eq!(world.outstanding.len(), 1, "the pool writes page 0 back");
    touch(&mut world, 0, 0, 0, false);
    touch(&mut world, 1, 0, 2, false);
    world.complete(0, true);
    world.complete_all();
    nobody_waits(&world);
}

/// A lock makes no claim. Where no page can leave for it, it fails, and is not tried with one page after the other.
#[test]
fn a_lock_for_which_no_page_can_leave_fails() {
    for stays in [false, true] {
        let mut world = World::new(&Shape {
            frames: 16,
            reservations: vec![(16, ReservationKind::Hard)],
            objects: vec![(ObjectKind::Private, 32, Regime::Conserve)],
            views: Vec::new(),
            tasks: vec![Some(0)],
        });
        for page in 0..16 {
            settled(&mut world, 0, 0, page, true);
        }
        let (reservation, object) = (world.reservations[0], world.objects[0]);
        let range = World::range(20, 4);
        world.memory.lock(reservation, object, range).expect("it may");
        world.drain();
        let mut attempts = 0;
        while !world.outstanding.is_empty() {
            attempts += 1;
            assert!(attempts < 200, "it goes on for ever");
            if stays {
                world.keep(0);
            } else {
                world.complete(0, true);
            }
        }
        assert!(world.locked.is_empty(), "it has failed");
        let again = world.memory.lock(reservation, object, range);
        again.expect("the next one is as good as the first");
        world.drain();
        world.complete_all();
        assert_eq!(world.locked, [reservation]);
    }
}
