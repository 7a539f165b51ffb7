//! Adaptive Page Pinning on loads that nobody has tuned it for: without further keys it does better than none, and
//! nearly as well as all. `freehold reproduce app-random` runs many more, and longer.
#![allow(clippy::unwrap_used, reason = "where an unwrap fails, the test fails")]

use freehold_core::units::Duration;
use freehold_scenario::results::TaskResult;
use freehold_scenario::{AppSpec, Pinning, Preset, Scenario};
use freehold_sim::{LOAD_NEIGHBOUR, LOAD_TASK, Options, random_load, simulate};

/// Loads, each of 5 s: 30 to 500 jobs.
const LOADS: u64 = 12;
/// Apart from those of the experiment.
const FIRST: u64 = 5_000;

/// The task and its neighbour.
fn run(seed: u64, pinning: Pinning, preset: Preset) -> (TaskResult, TaskResult) {
    let mut spec = random_load(seed);
    spec.duration = Duration::from_millis(5_000);
    let app = AppSpec {
        preset,
        ..AppSpec::default()
    };
    spec.tasks[0].pinning = Some(pinning);
    spec.tasks[0].app = pinning.adapts().then_some(app);
    let outcome = simulate(&Scenario::try_from(spec).unwrap(), &Options::default()).unwrap();
    assert!(outcome.laws_hold(), "load {seed}: {:?}", outcome.result.laws);
    let of = |name: &str| {
        outcome
            .result
            .tasks
            .iter()
            .find(|task| task.name == name)
            .unwrap()
            .clone()
    };
    (of(LOAD_TASK), of(LOAD_NEIGHBOUR))
}

/// Judges the preset on one load: jobs that the paper's pool misses too many, and how much more its neighbour gets done
/// than beside `all`.
fn judge(seed: u64) -> (u32, f64) {
    let (none, alone) = run(seed, Pinning::None, Preset::Freehold);
    let (all, beside_all) = run(seed, Pinning::All, Preset::Freehold);
    let (ours, beside_ours) = run(seed, Pinning::App, Preset::Freehold);
    let (paper, _) = run(seed, Pinning::App, Preset::Paper);
    // A hundredth of so few jobs is less than one.
    let allowed = none.misses.max(1).min(all.misses + 1 + ours.jobs / 100);
    println!(
        "load {seed}: {} jobs, misses {} {} {} {}, hog {} {} {}",
        ours.jobs, none.misses, all.misses, paper.misses, ours.misses, alone.jobs, beside_all.jobs, beside_ours.jobs
    );
    assert!(ours.misses <= allowed, "load {seed}: {} of {}", ours.misses, ours.jobs);
    let jobs = |task: &TaskResult| f64::from(u32::try_from(task.jobs).unwrap());
    let too_many = paper.misses.saturating_sub(allowed);
    (
        too_many.try_into().unwrap(),
        jobs(&beside_ours) / jobs(&beside_all) - 1.0,
    )
}

#[test]
fn the_default_preset_misses_no_more_than_none_or_all() {
    let half = |first: u64| (first..FIRST + LOADS).step_by(2).map(judge).collect::<Vec<_>>();
    let judged = std::thread::scope(|scope| {
        let other = scope.spawn(|| half(FIRST + 1));
        [half(FIRST), other.join().unwrap()].concat()
    });
    // What the test would find.
    assert!(
        judged.iter().any(|(paper, _)| *paper > 0),
        "the paper's pool would have passed"
    );
    let freed: f64 = judged.iter().map(|(_, freed)| freed).sum();
    assert!(freed > 0.0, "the neighbours gain nothing over `all`: {freed}");
}
