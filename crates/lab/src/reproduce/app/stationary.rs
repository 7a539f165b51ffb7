//! Beyond the paper's figures: how far the capacity swings when the load stays the same.

use freehold_scenario::recording::PinningSpan;
use freehold_scenario::results::ReproduceRow;

use super::sample::Sample;
use super::{APP, Bench, Bound, Laboratory, STEADY, STEADY_RESTORE, number, percent, row};
use crate::reproduce::files::file;
use crate::reproduce::{Experiment, Kind};
use freehold_command::exit_status::Failure;

const SEEDS: u32 = 10;
/// How far from its mean the capacity may be with the extensions, in per cent.
const NEAR: f64 = 10.0;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "app-stationary",
    about: "a load that stays the same: how far the capacity of the pinned page pool swings",
    files: &[file!("app/stationary.toml")],
    kind: Kind::Models,
    run,
};

/// Runs the experiment: the first half of a run is for settling, the second is looked at.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let bench = Bench::new(laboratory, "app/stationary.toml", &["vision"], SEEDS)?;
    let mut rows = Vec::new();
    for (policy, swing, misses) in [
        (APP, Bound::Shown, Bound::Shown),
        (STEADY, Bound::AtMost(NEAR), Bound::AtMost(0.0)),
        (STEADY_RESTORE, Bound::AtMost(NEAR), Bound::AtMost(0.0)),
    ] {
        let judged = bench.judgements(&policy)?;
        let of = |figure: fn(&[PinningSpan]) -> f64| {
            let halves = judged
                .runs
                .iter()
                .map(|jobs| jobs.get(jobs.len() / 2..).unwrap_or_default());
            Sample::new(halves.map(figure).collect())
        };
        let mut put = |what: &str, unit: &str, sample: &Sample, bound: Bound| {
            rows.push(row(format!("{}: {what}", policy.name), unit, None, sample, bound));
        };
        put("lowest capacity", "pages", &of(lowest), Bound::Shown);
        put("mean capacity", "pages", &of(mean), Bound::Shown);
        put("highest capacity", "pages", &of(highest), Bound::Shown);
        put("capacity is off its mean by at most", "%", &of(swing_of), swing);
        put("misses", "%", &of(missed), misses);
        rows.extend(judged.unseen());
    }
    Ok(rows)
}

fn capacities(jobs: &[PinningSpan]) -> impl Iterator<Item = f64> {
    jobs.iter().map(|job| number(job.capacity))
}

fn lowest(jobs: &[PinningSpan]) -> f64 {
    capacities(jobs).fold(f64::INFINITY, f64::min)
}

fn highest(jobs: &[PinningSpan]) -> f64 {
    capacities(jobs).fold(f64::NEG_INFINITY, f64::max)
}

fn mean(jobs: &[PinningSpan]) -> f64 {
    Sample::new(capacities(jobs).collect()).mean()
}

fn swing_of(jobs: &[PinningSpan]) -> f64 {
    let mean = mean(jobs);
    (highest(jobs) - mean).max(mean - lowest(jobs)) / mean.max(1.0) * 100.0
}

fn missed(jobs: &[PinningSpan]) -> f64 {
    let missed = jobs.iter().filter(|job| job.missed).count();
    percent(missed as u64, jobs.len() as u64)
}
