//! Figure 8: launches of the applications that use devices.

use freehold_linux::clock;
use freehold_scenario::results::ReproduceRow;
use freehold_sim::replay::{Choice, Replayed};

use super::study::Study;
use super::workload::{DEVICES, WORKLOADS, devices_of};
use super::{SEEDS, row};
use crate::devices::{self, Served};
use crate::reproduce::app::{Bound, Sample};
use crate::reproduce::{Experiment, Kind, Laboratory};
use freehold_command::exit_status::Failure;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "ecache-fig8",
    about: "what launches of applications with devices read, and how long their devices take to open",
    files: &[],
    kind: Kind::Models,
    run,
};

/// The applications, and how long the paper's open their devices, in microseconds.
const APPS: [(&str, f64); 2] = [("Movies", 10_600.0), ("Camera", 4_000.0)];
/// Openings, of which the median counts.
const OPENINGS: usize = 100;

fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let mut rows = launches(laboratory)?;
    rows.extend(openings()?);
    Ok(rows)
}

/// What a launch reads, beside the same launch with the devices' memory idle.
fn launches(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let study = Study::run(&[Choice::Lru], laboratory.seeds(SEEDS))?;
    let idle = study.idle()?;
    let mut rows = Vec::new();
    for (place, sizes) in study.sizes.iter().enumerate() {
        for (workload, name) in WORKLOADS.iter().enumerate() {
            for (app, _) in APPS {
                let Some(group) = study.programs.iter().position(|program| program.app == app) else {
                    continue;
                };
                let of = |found: &Replayed| reads(found, group);
                let (with, without) = (
                    study.sample(place, workload, Choice::Lru, of),
                    idle.sample(place, workload, Choice::Lru, of),
                );
                // The light workload has no film.
                if without.mean().is_nan() {
                    continue;
                }
                let what = |what: &str| format!("{}, {name}, {app}: pages read in a launch, {what}", sizes.name);
                rows.push(row(what("reserved memory idle"), "pages", None, &without, Bound::Shown));
                let bound = Bound::AtMost(without.mean());
                rows.push(row(what("with the victim cache"), "pages", None, &with, bound));
            }
        }
    }
    Ok(rows)
}

/// Not a number where there was no launch.
#[allow(clippy::cast_precision_loss, reason = "counts of pages, far below 2^53")]
fn reads(found: &Replayed, group: usize) -> f64 {
    let counts = found.groups.get(group).copied().unwrap_or_default();
    if counts.begun == 0 {
        return f64::NAN;
    }
    counts.misses as f64 / counts.begun as f64
}

/// Trusted devices on real memory, full of pages.
#[allow(clippy::cast_precision_loss, reason = "times, far below 2^53")]
fn openings() -> Result<Vec<ReproduceRow>, Failure> {
    let served = Served::start(devices::cache(&DEVICES, true)?)?;
    let frames: u32 = DEVICES.iter().map(|(_, mebibytes)| mebibytes * 256).sum();
    let mut rows = Vec::new();
    for (app, paper) in APPS {
        let mut times = Vec::new();
        for _ in 0..OPENINGS {
            devices::fill(&served.cache, frames)?;
            let begin = clock::now();
            let opened: Result<Vec<_>, Failure> = devices_of(app)
                .iter()
                .map(|device| served.open(DEVICES[*device].0))
                .collect();
            times.push((clock::now().as_nanos() - begin.as_nanos()) as f64 / 1e3);
            opened?.into_iter().try_for_each(|device| served.close(device))?;
        }
        times.sort_by(f64::total_cmp);
        let median = Sample::new(vec![times[OPENINGS / 2]]);
        let what = format!("{app}: its devices opened, median");
        rows.push(row(what, "us", Some(paper), &median, Bound::AtMost(paper)));
    }
    Ok(rows)
}
