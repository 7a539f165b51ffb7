//! Beyond the paper's figures: what its β, to which it gives no value, does to misses and pages.

use freehold_scenario::results::ReproduceRow;

use super::{ALL, APP, Bench, Bound, LISTING, Laboratory, NEAR_ALL, row};
use crate::reproduce::files::file;
use crate::reproduce::{Experiment, Kind};
use freehold_command::exit_status::Failure;

/// The model runs eleven times for each.
const SEEDS: u32 = 10;
/// From a tenth less after a job with time to spare to no page less.
const FACTORS: [&str; 5] = ["0.9", "0.98", "0.99", "0.998", "1"];

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "app-beta",
    about: "misses of Ranger against beta, to which the paper gives no value",
    files: &[file!("app/ranger.toml")],
    kind: Kind::Models,
    run,
};

/// Runs the experiment: Ranger, the one model that misses anything.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let bench = Bench::new(laboratory, "app/ranger.toml", &["ranger"], SEEDS)?;
    let all = bench.measure(&ALL, &[])?.misses.swap_remove(0);
    let near = Bound::AtMost(all.mean() + NEAR_ALL);
    let mut rows = vec![row("all: misses".to_owned(), "%", None, &all, Bound::Shown)];
    for policy in [APP, LISTING] {
        for factor in FACTORS {
            let run = bench.measure(&policy, &[format!("task.ranger.app.beta={factor}")])?;
            let what = format!("{}, beta {factor}", policy.name);
            rows.push(row(format!("{what}: misses"), "%", None, &run.misses[0], near));
            rows.push(row(format!("{what}: pinned"), "pages", None, &run.pinned, Bound::Shown));
        }
    }
    Ok(rows)
}
