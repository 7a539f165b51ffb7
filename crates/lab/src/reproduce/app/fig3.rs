//! Figure 3: misses against the capacity of the pinned page pool.

use freehold_scenario::results::ReproduceRow;

use super::{APP_NO_BUDGET, Bench, Bound, Laboratory, row};
use crate::reproduce::files::file;
use crate::reproduce::{Experiment, Kind};
use freehold_command::exit_status::Failure;

const SEEDS: u32 = 10;
/// Capacities in pages; in the last, the paper has no misses any more.
const CAPACITIES: [u32; 5] = [1, 1000, 3000, 5000, 7000];
const CONVERGED: u32 = 7000;
const KIB_PER_PAGE: u32 = 4;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "app-fig3",
    about: "misses of OpenCV and Ranger against the capacity of the pinned page pool",
    files: &[file!("app/opencv.toml"), file!("app/ranger.toml")],
    kind: Kind::Models,
    run,
};

/// Runs the experiment. The capacity never shrinks (α and β see to that) and there is no swap budget; a job that missed
/// and swapped in still makes it grow, as Algorithm 1 knows no other way.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let models: [(&str, &[&str]); 2] = [("app/opencv.toml", &["opencv"]), ("app/ranger.toml", &["ranger"])];
    let mut rows = Vec::new();
    for (file, tasks) in models {
        let bench = Bench::new(laboratory, file, tasks, SEEDS)?;
        let task = tasks[0];
        for capacity in CAPACITIES {
            let key = |key: &str| format!("task.{task}.app.{key}");
            let sets = [
                key(&format!("capacity={}KiB", capacity * KIB_PER_PAGE)),
                key("alpha=0.000001"),
                key("beta=1"),
            ];
            let run = bench.measure(&APP_NO_BUDGET, &sets)?;
            let (paper, bound) = match capacity {
                CONVERGED => (Some(0.0), Bound::AtMost(1.0)),
                _ => (None, Bound::Shown),
            };
            let what = format!("{task}, capacity {capacity}");
            rows.push(row(format!("{what}: misses"), "%", paper, &run.misses[0], bound));
            rows.push(row(format!("{what}: pinned"), "pages", None, &run.pinned, Bound::Shown));
        }
    }
    Ok(rows)
}
