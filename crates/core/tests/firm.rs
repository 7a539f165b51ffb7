//! Firm reservations under pressure: what was lent comes back within the stated number of requests, whatever the
//! borrower does, and only what is wanted.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, Shape, World, first_seed, setting};
use freehold_core::effect::Holder;
use freehold_core::error::AdmitError;
use freehold_core::fact::Request;
use freehold_core::limits::{ObjectKind, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, PageIndex};

const POOL: u32 = 256;
/// What is evicted together, at most.
const BATCH: u32 = 16;

/// A firm reservation of 8 frames whose task has written `written` pages, a hard one of 8, and a task of the pool.
fn borrower(written: u32) -> World {
    let mut world = World::new(&Shape {
        frames: POOL,
        reservations: vec![(8, ReservationKind::Firm), (8, ReservationKind::Hard)],
        objects: vec![(ObjectKind::Private, 400, Regime::Conserve)],
        views: Vec::new(),
        tasks: vec![Some(0), Some(1), None],
    });
    for page in 0..written {
        write(&mut world, 0, page);
        world.complete_all();
    }
    world
}

fn write(world: &mut World, task: usize, page: u32) {
    // A first touch maps the page for writing; a touch of a mapped page is the write itself.
    world.touch(task, 0, PageIndex::new(page), true);
}

fn reclaim_for_admission(world: &mut World, wanted: u32) -> u32 {
    let missing = world
        .memory
        .reclaim_for_admission(FrameCount::new(wanted))
        .expect("not over-committed");
    world.drain();
    missing.get()
}

fn admit(world: &mut World, capacity: u32) -> Result<(), AdmitError> {
    let spec = ReservationSpec {
        capacity: FrameCount::new(capacity),
        kind: ReservationKind::Hard,
    };
    let admitted = world.memory.admit(spec);
    world.drain();
    admitted.map(|_| ())
}

fn borrowed(world: &World) -> u32 {
    world.memory.reservation(world.reservations[0]).unwrap().borrowed.get()
}

fn evictions_under_way(world: &World) -> usize {
    let evictions = world
        .outstanding
        .iter()
        .filter(|(_, request, _)| *request == Request::Evict);
    evictions.count()
}

/// All that is missing is begun at once, on the pool's account, and not one page more.
#[test]
fn gathering_begins_a_request_for_each_frame_that_is_missing() {
    let mut world = borrower(248);
    assert_eq!(borrowed(&world), POOL - 8 - 8);
    assert_eq!(reclaim_for_admission(&mut world, 40), 40);
    assert_eq!(evictions_under_way(&world), 40, "one write for each dirty page");
    assert_eq!(world.evicted.get(&Holder::Pool).map(Vec::len), Some(40));
    world.complete_all();
    assert_eq!(reclaim_for_admission(&mut world, 40), 0);
    assert_eq!(borrowed(&world), POOL - 8 - 8 - 40);
    admit(&mut world, 40).unwrap();
    let taken = world.memory.reservation(world.reservations[0]).unwrap().taken_back;
    assert_eq!(taken, 40);
}

/// What is wanted is not begun all in one step, however much it is.
#[test]
fn gathering_begins_so_many_requests_at_a_time() {
    let mut world = borrower(248);
    let wanted = POOL - 16;
    assert_eq!(reclaim_for_admission(&mut world, wanted), wanted);
    let mut most = 0;
    let mut ended = 0;
    while !world.outstanding.is_empty() {
        most = most.max(evictions_under_way(&world));
        world.complete(0, false);
        ended += 1;
    }
    assert!((100..160).contains(&most), "{most} at a time");
    assert_eq!(ended, wanted, "each frame by one request, and nobody asked again");
    admit(&mut world, wanted).unwrap();
}

/// However hard the borrower and a task of the pool fault meanwhile, `n` frames need `n` requests and a batch.
#[test]
fn nobody_can_delay_what_is_gathered() {
    for round in 0..setting("FREEHOLD_WORLDS", 200) {
        let seed = first_seed() + round;
        let mut random = Random(seed);
        let mut world = borrower(40 + random.below(208) as u32);
        // The pool's task has pages of its own, which are evicted when nothing is left of what was lent.
        for page in 0..random.below(60) as u32 {
            world.touch(2, 0, PageIndex::new(300 + page), random.chance(2));
            world.complete_all();
        }
        // One frame at least stays for the task of the pool.
        let wanted = 1 + random.below((POOL - 17) as usize) as u32;
        let mut missing = reclaim_for_admission(&mut world, wanted);
        let (mut ended, bound) = (0, missing + BATCH);
        while missing > 0 {
            assert!(
                ended < bound,
                "seed {seed}: {missing} of {wanted} frames are missing after {ended} requests"
            );
            // Everybody goes on as he likes.
            for task in 0..3 {
                world.touch(task, 0, PageIndex::new(random.below(400) as u32), random.chance(2));
            }
            let evictions: Vec<usize> = (0..world.outstanding.len())
                .filter(|&at| world.outstanding[at].1 == Request::Evict && !random.chance(8))
                .collect();
            if let Some(&at) = evictions.first() {
                world.complete(at, false);
                ended += 1;
            } else {
                world.complete(random.below(world.outstanding.len()), false);
            }
            missing = reclaim_for_admission(&mut world, wanted);
        }
        admit(&mut world, wanted).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        world.complete_all();
        assert!(
            world.tasks.iter().all(|task| task.waiting.is_none()),
            "seed {seed}: a task waits for nothing"
        );
        assert!(
            world.tasks.iter().all(|task| task.errors == 0),
            "seed {seed}: a task was refused"
        );
    }
}

/// While frames are gathered the borrower gets none, and a task of the pool waits; both go on afterwards.
#[test]
fn nothing_is_lent_while_frames_are_gathered() {
    let mut world = borrower(20);
    assert_eq!(reclaim_for_admission(&mut world, 200), 0, "the pool has them");
    let before = borrowed(&world);
    for page in 20..60 {
        write(&mut world, 0, page);
        world.complete_all();
    }
    assert_eq!(borrowed(&world), before);
    world.touch(2, 0, PageIndex::new(390), false);
    assert!(world.outstanding.is_empty() && world.tasks[2].waiting.is_some());
    world.memory.stop_reclaim();
    world.drain();
    world.complete_all();
    assert!(world.tasks[2].waiting.is_none());
    write(&mut world, 0, 61);
    world.complete_all();
    assert_eq!(borrowed(&world), before + 1);
}

/// Write-backs that fail cost nobody anything: the pages stay, the frames stay lent, and another call tries again.
#[test]
fn a_failing_store_keeps_what_was_lent() {
    let mut world = borrower(248);
    let before = borrowed(&world);
    assert_eq!(reclaim_for_admission(&mut world, 10), 10);
    let mut ended = 0;
    while !world.outstanding.is_empty() {
        world.complete(0, true);
        ended += 1;
        assert!(ended <= 10, "a failure begins nothing new by itself");
    }
    assert_eq!(
        (
            borrowed(&world),
            world.memory.reservation(world.reservations[0]).unwrap().in_flight.get()
        ),
        (before, 0)
    );
    assert_eq!(reclaim_for_admission(&mut world, 10), 10);
    assert_eq!(evictions_under_way(&world), 10);
    world.complete_all();
    assert_eq!(reclaim_for_admission(&mut world, 10), 0);
    world.memory.stop_reclaim();
    world.drain();
    for page in 0..248 {
        // Contents are compared by the world.
        write(&mut world, 0, page);
        world.complete_all();
        write(&mut world, 0, page);
    }
}

/// Frames promised to others cannot be gathered.
#[test]
fn what_is_reserved_is_not_gathered() {
    let mut world = borrower(10);
    let refused = world.memory.reclaim_for_admission(FrameCount::new(POOL - 15));
    assert!(matches!(refused, Err(AdmitError::Overcommitted { available, .. }) if available.get() == POOL - 16));
}
