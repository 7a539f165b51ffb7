//! The checker proved: bugs planted in the transfer of ownership and in the door are found.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Shape, World};
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::PageIndex;

fn owner_evicts_a_shared_page(planted: bool) {
    let shape = Shape {
        frames: 8,
        reservations: vec![(2, ReservationKind::Hard), (4, ReservationKind::Hard)],
        objects: vec![(ObjectKind::Shared, 4, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0), Some(1)],
    };
    let mut world = World::new(&shape);
    if planted {
        world.memory.plant_ownership_bug();
    }
    let mut touch = |task, page| {
        world.touch(task, 0, PageIndex::new(page), true);
        world.complete_all();
    };
    touch(0, 0);
    touch(1, 0);
    for page in 1..4 {
        touch(0, page);
    }
}

#[test]
fn without_the_bug_all_laws_hold() {
    owner_evicts_a_shared_page(false);
}

#[test]
#[should_panic(expected = "law 1 broken")]
fn the_planted_bug_is_found() {
    owner_evicts_a_shared_page(true);
}

fn a_frame_goes_out_and_comes_back(planted: bool) {
    let shape = Shape {
        frames: 8,
        reservations: vec![(4, ReservationKind::Firm)],
        objects: vec![(ObjectKind::Shared, 4, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![None],
    };
    let mut world = World::new(&shape);
    if planted {
        world.memory.plant_forgotten_frame();
    }
    let reservation = world.reservations[0];
    world
        .take_outside(reservation, 6)
        .expect("four of its own, two that are lent");
    world.return_outside(reservation, 3);
}

#[test]
fn without_the_bug_frames_come_back() {
    a_frame_goes_out_and_comes_back(false);
}

#[test]
#[should_panic(expected = "law 1 broken")]
fn a_forgotten_frame_is_found() {
    a_frame_goes_out_and_comes_back(true);
}
