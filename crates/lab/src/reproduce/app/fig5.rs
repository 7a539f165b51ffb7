//! Figure 5: less memory.

use freehold_scenario::results::ReproduceRow;

use super::{ALL, APP, Bench, Bound, Laboratory, NONE, THREE, row};
use crate::reproduce::{Experiment, Kind};
use freehold_command::exit_status::Failure;

/// A model runs thirteen times for each.
const SEEDS: u32 = 10;
/// Model, task, and the misses that the paper's APP stays below with a quarter less and more, in per cent.
const MODELS: [(&str, &[&str], f64); 3] = [
    ("app/ranger.toml", &["ranger"], 5.0),
    ("app/opencv.toml", &["opencv"], 11.0),
    ("app/mplayer.toml", &["mplayer"], 1.0),
];
/// Less memory, in per cent of 300 MiB.
const REDUCTIONS: [u32; 4] = [0, 10, 25, 30];
const WHOLE_MIB: u32 = 300;
/// From here on the paper's bounds are claimed.
const CLAIMED: u32 = 25;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "app-fig5",
    about: "misses and slow-down with a quarter and more of the memory taken away",
    files: THREE,
    kind: Kind::Models,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let mut rows = Vec::new();
    for (file, tasks, limit) in MODELS {
        let bench = Bench::new(laboratory, file, tasks, SEEDS)?;
        let task = tasks[0];
        // What the whole memory does for the neighbour by itself is what its slow-down is measured against.
        let alone = bench.alone(&[])?;
        for less in REDUCTIONS {
            let pool = [format!("memory.pool={}MiB", WHOLE_MIB * (100 - less) / 100)];
            for policy in [NONE, ALL, APP] {
                let run = bench.measure(&policy, &pool)?;
                let (paper, bound) = match policy.name {
                    "app" if less >= CLAIMED => (Some(limit), Bound::AtMost(limit)),
                    _ => (None, Bound::Shown),
                };
                let what = format!("{task}, {less} % less memory, {}", policy.name);
                rows.push(row(format!("{what}: misses"), "%", paper, &run.misses[0], bound));
                let slow_down = run.slow_down(&alone);
                rows.push(row(
                    format!("{what}: hog slower by"),
                    "%",
                    None,
                    &slow_down,
                    Bound::Shown,
                ));
            }
        }
    }
    Ok(rows)
}
