//! Every state that few operations can reach in a tiny world: three frames, two or three reservations, one shared
//! object. Breadth first; states that differ only by the reservations' names are met once.
//!
//! `FREEHOLD_DEPTH` sets how many operations deep it goes (6 unless told).

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use std::collections::BTreeSet;

use common::{Shape, World};
use freehold_core::effect::Protection;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::PageIndex;

const PAGES: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Touch { task: usize, page: u32, write: bool },
    Complete { at: usize, fails: bool },
    Take { of: usize },
    Return { of: usize },
}

fn depth() -> usize {
    // A soak, a hundred times as long, goes two operations deeper.
    common::setting("FREEHOLD_DEPTH", 6).min(8) as usize
}

fn apply(world: &mut World, operation: Operation) {
    match operation {
        Operation::Touch { task, page, write } => world.touch(task, 0, PageIndex::new(page), write),
        Operation::Complete { at, fails } => world.complete(at, fails),
        Operation::Take { of } => {
            let _refused_or_not = world.take_outside(world.reservations[of], 1);
        }
        Operation::Return { of } => world.return_outside(world.reservations[of], 1),
    }
}

fn operations(world: &World, shape: &Shape) -> Vec<Operation> {
    let mut all = Vec::new();
    // Of a reservation without a task somebody outside takes frames.
    for of in (0..shape.reservations.len()).filter(|of| !shape.tasks.contains(&Some(*of))) {
        all.push(Operation::Take { of });
        if world
            .outside
            .get(&world.reservations[of])
            .is_some_and(|found| found.held > 0)
        {
            all.push(Operation::Return { of });
        }
    }
    for task in (0..world.tasks.len()).filter(|&task| world.tasks[task].waiting.is_none()) {
        for page in 0..PAGES {
            all.extend([false, true].map(|write| Operation::Touch { task, page, write }));
        }
    }
    for at in 0..world.outstanding.len() {
        all.extend([false, true].map(|fails| Operation::Complete { at, fails }));
    }
    all
}

fn replay(shape: &Shape, path: &[Operation]) -> World {
    let mut world = World::new(shape);
    for &operation in path {
        apply(&mut world, operation);
    }
    world
}

/// All ways to rename reservations of equal capacity that have a task each.
fn renamings(shape: &Shape) -> Vec<Vec<u16>> {
    let all = shape.reservations.len() as u16;
    let count = shape.tasks.iter().flatten().count() as u16;
    let mut orders: Vec<Vec<u16>> = vec![Vec::new()];
    for _ in 0..count {
        orders = orders
            .iter()
            .flat_map(|order| {
                (0..count)
                    .filter(|slot| !order.contains(slot))
                    .map(|slot| [order.clone(), vec![slot]].concat())
            })
            .collect();
    }
    let capacity = |slot: u16| shape.reservations[usize::from(slot)].0;
    orders.retain(|order| {
        order
            .iter()
            .zip(0..)
            .all(|(&slot, place)| capacity(slot) == capacity(place))
    });
    for order in &mut orders {
        order.extend(count..all);
    }
    orders
}

fn signature(world: &World, order: &[u16]) -> Vec<u32> {
    let mut print = world.memory.fingerprint(order);
    // Tasks stand in the order of their reservations, one each; one without a reservation comes last. A reservation
    // without a task comes last of all.
    let reserved = world.tasks.iter().filter(|task| task.reservation.is_some()).count();
    let tasks = order
        .iter()
        .map(|&slot| usize::from(slot))
        .filter(|&slot| slot < reserved)
        .chain(reserved..world.tasks.len());
    for task in tasks {
        let found = &world.tasks[task];
        print.push(
            found
                .waiting
                .map_or(9, |waiting| waiting.2.get() * 4 + waiting.3 as u32 + 100),
        );
        for page in 0..PAGES {
            let entry = world.mapped.get(&(found.mappings[0].0, PageIndex::new(page)));
            print.push(entry.map_or(0, |entry| if entry.1 == Protection::Writable { 2 } else { 1 }));
        }
    }
    print
}

fn explore(name: &str, shape: &Shape) {
    let orders = renamings(shape);
    let mut seen: BTreeSet<Vec<u32>> = BTreeSet::new();
    let mut frontier: Vec<Vec<Operation>> = vec![Vec::new()];
    for _ in 0..depth() {
        let mut next = Vec::new();
        for path in &frontier {
            for operation in operations(&replay(shape, path), shape) {
                let longer = [path.as_slice(), &[operation]].concat();
                let world = std::panic::catch_unwind(|| replay(shape, &longer));
                let world = world.unwrap_or_else(|_| panic!("{name} fails after {longer:?}"));
                let print = orders
                    .iter()
                    .map(|order| signature(&world, order))
                    .min()
                    .expect("an order");
                if seen.insert(print) {
                    next.push(longer);
                }
            }
        }
        frontier = next;
    }
    println!("{name}: {} states within {} operations", seen.len(), depth());
    assert!(
        seen.len() > 100,
        "{name}: too few states to mean anything: {}",
        seen.len()
    );
}

fn shape(capacities: &[u32], kind: ReservationKind, regime: Regime, guest: bool) -> Shape {
    let tasks = (0..capacities.len()).map(Some).chain(guest.then_some(None)).collect();
    Shape {
        frames: 3,
        reservations: capacities.iter().map(|&capacity| (capacity, kind)).collect(),
        objects: vec![(ObjectKind::Shared, PAGES, regime)],
        views: Vec::new(),
        tasks,
    }
}

#[test]
fn two_reservations_under_conservation() {
    explore("2 + 1", &shape(&[2, 1], ReservationKind::Hard, Regime::Conserve, false));
    explore(
        "1 + 1 and a guest",
        &shape(&[1, 1], ReservationKind::Hard, Regime::Conserve, true),
    );
}

#[test]
fn three_reservations_under_conservation() {
    explore(
        "1 + 1 + 1",
        &shape(&[1, 1, 1], ReservationKind::Hard, Regime::Conserve, false),
    );
}

#[test]
fn reservations_without_management() {
    explore(
        "1 + 1 under none",
        &shape(&[1, 1], ReservationKind::Hard, Regime::Unmanaged, false),
    );
    explore(
        "1 + 1 + 1 under none",
        &shape(&[1, 1, 1], ReservationKind::Hard, Regime::Unmanaged, false),
    );
}

#[test]
fn firm_reservations() {
    explore(
        "1 + 1 firm",
        &shape(&[1, 1], ReservationKind::Firm, Regime::Conserve, true),
    );
}

/// A firm reservation whose one frame, and what it borrows, somebody outside takes and returns.
#[test]
fn frames_outside() {
    let mut one = shape(&[1, 1], ReservationKind::Firm, Regime::Conserve, true);
    one.tasks.remove(1);
    explore("1 firm, 1 firm outside and a guest", &one);
    one.reservations[0].1 = ReservationKind::Hard;
    explore("1 hard, 1 firm outside and a guest", &one);
    one.tasks.remove(0);
    one.frames = 4;
    explore("1 hard and 1 firm outside, and a guest", &one);
}
