//! The simulator: references in a second, beside generating them only; and what a reference costs in longer runs and
//! in larger regions.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;

use freehold_linux::clock;
use freehold_scenario::{AccessGenerator, Scenario, TaskIndex};

use super::Bench;
use super::rounds::{Effort, Found, Samples};
use freehold_command::engine::{self, Outcome};
use freehold_command::exit_status::Failure;
use freehold_command::load;
use freehold_scenario::results::Judged;

const TEXT: &str = include_str!("../../../../scenarios/two-tasks-spc.toml");
/// One task reads its region at random, as often as `amount` says, from frames enough for half of it.
const SCALING: &str = r#"
name = "sim-scaling"
duration = "100s"
seed = 1
[memory]
pool = "64MiB"
swap = { store = "memory", latency = "10us" }
[[region]]
name = "data"
kind = "private"
size = "1MiB"
[[reservation]]
name = "r"
size = "1MiB"
type = "hard"
[[task]]
name = "t"
reservation = "r"
class = "fifo"
period = "10s"
budget = "9s"
deadline = "10s"
[[task.access]]
region = "data"
pattern = "random"
amount = "64MiB"
"#;

/// Seconds between two jobs in it.
const PERIOD: u32 = 10;
/// References of one job in it.
const REFERENCES: u32 = 16_384;

/// The benchmark.
pub(super) const BENCH: Bench = Bench {
    name: "sim",
    about: "references simulated",
    floor: "the same references only generated",
    unit: "million/s",
    judged: Judged::OursP50AtLeast,
    goal: 5.0,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let scenario = load::embedded("two-tasks-spc.toml", TEXT, &[])?;
    let floor = |samples: &mut Samples| rate(samples, || Ok(generate(&scenario)));
    let ours = |samples: &mut Samples| rate(samples, || simulate(&scenario));
    found.alternate(effort, floor, ours)?;
    scaling(&mut found, effort)?;
    Ok(found)
}

/// Costs that should be equal: of a reference in runs of different lengths, and in regions of different sizes.
fn scaling(found: &mut Found, effort: Effort) -> Result<(), Failure> {
    let second = if effort.quick { 10 } else { 100 };
    let small = ["region.data.size=1MiB", "reservation.r.size=512KiB"];
    for times in [1, 4, 16] {
        let duration = format!("duration={}s", second * times);
        let cost = cost(effort, &[&small[..], &[&duration]].concat())?;
        let references = second * times / PERIOD * REFERENCES / 1000;
        let what = format!("a reference in a run of {references} thousand references, 256 pages");
        found.row(&what, cost, "ns");
    }
    let duration = format!("duration={}s", second * 16);
    for (pages, region, reservation) in [
        ("256", "1MiB", "512KiB"),
        ("4096", "16MiB", "8MiB"),
        ("24576", "96MiB", "48MiB"),
    ] {
        let region = format!("region.data.size={region}");
        let reservation = format!("reservation.r.size={reservation}");
        let cost = cost(effort, &[&region, &reservation, &duration])?;
        found.row(
            &format!("a reference among {pages} pages, half of them in frames"),
            cost,
            "ns",
        );
    }
    Ok(())
}

/// The shortest of a few runs, in nanoseconds for a reference.
fn cost(effort: Effort, sets: &[&str]) -> Result<f64, Failure> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let scenario = load::embedded("sim-scaling.toml", SCALING, &sets)?;
    let mut best = f64::INFINITY;
    for _ in 0..effort.rounds.min(if effort.quick { 1 } else { 3 }) {
        let begun = clock::now();
        let references = simulate(&scenario)?;
        let took = clock::now().as_nanos() - begun.as_nanos();
        best = best.min(mean(took, references));
    }
    Ok(best)
}

#[allow(clippy::cast_precision_loss, reason = "for display; far below 2^53")]
fn mean(total: u64, parts: u64) -> f64 {
    total as f64 / parts.max(1) as f64
}

/// Records references in a second, in millions.
fn rate(samples: &mut Samples, run: impl FnOnce() -> Result<u64, Failure>) -> Result<(), Failure> {
    let begun = clock::now();
    let references = run()?;
    samples.record_mean(references * 1_000, clock::now().as_nanos() - begun.as_nanos());
    Ok(())
}

fn simulate(scenario: &Scenario) -> Result<u64, Failure> {
    let stop = AtomicBool::new(false);
    engine::simulate(scenario, Some(0), &stop).map(|outcome| references(scenario, &outcome))
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
