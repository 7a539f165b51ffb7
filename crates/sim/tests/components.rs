//! Components in virtual time: contention, inheritance, hand-overs, policies, and the paper's figures in small.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_core::transient::Policy;
use freehold_sim::component::{
    ComponentModel, KindModel, Model, Step, ThreadModel, TransientOptions, TransientOutcome, best_effort, figure_8,
    simulate_components, task_set,
};

const MS: u64 = 1_000_000;
const POLICIES: [Policy; 6] = [
    Policy::Minimum,
    Policy::Maximum,
    Policy::Static,
    Policy::Fair,
    Policy::Greedy,
    Policy::Tardiness,
];

fn component(minimum: u32, most: u32, calls: &[(usize, f64)]) -> ComponentModel {
    ComponentModel {
        kinds: [KindModel {
            frames: 1,
            minimum,
            most,
        }; 2],
        calls: calls.to_vec(),
    }
}

fn thread(priority: u32, work: u64, from: u64) -> ThreadModel {
    ThreadModel {
        entries: vec![0],
        period: 1000 * MS,
        deadline: 1000 * MS,
        work,
        priority,
        active: (from, from + 1),
        skips: false,
    }
}

fn options(policy: Policy, limit: u32) -> TransientOptions {
    TransientOptions {
        limit,
        policy,
        period: 250 * MS,
        inheritance: true,
        duration: 4000 * MS,
        seed: 1,
        steps: true,
    }
}

fn run(model: &Model, options: TransientOptions) -> TransientOutcome {
    let outcome = simulate_components(model, options).unwrap();
    assert_eq!(outcome.broken, Vec::<String>::new());
    outcome
}

/// A thread of priority 30 waits for one of priority 1 beside one of priority 20 that works for long: with inheritance
/// it waits for the holder's work only, without for the other's too, however long that is.
#[test]
fn a_wait_is_bounded_by_the_holders_work_with_inheritance_and_only_then() {
    for spin in [60 * MS, 300 * MS] {
        let other = ThreadModel {
            entries: vec![1],
            ..thread(20, spin, 2 * MS)
        };
        let model = Model {
            components: vec![component(1, 1, &[]), component(1, 1, &[])],
            threads: vec![thread(30, MS, MS), other, thread(1, 5 * MS, 0)],
        };
        let longest = |inheritance| {
            let options = TransientOptions {
                inheritance,
                ..options(Policy::Minimum, 4)
            };
            run(&model, options).threads[0].response.max
        };
        // The holder has worked 1 ms before, and its waiter works 1 ms after.
        assert_eq!((longest(true), longest(false)), (5 * MS, 5 * MS + spin));
    }
}

#[test]
fn inheritance_goes_on_from_holder_to_holder() {
    // The last waits for a unit of the first component, whose holder waits in the second for the one that is there.
    let model = Model {
        components: vec![
            component(1, 1, &[(2, 1.0)]),
            component(1, 1, &[(2, 1.0)]),
            component(1, 1, &[]),
        ],
        threads: vec![
            thread(30, 10 * MS, 4 * MS),
            ThreadModel {
                entries: vec![1],
                ..thread(20, 500 * MS, 5 * MS)
            },
            thread(2, 10 * MS, 2 * MS),
            ThreadModel {
                entries: vec![2],
                ..thread(1, 5 * MS, 0)
            },
        ],
    };
    let outcome = run(&model, options(Policy::Minimum, 6));
    let order: Vec<usize> = outcome
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::HandOver { to, .. } => Some(*to),
            _ => None,
        })
        .collect();
    assert_eq!(order, [2, 0]);
    assert!(outcome.threads[0].response.max < 30 * MS, "{:?}", outcome.threads[0]);
}

#[test]
fn the_most_urgent_waiter_is_next_and_the_first_of_equals() {
    let model = Model {
        components: vec![component(1, 1, &[])],
        threads: vec![
            thread(1, 20 * MS, 0),
            thread(5, MS, MS),
            thread(9, MS, 2 * MS),
            thread(5, MS, 3 * MS),
            thread(9, MS, 4 * MS),
        ],
    };
    // Without inheritance, so that each comes to wait however urgent others are that wait already.
    let options = TransientOptions {
        inheritance: false,
        ..options(Policy::Minimum, 2)
    };
    let outcome = run(&model, options);
    let stacks = outcome.steps.iter().filter_map(|step| match step {
        Step::HandOver { cache: 0, to, .. } => Some(*to),
        _ => None,
    });
    assert_eq!(stacks.collect::<Vec<_>>(), [2, 4, 1, 3]);
    assert_eq!(outcome.caches[0].view.contended, 4);
}

/// A job of three periods: the releases that came meanwhile are made up for, or left out.
#[test]
fn releases_that_a_job_has_missed_are_made_up_for_or_left_out() {
    for (skips, jobs) in [(false, 10), (true, 4)] {
        let late = ThreadModel {
            period: 10 * MS,
            active: (0, 95 * MS),
            skips,
            ..thread(1, 25 * MS, 0)
        };
        let model = Model {
            components: vec![component(1, 1, &[])],
            threads: vec![late],
        };
        let outcome = run(&model, options(Policy::Minimum, 2));
        assert_eq!(outcome.threads[0].jobs, jobs, "{skips}");
    }
}

/// Units are conserved, each has one user, waiters get what they wait for, in every policy and with any memory.
#[test]
fn steps_are_those_of_a_cache() {
    for (at, policy) in POLICIES.into_iter().enumerate() {
        for inheritance in [true, false] {
            let model = best_effort(at as u64 + 1, Some((1, 3)));
            let limit = model.minima() + 10 * u32::try_from(at).unwrap();
            let options = TransientOptions {
                inheritance,
                ..options(policy, limit)
            };
            let outcome = run(&model, options);
            check_steps(&outcome.steps);
            assert!(
                outcome
                    .seconds
                    .iter()
                    .all(|second| second.units >= model.minima() && second.units <= limit)
            );
            assert!(outcome.steps.len() > 1000, "{policy:?}");
            assert_eq!(outcome, run(&model, options), "the same again");
        }
    }
}

fn check_steps(steps: &[Step]) {
    let mut holders = std::collections::BTreeMap::new();
    let mut waits = std::collections::BTreeMap::new();
    for step in steps {
        match *step {
            Step::Take { thread, cache, unit } => assert_eq!(holders.insert((cache, unit), thread), None, "{step:?}"),
            Step::Wait { thread, cache, unit } => {
                assert!(holders.contains_key(&(cache, unit)), "{step:?}");
                assert_eq!(waits.insert(thread, (cache, unit)), None, "{step:?}");
            }
            Step::HandOver {
                thread,
                cache,
                unit,
                to,
            } => {
                assert_eq!(waits.remove(&to), Some((cache, unit)), "{step:?}");
                assert_eq!(holders.insert((cache, unit), to), Some(thread), "{step:?}");
            }
            Step::Withdraw { cache, unit } | Step::Give { cache, unit } => {
                assert!(!holders.contains_key(&(cache, unit)), "{step:?}");
            }
            Step::Relinquish { cache, unit, wanted } => {
                assert!(!wanted || holders.contains_key(&(cache, unit)), "{step:?}");
            }
            Step::Free { thread, cache, unit } => {
                assert!(!waits.values().any(|wait| *wait == (cache, unit)), "{step:?}");
                assert_eq!(holders.remove(&(cache, unit)), Some(thread), "{step:?}");
            }
        }
    }
}

#[test]
fn the_papers_components_have_its_minima_and_call_downwards() {
    let (real_time, [entries, _]) = figure_8(false);
    let (all, [_, best]) = figure_8(true);
    assert_eq!((real_time.len(), all.len(), entries.len(), best.len()), (24, 37, 2, 2));
    for components in [&real_time, &all] {
        for (at, component) in components.iter().enumerate() {
            let chances: f64 = component.calls.iter().map(|call| call.1).sum();
            assert!(
                component.calls.iter().all(|call| call.0 > at),
                "component {at}: {:?}",
                component.calls
            );
            assert!(component.calls.is_empty() || (chances - 1.0).abs() < 1e-9);
        }
    }
    let model = task_set(1);
    assert_eq!((model.minima(), best_effort(1, None).minima()), (48, 74));
    let utilisation: u64 = model
        .threads
        .iter()
        .map(|thread| 1000 * thread.work / thread.period)
        .sum();
    assert!((792..=800).contains(&utilisation), "{utilisation}");
}

/// More memory lets the policy lower how late the latest jobs are; with room for all nobody waits.
#[test]
fn more_memory_lowers_tardiness_and_enough_of_it_ends_all_waits() {
    for seed in 4..=6 {
        let model = task_set(seed);
        let outcome = |policy, above: u32| {
            let options = TransientOptions {
                duration: 60_000 * MS,
                steps: false,
                ..options(policy, model.minima() + above)
            };
            run(&model, options)
        };
        let [few, many] = [8, 48].map(|above| outcome(Policy::Tardiness, above).mean_tardiness(0, 60));
        assert!(many < few, "set {seed}: {many} and {few} ns");
        let ample = outcome(Policy::Maximum, 24 * 2 * 16);
        assert_eq!(ample.threads.iter().map(|thread| thread.blocked).sum::<u64>(), 0);
    }
}
