//! The state machine against an engine that answers late, in parts, or with refusals.

use super::*;
use alloc::vec;

fn spec(minimum: u32, most: u32, unit: u32) -> ComponentSpec {
    ComponentSpec {
        unit: FrameCount::new(unit),
        minimum,
        most,
        restarts: true,
        companion: None,
    }
}

fn scheduler(policy: Policy, limit: u32, components: &[ComponentSpec], threads: usize) -> Scheduler {
    let settings = Settings {
        limit: FrameCount::new(limit),
        policy,
        idle_runs: 4,
    };
    Scheduler::new(settings, components, threads).unwrap()
}

fn wants(used: u32, waiting_peak: u32) -> Usage {
    Usage {
        used,
        waiting_peak,
        suspended: 0,
    }
}

const ALL: FrameCount = FrameCount::new(1000);

/// Does at once what it is told, and says what that was.
fn obey(scheduler: &mut Scheduler) -> Vec<TransientEffect> {
    let mut done = Vec::new();
    while let Some(effect) = scheduler.poll_effect() {
        match effect {
            TransientEffect::Take { component, units } => scheduler.handle_taken(component, units),
            TransientEffect::Grant { component, units } => scheduler.handle_granted(component, units),
            TransientEffect::Restart { .. } => {}
        }
        scheduler.check_laws().unwrap();
        done.push(effect);
    }
    done
}

fn allocated(scheduler: &Scheduler) -> Vec<u32> {
    scheduler.rows.iter().map(|row| row.view.allocated).collect()
}

#[test]
fn the_worked_example_runs_through_the_machine() {
    let mut scheduler = scheduler(Policy::Tardiness, 7, &[spec(1, 8, 1), spec(1, 8, 1), spec(1, 8, 1)], 2);
    // A has 2 units, B 1 and C 3; one is free. C's last use was of three, A and B want four and three.
    for (component, units) in [(0, 1), (2, 2)] {
        scheduler.rows[component].granting += units;
        scheduler.handle_granted(component, units);
        scheduler.rows[component].view.desired += units;
    }
    scheduler.handle_blocked(0, Some(0), 2, 4000);
    scheduler.handle_blocked(1, Some(0), 1, 1000);
    scheduler.handle_blocked(1, Some(1), 2, 3000);
    scheduler.handle_job_end(0, 5000);
    scheduler.handle_job_end(1, 2600);
    scheduler
        .run_policy(&[wants(2, 2), wants(1, 2), wants(1, 0)], ALL)
        .unwrap();
    let desired: Vec<u32> = scheduler.rows.iter().map(|row| row.view.desired).collect();
    assert_eq!(desired, [4, 2, 1]);
    // The free unit first; what C gives goes on to who wants it.
    let take = TransientEffect::Take { component: 2, units: 2 };
    assert_eq!(scheduler.poll_effect(), Some(take));
    let grant = |component, units| TransientEffect::Grant { component, units };
    assert_eq!(scheduler.poll_effect(), Some(grant(0, 1)));
    assert_eq!(scheduler.poll_effect(), None, "nothing is there before it was taken");
    scheduler.handle_granted(0, 1);
    scheduler.handle_taken(2, 2);
    assert_eq!(obey(&mut scheduler), [grant(0, 1), grant(1, 1)]);
    assert_eq!(
        (allocated(&scheduler), scheduler.frames()),
        (vec![4, 2, 1], FrameCount::new(7))
    );
}

#[test]
fn units_unused_in_four_runs_go_back_and_not_before() {
    let mut scheduler = scheduler(Policy::Tardiness, 20, &[spec(1, 8, 2)], 1);
    scheduler.handle_blocked(0, Some(0), 1, 500);
    scheduler.handle_job_end(0, 900);
    scheduler.run_policy(&[wants(1, 3)], ALL).unwrap();
    obey(&mut scheduler);
    let many = allocated(&scheduler)[0];
    assert!(many > 1);
    // Its peak keeps what it has for three runs, the fourth has it gone.
    for run in 0..4 {
        scheduler.handle_job_end(0, -100);
        assert_eq!(allocated(&scheduler), [many], "run {run}");
        scheduler.run_policy(&[wants(1, 0)], ALL).unwrap();
        obey(&mut scheduler);
    }
    assert_eq!(allocated(&scheduler), [1]);
}

#[test]
fn spare_memory_goes_to_who_asks_and_what_was_promised_does_not() {
    let grant = |component| TransientEffect::Grant { component, units: 1 };
    for policy in [Policy::Greedy, Policy::Tardiness] {
        let mut scheduler = scheduler(policy, 5, &[spec(1, 2, 1), spec(1, 8, 2)], 1);
        scheduler.handle_wanted(0);
        assert_eq!(
            scheduler.poll_effect(),
            None,
            "nothing is known of memory before the first run"
        );
        scheduler.run_policy(&[wants(1, 0), wants(1, 0)], ALL).unwrap();
        scheduler.handle_wanted(9);
        // Two frames are free. One goes to the first, which may not have more; then one is too few for the other.
        for _ in 0..2 {
            scheduler.handle_wanted(0);
        }
        assert_eq!(
            (scheduler.poll_effect(), scheduler.poll_effect()),
            (Some(grant(0)), None)
        );
        scheduler.handle_granted(0, 1);
        scheduler.handle_wanted(0);
        scheduler.handle_wanted(1);
        assert_eq!((scheduler.poll_effect(), allocated(&scheduler)), (None, vec![2, 1]));
    }
    for policy in [Policy::Minimum, Policy::Static, Policy::Fair, Policy::Demand] {
        let mut scheduler = scheduler(policy, 5, &[spec(1, 2, 1), spec(1, 2, 1)], 1);
        scheduler.run_policy(&[wants(1, 0), wants(1, 0)], ALL).unwrap();
        obey(&mut scheduler);
        scheduler.handle_wanted(1);
        assert_eq!(scheduler.poll_effect(), None, "{policy:?}");
    }
}

#[test]
fn who_is_to_give_a_unit_gets_none_and_who_got_one_wants_one_less() {
    let mut scheduler = scheduler(Policy::Tardiness, 10, &[spec(1, 8, 1)], 1);
    scheduler.run_policy(&[wants(1, 0)], ALL).unwrap();
    scheduler.handle_wanted(0);
    obey(&mut scheduler);
    // One waited, and a unit has come since: what was wanted is what there is.
    scheduler.run_policy(&[wants(1, 1)], ALL).unwrap();
    assert_eq!(
        (allocated(&scheduler), scheduler.view(0).unwrap().requested),
        (vec![2], 2)
    );
    scheduler.handle_recall(FrameCount::new(1));
    scheduler.run_policy(&[wants(2, 0)], ALL).unwrap();
    let told = scheduler.poll_effect();
    scheduler.handle_wanted(0);
    let grants = core::iter::from_fn(|| scheduler.poll_effect());
    let grants = grants
        .filter(|effect| matches!(effect, TransientEffect::Grant { .. }))
        .count();
    assert!(told.is_some() && grants == 0, "{told:?}");
}

#[test]
fn a_recall_takes_what_nobody_wants_first_and_leaves_the_minima() {
    let mut scheduler = scheduler(Policy::Demand, 20, &[spec(2, 8, 1), spec(1, 8, 1)], 0);
    scheduler.run_policy(&[wants(2, 4), wants(1, 4)], ALL).unwrap();
    obey(&mut scheduler);
    assert_eq!(allocated(&scheduler), [6, 5]);
    scheduler.run_policy(&[wants(6, 0), wants(2, 0)], ALL).unwrap();
    obey(&mut scheduler);
    // That frames are free besides is no news to who asks for those of units.
    scheduler.handle_recall(FrameCount::new(3));
    assert_eq!(obey(&mut scheduler), [TransientEffect::Take { component: 1, units: 3 }]);
    scheduler.handle_recall(FrameCount::new(100));
    obey(&mut scheduler);
    assert_eq!(allocated(&scheduler), [2, 1]);
    // What was recalled is not granted again, although it came back.
    scheduler
        .run_policy(&[wants(2, 4), wants(1, 4)], FrameCount::ZERO)
        .unwrap();
    assert_eq!(obey(&mut scheduler), []);
}

#[test]
fn a_run_of_the_policy_does_not_keep_what_was_recalled() {
    let mut scheduler = scheduler(Policy::Demand, 20, &[spec(1, 8, 2)], 0);
    scheduler.run_policy(&[wants(1, 4)], ALL).unwrap();
    obey(&mut scheduler);
    assert_eq!(allocated(&scheduler), [5]);
    scheduler.handle_recall(FrameCount::new(4));
    let take = TransientEffect::Take { component: 0, units: 2 };
    assert_eq!(scheduler.poll_effect(), Some(take));
    // All are in use, and more are wanted, when the policy runs.
    scheduler.run_policy(&[wants(5, 2)], FrameCount::ZERO).unwrap();
    assert_eq!((scheduler.poll_effect(), scheduler.rows[0].surplus()), (None, 2));
    scheduler.handle_taken(0, 2);
    assert_eq!((scheduler.poll_effect(), allocated(&scheduler)), (None, vec![3]));
}

#[test]
fn a_holder_past_its_bound_is_restarted_once_for_each_time_that_it_is_told() {
    let mut scheduler = scheduler(Policy::Minimum, 20, &[spec(1, 8, 1), spec(1, 8, 1)], 0);
    scheduler.handle_overrun(1, 0);
    assert_eq!(scheduler.poll_effect(), None);
    scheduler.handle_overrun(1, 3);
    assert_eq!(scheduler.poll_effect(), Some(TransientEffect::Restart { component: 1 }));
    assert_eq!(
        (scheduler.poll_effect(), scheduler.view(1).unwrap().overruns),
        (None, 3)
    );
}

#[test]
fn numbers_outside_their_ranges_are_refused() {
    let settings = |idle_runs| Settings {
        limit: FrameCount::new(4),
        policy: Policy::Tardiness,
        idle_runs,
    };
    let new = |idle, specs: &[ComponentSpec]| Scheduler::new(settings(idle), specs, 1).err();
    let limits = Some(ScheduleError::Limits);
    for specs in [
        &[][..],
        &[spec(3, 8, 2)],
        &[spec(0, 8, 1)],
        &[spec(1, 8, 0)],
        &[spec(2, 1, 1)],
    ] {
        assert_eq!(new(4, specs), limits);
    }
    assert_eq!((new(0, &[spec(1, 8, 1)]), new(17, &[spec(1, 8, 1)])), (limits, limits));
    let mut scheduler = Scheduler::new(settings(4), &[spec(2, 8, 2)], 1).unwrap();
    assert_eq!(scheduler.run_policy(&[], ALL), Err(ScheduleError::Shape));
}

/// An engine that does a part of what it is told, refuses some, and has frames recalled at any time. What its
/// components say of themselves may be anything.
struct Engine {
    scheduler: Scheduler,
    /// Of each component: units that it was told to take, and to bring.
    pending: Vec<(u32, u32)>,
    state: u64,
}

impl Engine {
    fn new(policy: Policy, seed: u64) -> Self {
        let mut random = Random(seed);
        let count = 1 + random.below(5) as usize;
        let specs: Vec<ComponentSpec> = (0..count)
            .map(|_| {
                let minimum = 1 + random.below(2);
                spec(minimum, minimum + random.below(6), 1 + random.below(3))
            })
            .collect();
        let minima: u32 = specs.iter().map(|spec| spec.minimum * spec.unit.get()).sum();
        Self {
            scheduler: scheduler(policy, minima + random.below(20), &specs, 3),
            pending: vec![(0, 0); count],
            state: random.0,
        }
    }

    fn step(&mut self) {
        let mut random = Random(self.state);
        let scheduler = &mut self.scheduler;
        match random.below(5) {
            0 => {
                let usage = self.pending.iter();
                let usage: Vec<Usage> = usage.map(|_| wants(random.claim(8), random.claim(5))).collect();
                for thread in 0..3 {
                    let (component, waited) = (random.below(5) as usize, random.claim(5000));
                    let wild = waited == u32::MAX;
                    let most = |number: u32| if wild { u64::MAX } else { number.into() };
                    scheduler.handle_blocked(component, Some(thread), most(1), most(waited));
                    scheduler.handle_overrun(component, if wild { u64::MAX } else { 0 });
                    let early = if wild { i64::MIN } else { -1000 };
                    scheduler.handle_job_end(thread, i64::from(random.claim(4000)).saturating_add(early));
                    scheduler.handle_job_end(thread, if wild { i64::MAX } else { early });
                }
                let lent = FrameCount::new(random.below(30));
                scheduler.run_policy(&usage, lent).unwrap();
            }
            1 => scheduler.handle_recall(FrameCount::new(random.below(6))),
            3 => scheduler.handle_wanted(random.below(6) as usize),
            2 => {
                while let Some(effect) = scheduler.poll_effect() {
                    match effect {
                        TransientEffect::Take { component, units } => self.pending[component].0 = units,
                        TransientEffect::Grant { component, units } => self.pending[component].1 += units,
                        TransientEffect::Restart { .. } => {}
                    }
                }
            }
            _ => {
                let at = random.below(u32::try_from(self.pending.len()).unwrap()) as usize;
                let (take, grant) = self.pending[at];
                let (taken, done) = (random.below(take + 1), random.below(grant + 1));
                // The answer may be late: a unit that is to stay by now was perhaps taken before.
                let still = scheduler.rows[at].surplus();
                scheduler.handle_taken(at, taken.min(still));
                if random.below(4) == 0 {
                    scheduler.handle_refused(at, done);
                } else {
                    scheduler.handle_granted(at, done);
                }
                self.pending[at] = (take - taken, grant - done);
            }
        }
        self.state = random.0;
        self.scheduler.check_laws().unwrap();
    }

    /// Does everything that is left to be done.
    fn settle(&mut self) {
        for (at, (_, grant)) in self.pending.iter().enumerate() {
            self.scheduler.handle_granted(at, *grant);
            let surplus = self.scheduler.rows[at].surplus();
            self.scheduler.handle_taken(at, surplus);
        }
        obey(&mut self.scheduler);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(bound.max(1))).unwrap()
    }

    /// A number below the bound, or one that cannot be true.
    fn claim(&mut self, bound: u32) -> u32 {
        if self.below(16) == 0 {
            u32::MAX
        } else {
            self.below(bound)
        }
    }
}

#[test]
fn laws_hold_and_frames_add_up_in_random_histories() {
    const POLICIES: [Policy; 7] = [
        Policy::Minimum,
        Policy::Maximum,
        Policy::Static,
        Policy::Fair,
        Policy::Greedy,
        Policy::Demand,
        Policy::Tardiness,
    ];
    for seed in 0..600 {
        let policy = POLICIES[seed % POLICIES.len()];
        let mut engine = Engine::new(policy, seed as u64);
        (0..40).for_each(|_| engine.step());
        engine.settle();
        // Each has what it ought to have, as far as there are frames.
        let scheduler = &engine.scheduler;
        for row in &scheduler.rows {
            let wanted = row.view.desired.max(row.spec.minimum);
            assert!(row.view.allocated <= wanted, "{policy:?}");
            assert_eq!((row.granting, row.surplus()), (0, 0));
            let idle = row.missing() > 0 && scheduler.free >= row.spec.unit.get();
            assert!(!idle, "{policy:?}: frames lie idle");
        }
    }
}
