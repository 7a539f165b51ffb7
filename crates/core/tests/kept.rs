//! Pages that something outside keeps: who counts on their frames gets others, or an error where there are none.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::{Shape, World};
use freehold_core::fact::Request;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind};
use freehold_core::units::{FrameCount, PageIndex};

/// Ends every request, until none is left: pages of the object of that number stay, all others go. How many stayed.
fn end_all(world: &mut World, kept: usize, bound: usize) -> usize {
    let object = world.tasks[0].mappings[kept].1;
    let mut stayed = 0;
    while let Some(&(page, request, _)) = world.outstanding.first() {
        if page.object() == object && request == Request::Evict {
            stayed += 1;
            assert!(stayed <= bound, "pages are tried over and over");
            world.keep(0);
        } else {
            world.complete(0, false);
        }
    }
    stayed
}

fn fill(world: &mut World, task: usize, mapping: usize, pages: std::ops::Range<u32>) {
    for page in pages {
        world.touch(task, mapping, PageIndex::new(page), true);
        world.complete_all();
    }
}

/// Frames leave in batches, so that now and then more of them are expected than there are claims: still every claim
/// ends, and after about as many pages that stayed as there are.
#[test]
fn everybody_who_waits_is_refused_when_every_page_stays() {
    for frames in [16, 64, 256] {
        for waiting in 1..=4 {
            let mut world = World::new(&Shape {
                frames,
                reservations: vec![(frames, ReservationKind::Hard)],
                objects: vec![(ObjectKind::Private, 300, Regime::Conserve)],
                views: Vec::new(),
                tasks: vec![Some(0); 4],
            });
            fill(&mut world, 0, 0, 0..frames);
            for task in 0..waiting {
                world.touch(task, 0, PageIndex::new(frames + task as u32), true);
            }
            let stayed = end_all(&mut world, 0, waiting * (frames as usize + 16));
            assert!(stayed > frames as usize);
            for task in &world.tasks[..waiting] {
                assert!(task.waiting.is_none());
                assert_eq!(task.errors, 1, "{frames} frames, {waiting} wait");
            }
        }
    }
}

/// Most of the pool's pages stay; those few that can leave are found, whichever list they are on.
#[test]
fn pages_of_the_pool_that_stay_do_not_hide_those_that_can_leave() {
    for active in [false, true] {
        let mut world = World::new(&Shape {
            frames: 208,
            reservations: Vec::new(),
            objects: vec![
                (ObjectKind::Private, 200, Regime::Conserve),
                (ObjectKind::Private, 200, Regime::Conserve),
            ],
            views: Vec::new(),
            tasks: vec![None, None],
        });
        let fill_kept = |world: &mut World| fill(world, 0, 0, 0..200);
        if active {
            fill(&mut world, 1, 1, 0..8);
            fill_kept(&mut world);
        } else {
            fill_kept(&mut world);
            fill(&mut world, 1, 1, 0..8);
        }
        for page in 8..150 {
            world.touch(1, 1, PageIndex::new(page), true);
            end_all(&mut world, 0, 208);
            assert!(world.tasks[1].waiting.is_none());
            assert_eq!(world.tasks[1].errors, 0, "page {page}");
        }
    }
}

/// Frames are gathered from pages that all stay: it is over, and begins again only when somebody asks again.
#[test]
fn gathering_from_pages_that_all_stay_ends() {
    for reservation in [Some(0), None] {
        let mut world = World::new(&Shape {
            frames: 200,
            reservations: vec![(8, ReservationKind::Firm)],
            objects: vec![(ObjectKind::Private, 180, Regime::Conserve)],
            views: Vec::new(),
            tasks: vec![reservation],
        });
        fill(&mut world, 0, 0, 0..180);
        for _ in 0..3 {
            let missing = world
                .memory
                .reclaim_for_admission(FrameCount::new(190))
                .expect("as many as are free or lent");
            assert!(!missing.is_zero());
            world.drain();
            let stayed = end_all(&mut world, 0, 200 + 256);
            assert!(stayed > 172, "{stayed} were tried");
        }
        world.memory.stop_reclaim();
        world.drain();
    }
}
