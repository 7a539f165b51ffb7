//! The stated bounds: effects waiting at a time, list entries, slots used again.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Shape, World};
use freehold_core::Memory;
use freehold_core::effect::Effect;
use freehold_core::error::{CompletionError, FaultError, RemoveError};
use freehold_core::fact::{Access, Fault, Request};
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};

const PAGES: u32 = 3_000;

fn two_sharers() -> World {
    let mut world = World::new(&Shape {
        frames: 2 * PAGES,
        reservations: vec![(PAGES, ReservationKind::Hard); 2],
        objects: vec![(ObjectKind::Shared, PAGES, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0), Some(1)],
    });
    world.check_every = 1_000;
    for task in [0, 1] {
        for page in 0..PAGES {
            world.touch(task, 0, PageIndex::new(page), true);
            world.complete_all();
        }
    }
    world
}

/// A task and then its reservation end; every page passes to the other sharer, without more effects than fit.
#[test]
fn a_release_passes_on_any_number_of_pages() {
    let mut world = two_sharers();
    assert!(
        world.memory.max_effects() < PAGES as usize,
        "else the test shows nothing"
    );
    world.remove_task(0);
    let id = world.reservations[0];
    world.memory.release(id).expect("its task is gone");
    world.drain();
    world.memory.check_laws().expect("all laws hold");
    assert_eq!(world.memory.pool_view().free.get(), PAGES);
    let other = world
        .memory
        .reservation(world.reservations[1])
        .expect("a live reservation");
    assert_eq!((other.owned.get(), other.conserved.get()), (PAGES, 0));
    assert_eq!(world.memory.release(id), Err(RemoveError::Stale));
}

/// Removing an object that two reservations keep pages of, however many.
#[test]
fn an_object_of_any_size_is_removed_at_once() {
    let mut world = two_sharers();
    for _ in 0..2 {
        world.remove_task(0);
    }
    world.memory.remove_object(world.objects[0]).expect("nobody maps it");
    assert_eq!(world.memory.poll_effect(), None);
    world.memory.check_laws().expect("all laws hold");
    for id in &world.reservations {
        assert_eq!(
            world.memory.reservation(*id).expect("a live reservation").free.get(),
            PAGES
        );
    }
}

/// Firm reservations map pages under `none` with one and the same frame, borrowed and returned again and again.
#[test]
fn list_entries_suffice_for_borrowers_under_none() {
    let limits = Limits {
        frames: FrameCount::new(14),
        pages: PageCount::new(5),
        reservations: 9,
        objects: 1,
        tasks: 9,
        mappings: 9,
        compared_pages: PageCount::new(5),
        shared_locks: PageCount::ZERO,
    };
    let mut memory = limits.seal().expect("room for small tables");
    let spec = ObjectSpec {
        kind: ObjectKind::Shared,
        pages: PageCount::new(5),
        regime: Regime::Unmanaged,
    };
    let object = memory.create_object(spec).expect("room for the object");
    for number in 0..9 {
        let (capacity, kind) = match number {
            0 => (5, ReservationKind::Hard),
            _ => (1, ReservationKind::Firm),
        };
        let capacity = FrameCount::new(capacity);
        let reservation = memory
            .admit(ReservationSpec { capacity, kind })
            .expect("room for the reservation");
        let task = memory.add_task(Some(reservation)).expect("room for the task");
        let mapping = memory.map(task, object).expect("room for the mapping");
        for page in (0..5).map(PageIndex::new) {
            let access = Access::Read;
            memory
                .handle_fault(Instant::ZERO, Fault { mapping, page, access })
                .expect("a legal fault");
            while let Some(effect) = memory.poll_effect() {
                assert!(!matches!(effect, Effect::Fail { .. }), "a fault fails");
                if let Effect::Fill { page, .. } = effect {
                    memory
                        .handle_done(Instant::ZERO, page, Request::Fill)
                        .expect("an outstanding request");
                }
            }
        }
        let active = memory.reservation(reservation).expect("a live reservation").active;
        assert_eq!(active.get(), 5);
        memory.check_laws().expect("all laws hold");
    }
}

fn small() -> (Memory, Vec<freehold_core::id::MappingId>, freehold_core::id::ObjectId) {
    let limits = Limits {
        frames: FrameCount::new(4_000),
        pages: PageCount::new(8_000),
        reservations: 1,
        objects: 1,
        tasks: 2,
        mappings: 2,
        compared_pages: PageCount::ZERO,
        shared_locks: PageCount::ZERO,
    };
    let mut memory = limits.seal().expect("room for small tables");
    let spec = ObjectSpec {
        kind: ObjectKind::Shared,
        pages: PageCount::new(8_000),
        regime: Regime::Conserve,
    };
    let object = memory.create_object(spec).expect("room for the object");
    let spec = ReservationSpec {
        capacity: FrameCount::new(3_000),
        kind: ReservationKind::Hard,
    };
    let reservation = memory.admit(spec).expect("room for the reservation");
    let mappings = [0, 1].map(|_| {
        let task = memory.add_task(Some(reservation)).expect("room for the task");
        memory.map(task, object).expect("room for the mapping")
    });
    (memory, mappings.to_vec(), object)
}

/// An engine that forgets to drain is refused, and loses nothing.
#[test]
fn facts_are_refused_while_effects_pile_up() {
    let (mut memory, mappings, _) = small();
    let fault = |page| Fault {
        mapping: mappings[0],
        page: PageIndex::new(page),
        access: Access::Read,
    };
    memory.handle_fault(Instant::ZERO, fault(0)).expect("a legal fault");
    let Some(Effect::Fill { page, .. }) = memory.poll_effect() else {
        panic!("no fill");
    };
    memory
        .handle_done(Instant::ZERO, page, Request::Fill)
        .expect("an outstanding request");
    // Soft faults, of which each leaves a `Map`.
    let mut refused = None;
    for _ in 0..memory.max_effects() {
        if let Err(error) = memory.handle_fault(Instant::ZERO, fault(0)) {
            refused = Some(error);
            break;
        }
    }
    assert_eq!(refused, Some(FaultError::Undrained));
    let mut drained = 0;
    while memory.poll_effect().is_some() {
        drained += 1;
    }
    assert!(drained <= memory.max_effects());
    memory.handle_fault(Instant::ZERO, fault(0)).expect("drained now");
    memory.check_laws().expect("all laws hold");
}

/// A completion that comes while effects pile up is refused, not lost: the request stays outstanding.
#[test]
fn completions_wait_until_effects_are_drained() {
    let (mut memory, mappings, _) = small();
    let fault = |task: usize, page| Fault {
        mapping: mappings[task],
        page: PageIndex::new(page),
        access: Access::Read,
    };
    memory.handle_fault(Instant::ZERO, fault(0, 0)).expect("a legal fault");
    let Some(Effect::Fill { page, .. }) = memory.poll_effect() else {
        panic!("no fill");
    };
    memory
        .handle_done(Instant::ZERO, page, Request::Fill)
        .expect("an outstanding request");
    memory.handle_fault(Instant::ZERO, fault(1, 1)).expect("a legal fault");
    let Some(Effect::Fill { page, .. }) = core::iter::from_fn(|| memory.poll_effect()).last() else {
        panic!("no second fill");
    };
    while memory.handle_fault(Instant::ZERO, fault(0, 0)).is_ok() {}
    let refused = memory.handle_done(Instant::ZERO, page, Request::Fill);
    assert_eq!(refused, Err(CompletionError::Undrained));
    while memory.poll_effect().is_some() {}
    assert_eq!(memory.handle_done(Instant::ZERO, page, Request::Fill), Ok(()));
}

/// A page named by another `Memory` may lie outside the object that has the same id here.
#[test]
fn a_page_of_another_memory_is_not_outstanding() {
    let (mut large, mappings, _) = small();
    let fault = Fault {
        mapping: mappings[0],
        page: PageIndex::new(7_999),
        access: Access::Read,
    };
    large.handle_fault(Instant::ZERO, fault).expect("a legal fault");
    let Some(Effect::Fill { page, .. }) = large.poll_effect() else {
        panic!("no fill");
    };
    let shape = Shape {
        frames: 4,
        reservations: vec![(2, ReservationKind::Hard)],
        objects: vec![(ObjectKind::Shared, 4, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0)],
    };
    let mut world = World::new(&shape);
    for request in [Request::Fill, Request::Evict] {
        assert_eq!(
            world.memory.handle_done(Instant::ZERO, page, request),
            Err(CompletionError::NotOutstanding)
        );
    }
}

/// A reservation does not inherit what was taken from the one that had its slot before.
#[test]
fn a_new_reservation_lost_nothing_yet() {
    let mut world = World::new(&Shape {
        frames: 4,
        reservations: vec![(2, ReservationKind::Hard); 2],
        objects: vec![(ObjectKind::Shared, 8, Regime::Unmanaged)],
        views: Vec::new(),
        tasks: vec![Some(0), Some(1)],
    });
    let touch = |world: &mut World, task, page| {
        world.touch(task, 0, PageIndex::new(page), true);
        world.complete_all();
    };
    touch(&mut world, 0, 0);
    touch(&mut world, 1, 0);
    // The first evicts page 0 for both.
    touch(&mut world, 0, 1);
    touch(&mut world, 0, 2);
    world.remove_task(1);
    world.memory.release(world.reservations[1]).expect("its task is gone");
    world.drain();
    let spec = ReservationSpec {
        capacity: FrameCount::new(2),
        kind: ReservationKind::Hard,
    };
    let next = world.memory.admit(spec).expect("as large as the one before");
    world.add_task(Some(next));
    touch(&mut world, 1, 0);
    let counts = world.memory.task(world.tasks[1].id).expect("a live task");
    assert_eq!((counts.swap_ins, counts.shared_swap_ins), (1, 0));
}

/// A reservation that ends while its last frame is on its way leaves its slot when that arrives.
#[test]
fn a_reservation_that_ends_with_a_fill_under_way_is_forgotten_when_it_arrives() {
    let mut world = World::new(&Shape {
        frames: 16,
        reservations: vec![(2, ReservationKind::Hard)],
        objects: vec![(ObjectKind::Shared, 8, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0)],
    });
    let spec = ReservationSpec {
        capacity: FrameCount::new(2),
        kind: ReservationKind::Hard,
    };
    for round in 0..1_000 {
        let last = world.tasks.len() - 1;
        world.touch(last, 0, PageIndex::new(round % 8), true);
        world.remove_task(last);
        world.memory.release(world.reservations[0]).expect("its task is gone");
        world.drain();
        world.complete_all();
        world.reservations[0] = world.memory.admit(spec).expect("as large as the one before");
        world.add_task(Some(world.reservations[0]));
    }
    world.memory.check_laws().expect("all laws hold");
}

/// Evictions are counted to the task whose fault asked for the frame, also where it had to wait before.
#[test]
fn evictions_are_counted_to_whom_they_serve() {
    let mut world = World::new(&Shape {
        frames: 4,
        reservations: vec![(2, ReservationKind::Hard)],
        objects: vec![(ObjectKind::Shared, 16, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0); 4],
    });
    // Both frames are being filled when two more pages are asked for.
    for task in 0..4 {
        world.touch(task, 0, PageIndex::new(task as u32), false);
    }
    world.complete_all();
    let evictions = |task: usize| world.memory.task(world.tasks[task].id).expect("a live task").evictions;
    assert_eq!([0, 1, 2, 3].map(evictions), [0, 0, 1, 1]);
}
