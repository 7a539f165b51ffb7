//! Figure 6: three soft-real-time tasks together.

use freehold_scenario::results::ReproduceRow;

use super::sample::Sample;
use super::{APP, APP_NO_BUDGET, Bench, Bound, Laboratory, Measured, NONE, row};
use crate::reproduce::files::file;
use crate::reproduce::{Experiment, Kind};
use freehold_command::exit_status::Failure;

const SEEDS: u32 = 10;
const TASKS: &[&str] = &["ranger", "opencv", "mplayer"];
/// The paper's: fewer misses than Linux, in points, and the slow-down above Linux's, in points.
const FEWER: f64 = 12.0;
const SLOWER: f64 = 5.0;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "app-fig6",
    about: "the three soft-real-time tasks together beside the graph walk",
    files: &[file!("app/three.toml")],
    kind: Kind::Models,
    run,
};

/// Runs the experiment. Pinning everything is left out, as in the paper: the three are larger than the memory.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let bench = Bench::new(laboratory, "app/three.toml", TASKS, SEEDS)?;
    let alone = bench.alone(&[])?;
    let none = bench.measure(&NONE, &[])?;
    let no_budget = bench.measure(&APP_NO_BUDGET, &[])?;
    let app = bench.measure(&APP, &[])?;
    let mut rows = Vec::new();
    for (policy, run) in [("none", &none), ("app-no-budget", &no_budget), ("app", &app)] {
        for (task, misses) in TASKS.iter().zip(&run.misses) {
            rows.push(row(
                format!("{policy}: misses of {task}"),
                "%",
                None,
                misses,
                Bound::Shown,
            ));
        }
        rows.push(row(
            format!("{policy}: misses, mean of the three"),
            "%",
            None,
            &mean(run),
            Bound::Shown,
        ));
        let slow_down = run.slow_down(&alone);
        rows.push(row(
            format!("{policy}: hog slower than alone by"),
            "%",
            None,
            &slow_down,
            Bound::Shown,
        ));
        rows.push(row(
            format!("{policy}: pinned"),
            "pages",
            None,
            &run.pinned,
            Bound::Shown,
        ));
    }
    let fewer = mean(&none).less(&mean(&app));
    let slower = app.slow_down(&alone).less(&none.slow_down(&alone));
    rows.push(row(
        "app: fewer misses than none",
        "points",
        Some(FEWER),
        &fewer,
        Bound::AtLeast(FEWER),
    ));
    rows.push(row(
        "app: hog slower than under none by",
        "points",
        Some(SLOWER),
        &slower,
        Bound::AtMost(SLOWER),
    ));
    Ok(rows)
}

/// The mean of the tasks' miss ratios, seed by seed.
fn mean(run: &Measured) -> Sample {
    let seeds = run.misses.first().map_or(0, |sample| sample.values().len());
    let tasks: Vec<&[f64]> = run.misses.iter().map(Sample::values).collect();
    let of_seed = |seed: usize| {
        let values: Vec<f64> = tasks.iter().filter_map(|values| values.get(seed).copied()).collect();
        Sample::new(values).mean()
    };
    Sample::new((0..seeds).map(of_seed).collect())
}
