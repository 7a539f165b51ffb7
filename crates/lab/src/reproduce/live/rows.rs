//! The table.

use freehold_scenario::results::ReproduceRow;

use super::jobs::Jobs;
use super::workload::Program;
use super::{ALL, APP, APP_NO_BUDGET, HogAlone, LISTING, NONE, RESTORE, Run, STEADY, STEADY_RESTORE, Series};
use crate::reproduce::app::{Bound, Sample, row};
use crate::reproduce::claim::{Claim, row as claim};

/// What is claimed: misses within a point of `all`, slow-down within five points of `none`.
const NEAR_ALL: f64 = 1.0;
const NEAR_NONE: f64 = 5.0;

impl Series {
    fn sample(&self, of: impl Fn(&Jobs) -> f64) -> Sample {
        let jobs = self.trials.iter().filter_map(|trial| trial.jobs.as_ref());
        Sample::new(jobs.map(of).collect())
    }

    /// Where every run has it.
    fn known(&self, of: impl Fn(&Jobs) -> Option<f64>) -> Option<Sample> {
        let jobs = self.trials.iter().filter_map(|trial| trial.jobs.as_ref());
        jobs.map(of).collect::<Option<Vec<f64>>>().map(Sample::new)
    }

    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn misses(&self) -> Sample {
        self.sample(|jobs| 100.0 * jobs.late as f64 / jobs.count as f64)
    }

    /// Of the jobs after the pools have found their sizes; nothing where a run is too short for that.
    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn settled_misses(&self) -> Sample {
        let jobs = self.trials.iter().filter_map(|trial| trial.jobs.as_ref());
        let settled = jobs.map(|jobs| jobs.settled).filter(|(_, count)| *count > 0);
        Sample::new(
            settled
                .map(|(late, count)| 100.0 * late as f64 / count as f64)
                .collect(),
        )
    }

    /// How much longer an iteration of GraphChi takes than in `base`, in per cent, seed by seed.
    fn slow_down(&self, base: &[f64]) -> Sample {
        let times = self.trials.iter().map(|trial| trial.iteration.unwrap_or(f64::NAN));
        Sample::new(
            times
                .zip(base)
                .map(|(time, base)| 100.0 * (time / base - 1.0))
                .collect(),
        )
    }

    fn hog_times(&self) -> Vec<f64> {
        let times = self.trials.iter().map(|trial| trial.iteration.unwrap_or(f64::NAN));
        times.collect()
    }
}

/// The rows of a program.
pub(super) fn of(program: Program, series: &[Series], equal: &[bool], alone: &HogAlone) -> Vec<ReproduceRow> {
    let mut rows = misses(program, series);
    rows.extend(times(program, series));
    rows.extend(pages(program, series));
    rows.extend(slow_downs(program, series, alone));
    let runs = equal.len() as u64;
    let same = equal.iter().filter(|equal| **equal).count() as u64;
    let what = format!("{}: runs that wrote what a native run writes", program.name());
    rows.push(claim(what, "runs", None, Some(same), Claim::Equal(runs)));
    rows
}

fn named<'a>(series: &'a [Series], name: &str) -> Option<&'a Series> {
    series.iter().find(|one| one.name == name)
}

fn misses(program: Program, series: &[Series]) -> Vec<ReproduceRow> {
    let (paper, name) = (program.paper(), program.name());
    let near_all = named(series, ALL).map_or(Bound::Shown, |all| Bound::AtMost(all.misses().mean() + NEAR_ALL));
    let mut rows: Vec<ReproduceRow> = series
        .iter()
        .map(|one| {
            let (figure, bound) = match one.name {
                ALL => (Some(paper.all), Bound::Shown),
                APP | LISTING | STEADY | RESTORE | STEADY_RESTORE => (None, near_all),
                _ => (None, Bound::Shown),
            };
            row(
                format!("{name}, {}: misses", one.name),
                "%",
                figure,
                &one.misses(),
                bound,
            )
        })
        .collect();
    for one in series {
        let misses = one.settled_misses();
        if !misses.values().is_empty() {
            let what = format!("{name}, {}: misses after 10 s", one.name);
            rows.push(row(what, "%", None, &misses, Bound::Shown));
        }
    }
    let Some(((cut, part), app)) = paper.cut.zip(named(series, APP)) else {
        return rows;
    };
    for (what, other, paper) in [
        ("fewer misses than none", NONE, cut),
        ("fewer than app-no-budget", APP_NO_BUDGET, part),
    ] {
        let Some(other) = named(series, other) else {
            continue;
        };
        let fewer = other.misses().less(&app.misses());
        let what = format!("{name}, app: {what}");
        rows.push(row(what, "points", Some(paper), &fewer, Bound::AtLeast(paper)));
    }
    rows
}

fn times(program: Program, series: &[Series]) -> Vec<ReproduceRow> {
    let name = program.name();
    let rows = series.iter().flat_map(|one| {
        let row = |what: &str, sample: Sample| {
            row(
                format!("{name}, {}: {what}", one.name),
                "ms",
                None,
                &sample,
                Bound::Shown,
            )
        };
        [
            row("response, median", one.sample(|jobs| jobs.p50)),
            row("response, 99 of 100", one.sample(|jobs| jobs.p99)),
            row("CPU time, median", one.sample(|jobs| jobs.cpu)),
        ]
    });
    rows.collect()
}

#[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
fn pages(program: Program, series: &[Series]) -> Vec<ReproduceRow> {
    let name = program.name();
    let mut rows = Vec::new();
    for one in series {
        let mut shown = |what: &str, unit: &str, sample: Option<Sample>| {
            if let Some(sample) = sample.filter(|sample| !sample.values().is_empty()) {
                let what = format!("{name}, {}: {what}", one.name);
                rows.push(row(what, unit, None, &sample, Bound::Shown));
            }
        };
        let swap_ins = one.known(|jobs| jobs.swap_ins.map(|pages| pages as f64 / jobs.count as f64));
        shown("swap-ins of a job", "pages", swap_ins);
        shown("pinned", "pages", one.known(|jobs| jobs.pinned));
        if one.name == RESTORE || one.name == STEADY_RESTORE {
            let restored = one.known(|jobs| jobs.restored.map(|pages| pages as f64 / jobs.count as f64));
            shown("brought back before a job", "pages", restored);
        }
        if one.name == APP || one.name == STEADY {
            shown("swap budget", "ms", one.known(|jobs| jobs.swap_budget));
        }
    }
    rows
}

fn slow_downs(program: Program, series: &[Series], alone: &HogAlone) -> Vec<ReproduceRow> {
    let (paper, name) = (program.paper(), program.name());
    let none = named(series, NONE).map(Series::hog_times);
    let mut rows = Vec::new();
    for one in series {
        let (base, figure) = match one.run {
            Run::Alone => continue,
            Run::Served(_) => (&alone.served, Some(paper.slow_down).filter(|_| one.name == ALL)),
            Run::Kernel { .. } => (&alone.kernel, None),
        };
        let what = format!("GraphChi beside {name}, {}: slower than alone by", one.name);
        rows.push(row(what, "%", figure, &one.slow_down(base), Bound::Shown));
        if let (Run::Served([_, ..]), Some(none)) = (one.run, &none) {
            let bound = match one.name {
                APP | LISTING | STEADY | RESTORE | STEADY_RESTORE => Bound::AtMost(NEAR_NONE),
                _ => Bound::Shown,
            };
            let what = format!("GraphChi beside {name}, {}: slower than with none by", one.name);
            rows.push(row(what, "%", None, &one.slow_down(none), bound));
        }
    }
    rows
}
