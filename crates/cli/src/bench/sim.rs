//! The simulator: how long one reference takes, beside generating it only.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;

use freehold_scenario::{AccessGenerator, Scenario, TaskIndex};

use super::Rounds;
use crate::engine::{self, Outcome};
use crate::load;
use crate::status::Failure;

const SAMPLES: u32 = 2;
const TEXT: &str = include_str!("../../../../scenarios/two-tasks-spc.toml");

pub(super) fn run(rounds: &mut Rounds) -> Result<(), Failure> {
    let scenario = load::embedded("two-tasks-spc.toml", TEXT, &[])?;
    let stop = AtomicBool::new(false);
    let floor = || Ok(generate(&scenario));
    let ours = || engine::simulate(&scenario, Some(0), &stop).map(|outcome| references(&scenario, &outcome));
    rounds.alternate(SAMPLES, floor, ours)
}

/// References of the jobs that ended.
fn references(scenario: &Scenario, outcome: &Outcome) -> u64 {
    let tasks = scenario.tasks.iter().zip(&outcome.result.tasks);
    tasks.map(|(task, result)| task.accesses_per_job() * result.jobs).sum()
}

/// Generates what the tasks touch in the run.
fn generate(scenario: &Scenario) -> u64 {
    let mut generated = 0;
    for (position, task) in (0..).zip(&scenario.tasks) {
        let Some(period) = task.period else { continue };
        let mut accesses = AccessGenerator::new(scenario, TaskIndex::new(position), scenario.seed);
        for _ in 0..scenario.duration.get() / period.get() {
            accesses.begin_job();
            for access in accesses.by_ref() {
                black_box(access);
                generated += 1;
            }
        }
    }
    generated
}
