//! Random operations against a naive model, all laws checked after every one of them.
//!
//! `FREEHOLD_OPERATIONS` sets how many operations each suite does (1,000,000 unless told); a failure names its seed.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Random, Shape, World};
use freehold_core::error::RemoveError;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::{FrameCount, PageIndex};
use freehold_core::{Foresight, ReadAhead};

fn operations() -> u64 {
    common::setting("FREEHOLD_OPERATIONS", 1_000_000)
}

/// What a suite mixes.
#[derive(Clone, Copy)]
struct Mix {
    regime: Regime,
    locks: bool,
    firm: bool,
    guests: bool,
    views: bool,
    failures: bool,
    departures: bool,
    /// Programs that know nothing: content that goes, pages that stay, neighbours taken up, several waiting tasks.
    foreign: bool,
    /// Tasks without a reservation read pages ahead.
    reads_ahead: bool,
    /// A stand-in takes, keeps and returns frames of any reservation.
    outside: bool,
}

const PLAIN: Mix = Mix {
    regime: Regime::Conserve,
    locks: false,
    firm: false,
    guests: false,
    views: false,
    failures: false,
    departures: false,
    foreign: false,
    reads_ahead: false,
    outside: false,
};

fn shape(random: &mut Random, mix: Mix) -> Shape {
    let count = 1 + random.below(4);
    let least = if mix.locks { 9 } else { 2 };
    let reservations: Vec<(u32, ReservationKind)> = (0..count)
        .map(|_| {
            let firm = mix.firm && random.chance(2);
            let kind = if firm {
                ReservationKind::Firm
            } else {
                ReservationKind::Hard
            };
            (least + random.below(12) as u32, kind)
        })
        .collect();
    let reserved: u32 = reservations.iter().map(|reservation| reservation.0).sum();
    let mut objects = vec![(ObjectKind::Shared, 4 + random.below(20) as u32, mix.regime)];
    for _ in 0..random.below(3) {
        objects.push((ObjectKind::Private, 1 + random.below(16) as u32, Regime::Conserve));
    }
    let mut views = Vec::new();
    if mix.views {
        objects.push((ObjectKind::File, 2 + random.below(8) as u32, Regime::Conserve));
        views = vec![objects.len() - 1; 1 + random.below(3)];
    }
    let mut tasks: Vec<Option<usize>> = (0..count).map(Some).collect();
    for _ in 0..random.below(3) {
        tasks.push(Some(random.below(count)));
    }
    if mix.guests {
        tasks.extend([None, None]);
    }
    let spare = if mix.guests || mix.firm {
        1 + random.below(12) as u32
    } else {
        random.below(2) as u32
    };
    Shape {
        frames: reserved + spare,
        reservations,
        objects,
        views,
        tasks,
    }
}

fn step(world: &mut World, random: &mut Random, mix: Mix) {
    match random.below(100) {
        0..60 => {
            if world.tasks.is_empty() {
                return;
            }
            let task = random.below(world.tasks.len());
            let mapping = random.below(world.tasks[task].mappings.len());
            let object = world.tasks[task].mappings[mapping].1;
            let pages = world.pages.keys().filter(|key| key.0 == object).count();
            // Half of the touches go to few pages, so that pages are shared and referenced again.
            let reach = if random.chance(2) { pages.min(4) } else { pages };
            let page = PageIndex::new(random.below(reach) as u32);
            let write = random.chance(2);
            world.touch(task, mapping, page, write);
        }
        60..72 if mix.foreign => foreign(world, random),
        60..93 => {
            let fails = mix.failures && random.chance(8);
            world.complete(random.below(64), fails);
        }
        93..96 if mix.locks => lock_or_unlock(world, random),
        98..100 if mix.outside => through_the_door(world, random),
        96..98 if mix.departures => come_or_go(world, random),
        _ => {}
    }
}

fn foreign(world: &mut World, random: &mut Random) {
    if world.tasks.is_empty() {
        return;
    }
    let task = random.below(world.tasks.len());
    let mapping = random.below(world.tasks[task].mappings.len());
    let object = world.tasks[task].mappings[mapping].1;
    let pages = world.pages.keys().filter(|key| key.0 == object).count();
    let first = random.below(pages);
    let range = World::range(first as u32, 1 + random.below(pages - first) as u32);
    match random.below(6) {
        5 => drop(world.give_up_record(object, PageIndex::new(first as u32))),
        0 => world.forget(object, range),
        1 => world.keep(random.below(64)),
        4 => world.write_unseen(object, PageIndex::new(first as u32)),
        2 => {
            let which = if random.chance(2) {
                Foresight::Guess
            } else {
                Foresight::Stream
            };
            world.ahead(task, mapping, range, (which, random.chance(2)));
        }
        _ => {
            let waiter = random.below(world.tasks.len());
            world.touch_for(task, mapping, PageIndex::new(first as u32), waiter);
        }
    }
}

fn lock_or_unlock(world: &mut World, random: &mut Random) {
    let reservation = world.reservations[random.below(world.reservations.len())];
    let object = world.objects[random.below(world.objects.len())];
    let range = World::range(random.below(6) as u32, 1 + random.below(4) as u32);
    if random.chance(2) {
        let _refused_or_not = world.memory.lock(reservation, object, range);
    } else {
        let _refused_or_not = world.memory.unlock(reservation, object, range);
    }
    world.drain();
}

fn through_the_door(world: &mut World, random: &mut Random) {
    let reservation = world.reservations[random.below(world.reservations.len())];
    let frames = random.below(8) as u32;
    let held = world.outside.get(&reservation).map_or(0, |stand_in| stand_in.held);
    match random.below(8) {
        0..4 => {
            let _refused_or_not = world.take_outside(reservation, frames);
        }
        4..7 if held > 0 => world.return_outside(reservation, frames),
        _ => world.answer_recalls(),
    }
}

fn come_or_go(world: &mut World, random: &mut Random) {
    let slot = random.below(world.reservations.len());
    let reservation = world.reservations[slot];
    let mine: Vec<usize> = (0..world.tasks.len())
        .filter(|&index| world.tasks[index].reservation == Some(reservation))
        .collect();
    if random.chance(3) {
        for index in mine.iter().rev() {
            world.remove_task(*index);
        }
        if let Some(stand_in) = world.outside.remove(&reservation).filter(|found| found.held > 0) {
            assert_eq!(world.memory.release(reservation), Err(RemoveError::Busy));
            world.outside.insert(reservation, stand_in);
            world.return_outside(reservation, u32::MAX);
        }
        // Where an earlier successor found no room there is nothing to release.
        let _gone_already = world.memory.release(reservation);
        world.drain();
        let view = freehold_core::limits::ReservationSpec {
            capacity: FrameCount::new(2 + random.below(8) as u32),
            kind: ReservationKind::Hard,
        };
        // A successor may find no room yet; then the slot stays empty until another try.
        match world.memory.admit(view) {
            Ok(id) => world.reservations[slot] = id,
            Err(_) => world.drain(),
        }
        world.drain();
        world.add_task(Some(world.reservations[slot]));
    } else if let Some(&index) = mine.first() {
        world.remove_task(index);
        world.add_task(Some(reservation));
    }
}

fn run(name: &str, mix: Mix) {
    let total = operations();
    let mut done = 0;
    let mut seed = common::first_seed() - 1;
    while done < total {
        seed += 1;
        let steps = 2_000.min(total - done);
        let outcome = std::panic::catch_unwind(|| {
            let mut random = Random(seed);
            let mut world = World::new(&shape(&mut random, mix));
            if mix.reads_ahead {
                let pages = ReadAhead::of(1 << random.below(5)).expect("a power of two");
                world.memory.set_read_ahead(pages);
                world.memory.set_reads_on(random.below(2) == 1);
            }
            for _ in 0..steps {
                step(&mut world, &mut random, mix);
            }
            for _ in 0..8 * usize::from(mix.locks) {
                lock_or_unlock(&mut world, &mut random);
            }
            if random.chance(2) {
                // Refused where so many are promised.
                let _ = world
                    .memory
                    .reclaim_for_admission(FrameCount::new(1 + random.below(8) as u32));
                world.drain();
            }
            match random.below(3) {
                0 if mix.failures => no_page_moves(&mut world, |world| world.complete(0, true)),
                1 if mix.foreign => no_page_moves(&mut world, World::keep_or_complete),
                _ => {}
            }
            world.memory.stop_reclaim();
            world.drain();
            settle(&mut world);
        });
        assert!(
            outcome.is_ok(),
            "suite {name} fails with seed {seed} within {steps} operations"
        );
        done += steps;
    }
}

/// From now on no page leaves: what that makes others try comes to an end.
fn no_page_moves(world: &mut World, answer: impl Fn(&mut World)) {
    let mut left = 20_000;
    while !world.outstanding.is_empty() {
        assert!(left > 0, "requests are made for ever");
        left -= 1;
        answer(world);
    }
}

/// Once every request is answered nobody waits any more.
fn settle(world: &mut World) {
    for _ in 0..64 {
        world.answer_recalls();
        world.complete_all();
    }
    assert!(
        world.tasks.iter().all(|task| task.waiting.is_none()),
        "a task waits for nothing"
    );
}

#[test]
fn conservation() {
    run("conservation", PLAIN);
}

#[test]
fn no_management() {
    run(
        "no management",
        Mix {
            regime: Regime::Unmanaged,
            guests: true,
            ..PLAIN
        },
    );
}

#[test]
fn eviction_locks() {
    run(
        "eviction locks",
        Mix {
            locks: true,
            guests: true,
            ..PLAIN
        },
    );
}

#[test]
fn firm_and_best_effort() {
    run(
        "firm and best effort",
        Mix {
            firm: true,
            guests: true,
            ..PLAIN
        },
    );
}

#[test]
fn copy_on_write() {
    run(
        "copy on write",
        Mix {
            views: true,
            guests: true,
            ..PLAIN
        },
    );
}

#[test]
fn failing_store() {
    run(
        "failing store",
        Mix {
            failures: true,
            guests: true,
            views: true,
            firm: true,
            locks: true,
            ..PLAIN
        },
    );
}

#[test]
fn programs_that_know_nothing() {
    let mix = Mix { foreign: true, ..PLAIN };
    run("programs that know nothing", mix);
    run(
        "programs that know nothing, and everything else",
        Mix {
            failures: true,
            guests: true,
            firm: true,
            locks: true,
            departures: true,
            ..mix
        },
    );
}

#[test]
fn read_ahead() {
    let mix = Mix {
        reads_ahead: true,
        guests: true,
        firm: true,
        ..PLAIN
    };
    run("read-ahead", mix);
    run(
        "read-ahead, and everything else",
        Mix {
            failures: true,
            departures: true,
            locks: true,
            views: true,
            foreign: true,
            ..mix
        },
    );
}

#[test]
fn frames_outside() {
    let mix = Mix {
        outside: true,
        firm: true,
        guests: true,
        ..PLAIN
    };
    run("frames outside", mix);
    run(
        "frames outside, and everything else",
        Mix {
            failures: true,
            locks: true,
            departures: true,
            foreign: true,
            views: true,
            reads_ahead: true,
            ..mix
        },
    );
    run(
        "frames outside without management",
        Mix {
            regime: Regime::Unmanaged,
            departures: true,
            failures: true,
            ..mix
        },
    );
}

#[test]
fn coming_and_going() {
    run(
        "coming and going",
        Mix {
            departures: true,
            locks: true,
            guests: true,
            firm: true,
            views: true,
            ..PLAIN
        },
    );
}

#[test]
fn coming_and_going_without_management() {
    let mix = Mix {
        departures: true,
        guests: true,
        firm: true,
        failures: true,
        ..PLAIN
    };
    run(
        "coming and going without management",
        Mix {
            regime: Regime::Unmanaged,
            ..mix
        },
    );
}
