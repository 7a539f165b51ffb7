//! Figure 6(a): how much less is read with the victim cache than with memory that is reserved and idle.

use freehold_scenario::results::ReproduceRow;
use freehold_sim::replay::Choice;

use super::study::{Study, cut, cut_to};
use super::workload::{MULTIMEDIA, WORKLOADS};
use super::{SEEDS, row};
use crate::reproduce::app::Bound;
use crate::reproduce::{Experiment, Kind, Laboratory};
use freehold_command::exit_status::Failure;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "ecache-fig6",
    about: "read I/O cut by the victim cache, six workloads of 29 recorded programs",
    files: &[],
    kind: Kind::Models,
    run,
};

/// What the paper says at least, of workloads with few devices and with many.
const PAPER: f64 = 76.0;
const PAPER_MULTIMEDIA: f64 = 50.0;

/// The cut is claimed where the trace allows it: where it could be reached if no device ever opened.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let study = Study::run(&[Choice::Lru], laboratory.seeds(SEEDS))?;
    let mut rows = Vec::new();
    for (place, sizes) in study.sizes.iter().enumerate() {
        for (workload, name) in WORKLOADS.iter().enumerate() {
            let sample =
                |of: &dyn Fn(&freehold_sim::replay::Replayed) -> f64| study.sample(place, workload, Choice::Lru, of);
            let (ours, closed) = (
                sample(&cut),
                sample(&|found| cut_to(found, found.bounds.no_device_misses)),
            );
            let infinite = sample(&|found| cut_to(found, found.bounds.distinct));
            let is_multimedia = MULTIMEDIA.contains(name);
            let paper = if is_multimedia { PAPER_MULTIMEDIA } else { PAPER };
            let bound = if closed.mean() >= paper {
                Bound::AtLeast(paper)
            } else {
                Bound::Shown
            };
            let what = |what: &str| format!("{}, {name}: {what}", sizes.name);
            rows.push(row(what("read I/O cut"), "%", Some(paper), &ours, bound));
            rows.push(row(what("if no device ever opened"), "%", None, &closed, Bound::Shown));
            rows.push(row(what("with an infinite cache"), "%", None, &infinite, Bound::Shown));
        }
    }
    Ok(rows)
}
