//! Worked examples, and what holds for every plan.

use super::*;
use alloc::vec;
use alloc::vec::Vec;

fn component(allocated: u32, requested: u32) -> ComponentFacts {
    ComponentFacts {
        allocated,
        requested,
        minimum: 1,
        suspended: 0,
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
            .map(|_| ComponentFacts {
                allocated: random.small(6),
                requested: random.small(8),
                minimum: random.small(3),
                suspended: random.small(3),
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
            assert!(*desired <= facts.allocated.max(facts.requested), "seed {seed}");
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
