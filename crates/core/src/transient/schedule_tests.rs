//! Worked examples, and what holds for every plan.

use super::*;
use alloc::vec;
use alloc::vec::Vec;

fn component(allocated: u32, requested: u32) -> ComponentFacts {
    ComponentFacts {
        allocated,
        requested,
        minimum: 1,
        ..ComponentFacts::default()
    }
}

fn from(from: usize, to: usize) -> Move {
    Move { from: Some(from), to }
}

#[test]
fn units_go_where_they_lower_the_largest_tardiness() {
    let components = [component(2, 4), component(1, 3), component(3, 1)];
    let mut estimates = Estimates::new(3, 2).unwrap();
    estimates.take_up(&components, &[4000, 1000, 0, 0, 3000, 0]).unwrap();
    let plan = Schedule::plan(&estimates, &components, 1, &[5000, 2600]).unwrap();
    assert_eq!(plan.moves(), [Move { from: None, to: 0 }, from(2, 1), from(2, 0)]);
    assert_eq!(
        (plan.desired(), plan.free(), plan.predicted()),
        (&[4, 2, 1][..], 0, &[500, 1100][..])
    );
}

#[test]
fn what_is_remembered_keeps_a_unit_where_it_was_wanted() {
    let components = [component(1, 2), component(2, 2)];
    for (impact, expected) in [(4000, &[][..]), (1000, &[from(1, 0)][..])] {
        let mut estimates = Estimates::new(2, 2).unwrap();
        estimates.remember(1, 1, impact);
        estimates.take_up(&components, &[1500, 0, 0, 0]).unwrap();
        let plan = Schedule::plan(&estimates, &components, 0, &[1500, 0]).unwrap();
        assert_eq!(plan.moves(), expected);
        assert_eq!(
            estimates.remembered(1, 1),
            impact / 2,
            "halved in a run without contention"
        );
    }
}

#[test]
fn a_component_keeps_a_unit_beside_those_of_suspended_threads() {
    for (suspended, expected) in [(0, &[from(2, 0), from(2, 1)][..]), (2, &[from(2, 0)][..])] {
        let giver = ComponentFacts {
            suspended,
            ..component(4, 1)
        };
        let components = [component(1, 2), component(1, 2), giver];
        let mut estimates = Estimates::new(3, 2).unwrap();
        estimates.take_up(&components, &[900, 0, 0, 0, 900, 0]).unwrap();
        let plan = Schedule::plan(&estimates, &components, 0, &[900, 900]).unwrap();
        assert_eq!(plan.moves(), expected);
    }
}

#[test]
fn a_thread_that_is_set_aside_loses_nothing() {
    // Nobody can help thread 0; thread 1 must not be helped at its cost.
    let components = [component(2, 2), component(1, 2)];
    let mut estimates = Estimates::new(2, 2).unwrap();
    estimates.remember(0, 0, 200);
    estimates.take_up(&components, &[0, 0, 0, 500]).unwrap();
    let plan = Schedule::plan(&estimates, &components, 0, &[5000, 600]).unwrap();
    assert_eq!(plan.moves(), []);
}

/// Stacks and buffers of two components, side by side.
fn pairs(units: [(u32, u32); 4]) -> [ComponentFacts; 4] {
    core::array::from_fn(|at| ComponentFacts {
        companion: Some(at ^ 1),
        ..component(units[at].0, units[at].1)
    })
}

#[test]
fn a_stack_comes_with_a_buffer_where_all_buffers_are_in_use() {
    // One thread waits for a stack of the first component, all of whose buffers are in use too.
    for (buffers, expected) in [
        ((1, 1), &[from(2, 0), from(3, 1)][..]),
        // Where a buffer is spare, a stack is enough.
        ((2, 1), &[from(2, 0)]),
    ] {
        let components = pairs([(1, 2), buffers, (2, 1), (2, 1)]);
        let mut estimates = Estimates::new(4, 1).unwrap();
        estimates.take_up(&components, &[900, 0, 0, 0]).unwrap();
        let plan = Schedule::plan(&estimates, &components, 0, &[900]).unwrap();
        assert_eq!(plan.moves(), expected);
    }
}

#[test]
fn who_wanted_its_units_least_often_gives() {
    // Nobody is known to lose by any of three; the second could have done with less in most of the last runs.
    let often = |runs: usize| core::array::from_fn(|run| if run < runs { 3 } else { 1 });
    let giver = |runs| ComponentFacts {
        recent: often(runs),
        ..component(3, 3)
    };
    let components = [component(1, 2), giver(9), giver(2), giver(5)];
    let mut estimates = Estimates::new(4, 1).unwrap();
    estimates.take_up(&components, &[900, 0, 0, 0]).unwrap();
    let plan = Schedule::plan(&estimates, &components, 0, &[900]).unwrap();
    assert_eq!(plan.moves(), [from(2, 0)]);
}

#[test]
fn an_impact_lasts_while_all_units_are_in_use() {
    let mut estimates = Estimates::new(1, 1).unwrap().lasting();
    estimates.remember(0, 0, 160_000);
    let mut impact = |requested| {
        estimates.take_up(&[component(3, requested)], &[0]).unwrap();
        estimates.remembered(0, 0)
    };
    assert_eq!(
        (impact(3), impact(2), impact(1), impact(3)),
        (160_000, 150_000, 140_625, 140_625)
    );
    // It ends.
    for _ in 0..200 {
        impact(1);
    }
    assert_eq!(impact(1), 0);
}

#[test]
fn what_came_after_a_wait_is_worth_the_wait() {
    let mut estimates = Estimates::new(1, 1).unwrap();
    estimates.take_up(&[component(3, 3)], &[700]).unwrap();
    assert_eq!(estimates.remembered(0, 0), 700);
}

#[test]
fn a_pair_comes_whole_or_not_at_all() {
    // One free unit, and nobody has another to give.
    let components = pairs([(1, 2), (1, 1), (1, 1), (1, 1)]);
    let mut estimates = Estimates::new(4, 1).unwrap();
    estimates.take_up(&components, &[900, 0, 0, 0]).unwrap();
    let plan = Schedule::plan(&estimates, &components, 1, &[900]).unwrap();
    assert_eq!((plan.moves(), plan.free()), (&[][..], 1));
    assert_eq!((plan.desired(), plan.predicted()), (&[1, 1, 1, 1][..], &[900][..]));
}

#[test]
fn a_unit_whose_companion_went_is_worth_nothing_where_it_is() {
    // The second component's pair is worth 500 to the other thread, the third's 300 each: the pair goes whole.
    let all = [(1, 2), (1, 1), (2, 2), (2, 2), (2, 2), (2, 2)];
    let components: [ComponentFacts; 6] = core::array::from_fn(|at| ComponentFacts {
        companion: Some(at ^ 1),
        ..component(all[at].0, all[at].1)
    });
    let mut estimates = Estimates::new(6, 2).unwrap();
    for (at, impact) in [(2, 500), (3, 500), (4, 600), (5, 600)] {
        estimates.remember(1, at, 2 * impact);
    }
    estimates
        .take_up(&components, &[900, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        .unwrap();
    let plan = Schedule::plan(&estimates, &components, 0, &[900, 0]).unwrap();
    assert_eq!(plan.moves(), [from(2, 0), from(3, 1)]);
    assert_eq!(plan.predicted(), [0, 500]);
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn small(&mut self, bound: u64) -> u32 {
        u32::try_from(self.below(bound)).unwrap()
    }
}

#[test]
fn every_plan_keeps_units_and_minima_and_makes_nobody_the_latest() {
    for seed in 0..4000 {
        let mut random = Random(seed);
        let count = 1 + random.small(6) as usize;
        let threads = 1 + random.small(6) as usize;
        let components: Vec<ComponentFacts> = (0..count)
            .map(|at| ComponentFacts {
                allocated: random.small(6),
                requested: random.small(8),
                minimum: random.small(3),
                suspended: random.small(3),
                recent: core::array::from_fn(|_| random.small(8)),
                companion: (random.below(2) == 0).then_some(at ^ 1),
            })
            .collect();
        let blocked: Vec<u64> = (0..count * threads)
            .map(|_| random.below(3) * random.below(5000))
            .collect();
        let tardiness: Vec<i64> = (0..threads).map(|_| random.small(6000).into()).collect();
        let mut estimates = Estimates::new(count, threads).unwrap();
        for at in 0..count * threads {
            estimates.remember(at / count, at % count, random.below(4000));
        }
        estimates.take_up(&components, &blocked).unwrap();
        let free = random.small(4);
        let plan = Schedule::plan(&estimates, &components, free, &tardiness).unwrap();
        let had: u32 = components.iter().map(|facts| facts.allocated).sum();
        assert_eq!(
            plan.desired().iter().sum::<u32>() + plan.free(),
            had + free,
            "seed {seed}"
        );
        let mut received = vec![false; count];
        for step in plan.moves() {
            assert!(
                step.from.is_none_or(|from| !received[from]),
                "a unit moves twice, seed {seed}"
            );
            received[step.to] = true;
        }
        for (facts, desired) in components.iter().zip(plan.desired()) {
            assert!(*desired >= facts.allocated.min(facts.kept()), "seed {seed}");
            // One more as the companion of what was wanted.
            assert!(*desired <= facts.allocated.max(facts.requested + 1), "seed {seed}");
        }
        let latest = |times: &[i64]| times.iter().copied().max();
        assert!(latest(plan.predicted()) <= latest(&tardiness), "seed {seed}");
    }
}

#[test]
fn facts_of_another_shape_are_refused() {
    let mut estimates = Estimates::new(2, 1).unwrap();
    assert_eq!(
        estimates.take_up(&[component(1, 1)], &[0, 0]),
        Err(ScheduleError::Shape)
    );
    assert!(Schedule::plan(&estimates, &[component(1, 1)], 0, &[0]).is_err());
    assert!(Estimates::new(0, 1).is_err() && Estimates::new(97, 1).is_err() && Estimates::new(1, 257).is_err());
}
