//! Figure 1: does a faster store make soft-real-time tasks miss more under Linux's lists?

use freehold_scenario::results::ReproduceRow;

use super::sample::Sample;
use super::{Bench, Bound, Laboratory, NONE, THREE, row};
use crate::reproduce::{Experiment, Kind};
use freehold_command::exit_status::Failure;

const SEEDS: u32 = 10;
const MODELS: [(&str, &[&str]); 3] = [
    ("app/ranger.toml", &["ranger"]),
    ("app/opencv.toml", &["opencv"]),
    ("app/mplayer.toml", &["mplayer"]),
];
const FAST: &str = "4us";
const SLOW: &str = "40us";
/// The paper's: up to so many more points of misses with the faster store, and so much less time for the neighbour, at
/// least and at most.
const MORE: f64 = 16.0;
const LESS: (f64, f64) = (5.0, 14.0);

/// Pages read back together: by themselves, and as many as Linux does unless told otherwise (`vm.page-cluster` 3).
const CLUSTERS: [(u32, &str); 2] = [(1, ""), (8, ", read-ahead of 8")];

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "app-fig1",
    about: "a store of 4 us and one of 40 us: who misses more under Linux's lists, and what the graph walk gains",
    files: THREE,
    kind: Kind::Models,
    run,
};

/// Runs the experiment, without read-ahead and with it.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let mut rows = Vec::new();
    for (pages, with) in CLUSTERS {
        rows.extend(run_with(laboratory, pages, with)?);
    }
    Ok(rows)
}

/// The rows for so many pages read back together; `with` names that.
fn run_with(laboratory: &Laboratory, pages: u32, with: &str) -> Result<Vec<ReproduceRow>, Failure> {
    let mut rows = Vec::new();
    let mut most: Option<Sample> = None;
    for (file, tasks) in MODELS {
        let bench = Bench::new(laboratory, file, tasks, SEEDS)?;
        let task = tasks[0];
        let of = |latency: &str| {
            let store = format!("memory.swap.latency={latency}");
            bench.measure(&NONE, &[store, format!("memory.swap.read_ahead={pages}")])
        };
        let (fast, slow) = (of(FAST)?, of(SLOW)?);
        for (latency, run) in [(FAST, &fast), (SLOW, &slow)] {
            let what = format!("{task}, a store of {latency}{with}: misses");
            rows.push(row(what, "%", None, &run.misses[0], Bound::Shown));
        }
        let jobs = fast.hog_jobs.values().iter().zip(slow.hog_jobs.values());
        let less = Sample::new(jobs.map(|(fast, slow)| (1.0 - slow / fast.max(1.0)) * 100.0).collect());
        let what = format!(
            "hog beside {task}{with}: less time with {FAST}, by (paper: at most {})",
            LESS.1
        );
        rows.push(row(what, "%", Some(LESS.0), &less, Bound::AtLeast(LESS.0)));
        let more = fast.misses[0].less(&slow.misses[0]);
        if most.as_ref().is_none_or(|most| most.mean() < more.mean()) {
            most = Some(more);
        }
    }
    if let Some(most) = most {
        let what = format!("more misses with {FAST} than with {SLOW}{with}, the most of the three");
        rows.push(row(what, "points", Some(MORE), &most, Bound::AtLeast(MORE)));
    }
    Ok(rows)
}
