//! Beyond the paper's figures: a working set that shifts is followed.

use freehold_scenario::recording::PinningSpan;
use freehold_scenario::results::ReproduceRow;

use super::sample::Sample;
use super::{ALL, APP, Bench, Bound, Laboratory, NONE, STEADY, STEADY_RESTORE, percent, row};
use crate::reproduce::files::file;
use crate::reproduce::{Experiment, Kind};
use freehold_command::exit_status::Failure;

const SEEDS: u32 = 10;
/// Jobs between two shifts, as the model says, and how many of them may pass until a shift is followed.
const PART: usize = 100;
const FOLLOWED: usize = 10;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "app-shift",
    about: "a working set that shifts every 3 s: how soon it is followed",
    files: &[file!("app/shift.toml")],
    kind: Kind::Models,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let bench = Bench::new(laboratory, "app/shift.toml", &["vision"], SEEDS)?;
    let mut rows = Vec::new();
    for policy in [NONE, ALL] {
        let run = bench.measure(&policy, &[])?;
        let what = format!("{}: misses", policy.name);
        rows.push(row(what, "%", None, &run.misses[0], Bound::Shown));
    }
    for policy in [APP, STEADY, STEADY_RESTORE] {
        let judged = bench.judgements(&policy)?;
        let of = |late: bool| Sample::new(judged.runs.iter().map(|jobs| misses(jobs, late)).collect());
        let name = policy.name;
        let what = format!("{name}: misses of the first {FOLLOWED} jobs after a shift");
        rows.push(row(what, "%", None, &of(false), Bound::Shown));
        let what = format!("{name}: misses of all later jobs");
        rows.push(row(what, "%", None, &of(true), Bound::AtMost(0.0)));
        rows.extend(judged.unseen());
    }
    Ok(rows)
}

/// Misses of the jobs that come later after a shift, or of the first, in per cent. The first part is left out: the pool
/// begins empty then.
fn misses(jobs: &[PinningSpan], late: bool) -> f64 {
    let later = jobs.iter().enumerate().skip(PART);
    let chosen = later.filter(|(at, _)| (at % PART >= FOLLOWED) == late);
    let (missed, all) = chosen.fold((0, 0), |(missed, all), (_, job)| {
        (missed + u64::from(job.missed), all + 1)
    });
    percent(missed, all)
}
