//! Pinned page pools against a naive model of the global lists and of Algorithm 2, and at their edges.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test world")]

mod common;

use common::Random;
use common::pinned::{Model, Pinned, settings};
use freehold_core::error::{AdmitError, PinningError, RemoveError};
use freehold_core::limits::{ReservationKind, ReservationSpec};
use freehold_core::pinning::{CapacityRule, JobReport, PinningPolicy, PinningSettings, SwapBudgetRule, UnpinnedGoTo};
use freehold_core::units::{Duration, FrameCount, Instant, PageCount};

fn with_capacity(pages: u32) -> PinningSettings {
    PinningSettings {
        initial_capacity: PageCount::new(pages),
        ..settings()
    }
}

/// Touches `hot` pages of the task between floods of the hog, which has hot pages of its own, so that the active list
/// is too long and gives pages up.
fn warm(world: &mut Pinned, hot: u32, rounds: u32) {
    for round in 0..rounds {
        for page in 0..hot {
            world.touch_task(page);
        }
        for page in 0..world.hog_pages / 6 {
            world.touch_hog(world.hog_pages - 1 - page);
        }
        for page in 0..world.hog_pages / 12 {
            world.touch_hog((round * world.hog_pages / 12 + page) % (world.hog_pages / 2));
        }
    }
}

#[test]
fn it_equals_a_naive_model_step_by_step() {
    let (mut early_scans, mut pinned_on_return) = (0, 0);
    for seed in common::first_seed()..common::first_seed() + common::setting("FREEHOLD_WORLDS", 60) {
        let mut random = Random(seed);
        let frames = 80 + random.below(300) as u32;
        let mut chosen = with_capacity(random.below(120) as u32);
        chosen.restore = PageCount::new(u32::from(random.chance(2)));
        chosen.gamma = 1 + random.below(5) as u32;
        if random.chance(2) {
            chosen.unpinned_go_to = UnpinnedGoTo::Listing;
        }
        let mut world = Pinned::new(frames, 150, 400, chosen);
        let mut model = Model::new(frames, chosen, 150, 400);
        let (mut hot, mut stride) = (0, 1);
        for step in 0..6000u32 {
            if random.chance(400) {
                (hot, stride) = (random.below(100) as u32, 1 + random.below(3) as u32);
            }
            if random.chance(3) {
                let page = (hot + random.below(50) as u32) % 150;
                world.touch_task(page);
                model.touch(page);
            } else {
                let page = (step * stride) % 400;
                world.touch_hog(page);
                model.touch(150 + page);
            }
            if random.chance(150) {
                let job = JobReport {
                    missed: random.chance(2),
                    swap_ins: random.below(30) as u32,
                    ..JobReport::default()
                };
                let judged = world.end_job(&job);
                model.capacity = judged.capacity.get();
            }
            assert_eq!(world.pinned(), model.pinned(), "seed {seed}, step {step}");
            assert_eq!(world.evicted.len(), model.evicted.len(), "seed {seed}, step {step}");
            assert_eq!(world.evicted.last(), model.evicted.last(), "seed {seed}, step {step}");
            if step % 64 == 0 {
                world.check();
            }
        }
        assert!(world.view().pinned > 0, "seed {seed}: nothing was ever pinned");
        assert!(model.returned > 0, "seed {seed}: nothing came back soon");
        early_scans += model.early_scans;
        pinned_on_return += model.pinned_on_return;
    }
    assert!(early_scans > 0, "no bit was cleared before a page had to leave");
    assert!(pinned_on_return > 0, "nothing was pinned as it came back");
}

#[test]
fn a_hot_page_is_pinned_and_survives_any_flood() {
    let mut world = Pinned::new(300, 100, 900, with_capacity(200));
    warm(&mut world, 60, 12);
    let pinned = world.view().active.get() + world.view().inactive.get();
    assert!(pinned >= 55, "{pinned} of 60 pages are pinned");
    let before = world.task_fills;
    for page in 0..900 {
        world.touch_hog(page);
    }
    for page in 0..60 {
        world.touch_task(page);
    }
    assert!(
        world.task_fills - before <= 5,
        "{} were lost",
        world.task_fills - before
    );
}

#[test]
fn pages_prove_their_use_in_a_large_pool_too() {
    // Batches of evictions are as large as they get here: bits are cleared ahead of them all the same.
    let mut world = Pinned::new(8192, 1000, 16_000, with_capacity(2000));
    let mut streamed = 0;
    let mut fills = Vec::new();
    for _ in 0..300 {
        let before = world.task_fills;
        for page in 0..1000 {
            world.touch_task(page);
        }
        fills.push(world.task_fills - before);
        for _ in 0..200 {
            world.touch_hog(streamed % 16_000);
            streamed += 1;
        }
    }
    let late: u64 = fills.iter().skip(200).sum();
    assert_eq!(late, 0, "pages that every round touches went on leaving");
    assert!(world.soft_faults() >= 1000, "no page proved its use by a soft fault");
    world.check();
}

#[test]
fn a_page_touched_once_is_not_pinned() {
    let mut world = Pinned::new(300, 100, 900, with_capacity(200));
    for page in 0..100 {
        world.touch_task(page);
    }
    for page in 0..900 {
        world.touch_hog(page);
    }
    assert_eq!(world.view().pinned, 0);
}

#[test]
fn a_pool_over_its_capacity_is_trimmed_as_memory_is_wanted() {
    let mut world = Pinned::new(400, 200, 900, with_capacity(300));
    warm(&mut world, 150, 12);
    assert!(world.view().active.get() > 100);
    let met = JobReport::default();
    while world.view().capacity.get() > 10 {
        world.end_job(&met);
    }
    assert!(
        world.view().active.get() > 100,
        "nothing happens before memory is wanted"
    );
    for page in 0..900 {
        world.touch_hog(page);
    }
    let view = world.view();
    assert!(view.active.get() + view.inactive.get() <= 10, "{view:?}");
    world.check();
}

#[test]
fn a_pool_of_no_capacity_pins_nothing() {
    let mut world = Pinned::new(300, 100, 900, with_capacity(0));
    warm(&mut world, 60, 12);
    assert_eq!(world.view().pinned, 0);
    assert!(world.view().refused > 0);
}

#[test]
fn epsilon_stays_between_its_ends() {
    let mut world = Pinned::new(300, 100, 900, with_capacity(20));
    for _ in 0..40 {
        warm(&mut world, 60, 2);
        assert!(world.view().epsilon_halvings <= 31);
        // A window holds one page at least: something leaves whenever something enters a full pool.
        assert!(world.view().active.get() + world.view().inactive.get() <= 20);
    }
    assert!(world.view().unpinned > 0);
}

#[test]
fn everything_is_pinned_where_that_is_asked() {
    let all = PinningSettings {
        policy: PinningPolicy::All,
        ..settings()
    };
    let mut world = Pinned::new(300, 100, 900, all);
    for page in 0..100 {
        world.touch_task(page);
    }
    for page in 0..900 {
        world.touch_hog(page);
    }
    let before = world.task_fills;
    for page in 0..100 {
        world.touch_task(page);
    }
    assert_eq!(world.task_fills, before);
    assert_eq!(world.view().active.get(), 100);
    // What is pinned for good cannot be promised to a reservation.
    let spec = |capacity| ReservationSpec {
        capacity: FrameCount::new(capacity),
        kind: ReservationKind::Hard,
    };
    let available = FrameCount::new(200);
    let wanted = FrameCount::new(201);
    assert_eq!(
        world.memory.admit(spec(201)),
        Err(AdmitError::Overcommitted { wanted, available })
    );
}

/// Every page is pinned, none is on trial, and the frames are wanted: a page that was put on the active list would be
/// pinned again, and whoever wants a frame would wait for ever.
#[test]
fn a_pool_that_tries_pages_gives_them_up_where_nothing_else_is_left() {
    let proves = PinningSettings {
        highest_capacity: PageCount::new(5000),
        ..PinningSettings::freehold(Duration::from_millis(5), Duration::from_millis(30))
    };
    let mut world = Pinned::new(300, 300, 900, proves);
    for page in 0..250 {
        world.touch_task(page);
    }
    let pinned = world.memory.pinned_pages().get();
    assert!(pinned > 200, "{:?}", world.view());
    let spec = ReservationSpec {
        capacity: FrameCount::new(200),
        kind: ReservationKind::Hard,
    };
    for _ in 0..100 {
        let _missing = world
            .memory
            .reclaim_for_admission(spec.capacity)
            .expect("nobody else was promised them");
        world.drain();
        world.check();
        if world.memory.admit(spec).is_ok() {
            return;
        }
    }
    panic!("the frames were never gathered: {:?}", world.view());
}

#[test]
fn no_more_is_pinned_than_the_highest_capacity() {
    for policy in [PinningPolicy::All, PinningPolicy::Freehold, PinningPolicy::Adaptive] {
        let mut world = Pinned::new(
            300,
            100,
            900,
            PinningSettings {
                policy,
                highest_capacity: PageCount::new(40),
                ..with_capacity(5000)
            },
        );
        warm(&mut world, 60, 12);
        let view = world.view();
        assert_eq!(view.active.get() + view.inactive.get(), 40, "{policy:?}: {view:?}");
        assert_eq!(view.peak.get(), 40);
        world.check();
    }
}

#[test]
fn the_pool_of_frames_is_never_pinned_whole() {
    let all = PinningSettings {
        policy: PinningPolicy::All,
        ..settings()
    };
    for chosen in [all, with_capacity(5000)] {
        let mut world = Pinned::new(128, 300, 300, chosen);
        for round in 0..20 {
            for page in 0..300 {
                world.touch_task(page);
                world.touch_hog((page + round) % 300);
            }
        }
        assert!(world.memory.pinned_pages().get() <= 96, "{:?}", world.view());
        world.check();
    }
}

#[test]
fn a_reservation_takes_frames_that_are_pinned_but_not_for_good() {
    let mut world = Pinned::new(400, 300, 900, with_capacity(300));
    warm(&mut world, 150, 12);
    assert!(world.memory.pinned_pages().get() > 100, "{:?}", world.view());
    let spec = ReservationSpec {
        capacity: FrameCount::new(300),
        kind: ReservationKind::Hard,
    };
    for _ in 0..10_000 {
        let _missing = world
            .memory
            .reclaim_for_admission(spec.capacity)
            .expect("nobody else was promised them");
        world.drain();
        if world.memory.admit(spec).is_ok() {
            world.check();
            return;
        }
        world.drain();
    }
    panic!("the frames were never gathered: {:?}", world.view());
}

#[test]
fn the_judgement_of_a_job_says_what_its_swap_budget_is() {
    let mut world = Pinned::new(300, 100, 900, settings());
    let late = JobReport {
        missed: true,
        swap_ins: 3,
        swap_time: Duration::from_millis(2),
        ..JobReport::default()
    };
    let judged = world.end_job(&late);
    assert_eq!(judged.capacity_rule, CapacityRule::Grown);
    assert_eq!(judged.swap_budget_rule, SwapBudgetRule::Raised);
    assert_eq!(judged.swap_budget, Duration::from_millis(2));
    // The same again raises it again; a job that says nothing new changes nothing.
    assert_eq!(world.end_job(&late).swap_budget, Duration::from_millis(4));
    let held = JobReport {
        missed: true,
        ..JobReport::default()
    };
    assert_eq!(world.end_job(&held).swap_budget, Duration::from_millis(4));
}

#[test]
fn a_pool_closes_when_its_tasks_are_gone() {
    let mut world = Pinned::new(300, 100, 900, with_capacity(200));
    warm(&mut world, 60, 12);
    assert_eq!(world.memory.close_pinned_pool(world.pool), Err(RemoveError::Busy));
    world.memory.remove_task(world.task).expect("a live task");
    world.drain();
    assert_eq!(
        world.memory.pinned_pages(),
        PageCount::ZERO,
        "nobody of the pool uses them any more"
    );
    world.memory.close_pinned_pool(world.pool).expect("no task is left");
    assert_eq!(world.memory.close_pinned_pool(world.pool), Err(RemoveError::Stale));
    assert_eq!(world.memory.pinned_pool(world.pool), None);
    world.check();
    for page in 0..900 {
        world.touch_hog(page);
    }
    world.check();
}

#[test]
fn bad_settings_are_refused() {
    let mut world = Pinned::new(100, 10, 10, settings());
    let mut over = settings();
    over.budget = over.period.saturating_add(Duration::new(1));
    assert_eq!(world.memory.open_pinned_pool(over), Err(PinningError::BadBudget));
    let mut none = settings();
    none.budget = Duration::ZERO;
    assert_eq!(world.memory.open_pinned_pool(none), Err(PinningError::BadBudget));
    let mut raised = settings();
    raised.highest_swap_budget = raised.period;
    assert_eq!(world.memory.open_pinned_pool(raised), Err(PinningError::BadSwapBudget));
    let mut flat = settings();
    flat.gamma = 0;
    assert_eq!(world.memory.open_pinned_pool(flat), Err(PinningError::BadGamma));
    let opened = (0..40)
        .filter(|_| world.memory.open_pinned_pool(settings()).is_ok())
        .count();
    assert!(opened < 40, "the table is bounded");
}

#[test]
fn effects_of_a_stale_pool_are_refused() {
    let mut world = Pinned::new(100, 10, 10, settings());
    world.memory.remove_task(world.task).expect("a live task");
    world.drain();
    world.memory.close_pinned_pool(world.pool).expect("no task is left");
    let refused = world
        .memory
        .handle_pinned_job_end(Instant::new(world.now), world.pool, &JobReport::default());
    assert!(refused.is_err());
    assert!(world.memory.poll_effect().is_none());
}

/// A working set of 60 pages that goes on to the next 60 after every hundred jobs.
#[test]
fn what_a_shift_left_behind_is_unpinned_before_the_next() {
    const PART: u32 = 60;
    let mut world = Pinned::new(300, 5 * PART, 900, with_capacity(100));
    let mut streamed = 0;
    for part in 0..10 {
        for _ in 0..100 {
            let before = world.task_fills;
            for page in 0..PART {
                world.touch_task(part % 5 * PART + page);
            }
            for page in 0..150 {
                world.touch_hog(899 - page);
            }
            for _ in 0..75 {
                world.touch_hog(streamed % 450);
                streamed += 1;
            }
            let swap_ins = (world.task_fills - before) as u32;
            let report = JobReport {
                missed: swap_ins > PART / 4,
                swap_ins,
                ..JobReport::default()
            };
            world.end_job(&report);
        }
        let (active, inactive) = world.pinned();
        let mut pinned = active.iter().chain(&inactive);
        assert!(!active.is_empty(), "part {part}: nothing is pinned");
        assert!(
            pinned.all(|page| page / PART == part % 5),
            "part {part}: {active:?} {inactive:?}"
        );
        world.check();
    }
}
