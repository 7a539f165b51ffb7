//! Lockstep of components: real threads take, wait for and release real units in the order of a simulation. They really
//! block in the kernel, and at each release it must wake the thread that the simulator chose.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_core::transient::Policy;
use freehold_linux::{ThreadId, sched};
use freehold_live::components::{Followed, follow};
use freehold_sim::component::{
    ComponentModel, KindModel, Model, Step, ThreadModel, TransientOptions, TransientOutcome, best_effort,
    simulate_components,
};

const MS: u64 = 1_000_000;

/// Has real threads run all steps, and compares what pools and kernel counted; how many waits there were.
fn conduct(model: &Model, outcome: &TransientOutcome) -> usize {
    let followed = follow(model, outcome).unwrap();
    let kinds = model.components.iter().flat_map(|component| component.kinds);
    for ((live, report), kind) in followed.iter().zip(&outcome.caches).zip(kinds) {
        let (view, pages) = (&report.view, u64::from(report.view.allocated * kind.frames));
        let expected = Followed {
            waits: view.contended,
            handed_over: report.handed_over,
            granted: view.granted,
            withdrawn: live.withdrawn,
            allocated: view.allocated,
            resident: pages,
        };
        assert_eq!(*live, expected);
        assert!(live.withdrawn <= view.taken, "{live:?} {view:?}");
    }
    let waits = outcome.steps.iter().filter(|step| matches!(step, Step::Wait { .. }));
    waits.count()
}

/// A step that the kernel did not take is told of.
#[test]
fn a_hand_over_to_another_is_found() {
    if !may_have_priorities() {
        return;
    }
    let model = small(1);
    let mut outcome = simulate_components(&model, options(Policy::Minimum, 10, 1, 1500 * MS)).unwrap();
    // Of a unit that two wait for, the one says that it got it, and the simulator that the other did.
    let mut waiters = Vec::new();
    let planted = outcome.steps.iter_mut().position(|step| match step {
        Step::Wait { thread, cache, unit } => {
            waiters.push((*thread, *cache, *unit));
            false
        }
        Step::HandOver { cache, unit, to, .. } => {
            waiters.retain(|wait| wait.0 != *to);
            let other = waiters.iter().find(|wait| (wait.1, wait.2) == (*cache, *unit));
            other.is_some_and(|other| {
                *to = other.0;
                true
            })
        }
        _ => false,
    });
    let planted = planted.unwrap();
    outcome.steps.truncate(planted + 1);
    assert_eq!(follow(&model, &outcome).unwrap_err().0, planted);
}

fn may_have_priorities() -> bool {
    let probe =
        std::thread::spawn(|| sched::set_policy(ThreadId::current(), sched::Policy::Fifo { priority: 1 }).is_ok());
    let may = probe.join().unwrap();
    if !may {
        eprintln!("left out: no right to real-time priorities");
    }
    may
}

fn options(policy: Policy, limit: u32, seed: u64, duration: u64) -> TransientOptions {
    TransientOptions {
        limit,
        policy,
        period: 50 * MS,
        inheritance: true,
        duration,
        seed,
        steps: true,
    }
}

/// Eight threads of few priorities, so that equals wait beside each other, over three components.
fn small(seed: u64) -> Model {
    let kind = |most| KindModel {
        frames: 1,
        minimum: 1,
        most,
    };
    let component = |calls: &[(usize, f64)]| ComponentModel {
        kinds: [kind(3), kind(2)],
        calls: calls.to_vec(),
    };
    let threads = (0..8).map(|at| ThreadModel {
        entries: vec![usize::from(at % 3 == 0)],
        period: (5 + 3 * at) * MS,
        deadline: (5 + 3 * at) * MS,
        work: (4 + (seed + at) % 5) * MS / 4,
        priority: [0, 3, 1, 3, 2, 0, 2, 1][usize::try_from(at).unwrap()],
        active: (at * MS / 3, u64::MAX / 2),
        skips: false,
    });
    Model {
        components: vec![component(&[(1, 0.5), (2, 0.5)]), component(&[(2, 1.0)]), component(&[])],
        threads: threads.collect(),
    }
}

#[test]
fn the_kernel_wakes_whom_the_simulator_chose() {
    if !may_have_priorities() {
        return;
    }
    let mut waits = 0;
    for (seed, policy) in (1..).zip([Policy::Minimum, Policy::Static, Policy::Tardiness, Policy::Greedy]) {
        let model = small(seed);
        let outcome = simulate_components(&model, options(policy, 10, seed, 1500 * MS)).unwrap();
        waits += conduct(&model, &outcome);
    }
    assert!(waits > 200, "{waits} waits");
}

#[test]
fn the_papers_components_run_in_lockstep_under_the_papers_policy() {
    if !may_have_priorities() {
        return;
    }
    let model = best_effort(3, Some((0, 2)));
    let outcome = simulate_components(&model, options(Policy::Tardiness, model.minima() + 16, 3, 1500 * MS)).unwrap();
    let moved = outcome
        .steps
        .iter()
        .filter(|step| matches!(step, Step::Give { .. } | Step::Withdraw { .. }));
    assert!(moved.count() > 0, "the policy moves units");
    assert!(conduct(&model, &outcome) > 50);
}
