//! Ordinary programs, as they are and under `freehold exec`: the time they take with an ample reservation, and whether
//! they still do the same with half and with a quarter of the memory that they use.

mod inputs;
mod place;
mod workload;

use std::time::{Duration, Instant};

use super::Bench;
use super::pairs::Paired;
use super::rounds::{Effort, Found, Samples, refused};
use crate::programs;
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

use place::{Outcome, Place, Size};
use workload::{Compared, WORKLOADS, Workload};

/// Ours may take so much longer (issue: cheap).
const GOAL: f64 = 1.15;
/// Runs of each program in a round, each natively and with an ample reservation.
const PAIRS: u32 = 2;
/// More follow until the interval of the ratio is no wider than this, so often and so long at most.
const NARROW: f64 = 0.08;
const MOST_PAIRS: u32 = 40;
const PATIENCE: Duration = Duration::from_secs(150);

/// The benchmark.
pub(super) const BENCH: Bench = Bench {
    name: "programs",
    about: "ordinary programs under `freehold exec` with an ample reservation; with half and a quarter of what \
            they use they must do the same too",
    floor: "the same programs as they are",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.15,
    run,
};

/// Runs the benchmark.
///
/// # Errors
/// A server that does not start, a program that cannot be run, or one that does not do the same.
fn run(effort: Effort) -> Result<Found, Failure> {
    let place = Place::new(effort.quick)?;
    let mut found = Found::new()?;
    let mut different = Vec::new();
    for workload in WORKLOADS {
        if let Some(missing) = workload.needs.iter().find(|program| !programs::is_installed(program)) {
            found
                .notes
                .push(format!("{}: left out, {missing} is not installed", workload.name));
            continue;
        }
        let native = place.native(workload)?;
        if native.status != "exit status: 0" {
            found.notes.push(format!(
                "{}: left out, it fails without Freehold too: {}",
                workload.name, native.status
            ));
            continue;
        }
        compare(&place, workload, &native, effort, &mut found, &mut different)?;
    }
    if different.is_empty() {
        return Ok(found);
    }
    Err(Failure::Run(different.join("\n")))
}

fn compare(
    place: &Place,
    workload: &Workload,
    native: &Outcome,
    effort: Effort,
    found: &mut Found,
    different: &mut Vec<String>,
) -> Result<(), Failure> {
    for size in [Size::Ample, Size::Half, Size::Quarter] {
        let ours = place.managed(workload, native, size)?;
        if let Some(difference) = difference(workload, native, &ours) {
            different.push(format!("{} with {size} memory: {difference}", workload.name));
        }
        found.row(
            &format!("{}, {size} ({})", workload.name, place.reservation(native, size)),
            seconds(ours.wall) / seconds(native.wall),
            "x native, once",
        );
        if !matches!(size, Size::Ample) {
            beside_kernel(place, workload, native, size, &ours, found)?;
        }
    }
    if !workload.timed {
        return Ok(());
    }
    let ratio = pairs(place, workload, native, effort, found)?;
    let what = format!("{}, ample", workload.name);
    found.goal_row(&what, ratio.median, "x native, median of pairs", GOAL);
    found.row(&format!("{what}: the interval from"), ratio.low, "x native");
    found.row(&format!("{what}: to"), ratio.high, "x native");
    Ok(())
}

/// The same program in a memory cgroup of the same size with swap in memory, and what ours takes beside it.
fn beside_kernel(
    place: &Place,
    workload: &Workload,
    native: &Outcome,
    size: Size,
    ours: &Outcome,
    found: &mut Found,
) -> Result<(), Failure> {
    let what = format!("{}, {size}: the kernel's swap in memory", workload.name);
    match place.kernel(workload, native, size) {
        Ok(kernel) if kernel.status == native.status => {
            found.row(&what, seconds(kernel.wall) / seconds(native.wall), "x native, once");
            let what = format!("{}, {size}: beside the kernel's swap", workload.name);
            found.row(&what, seconds(ours.wall) / seconds(kernel.wall), "x the kernel, once");
        }
        Ok(kernel) => found.notes.push(format!("{what}: {}", kernel.status)),
        Err(Failure::Stopped) => return Err(Failure::Stopped),
        Err(failure) => found.notes.push(format!("{what}: not here: {failure}")),
    }
    Ok(())
}

/// Runs a program natively and with an ample reservation by turns, until the ratio is known well enough.
fn pairs(
    place: &Place,
    workload: &Workload,
    native: &Outcome,
    effort: Effort,
    found: &mut Found,
) -> Result<Paired, Failure> {
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    let (least, begun) = (effort.rounds * PAIRS, Instant::now());
    let most = if effort.quick { least } else { MOST_PAIRS.max(least) };
    for pair in 0..most {
        let managed = || place.managed(workload, native, Size::Ample).map(|outcome| outcome.wall);
        // Each of the two is the first in every other pair.
        let (plain, other) = if pair % 2 == 0 {
            let plain = place.native(workload)?.wall;
            (plain, managed()?)
        } else {
            let other = managed()?;
            (place.native(workload)?.wall, other)
        };
        record(&mut found.floor, plain);
        record(&mut found.ours, other);
        floor.push(seconds(plain));
        ours.push(seconds(other));
        let enough =
            |ratio: &Paired| ratio.high - ratio.low <= NARROW || pair + 1 == most || begun.elapsed() > PATIENCE;
        if let Some(ratio) = Paired::of(&ours, &floor).filter(|ratio| pair + 1 >= least && enough(ratio)) {
            return Ok(ratio);
        }
    }
    Err(refused("no pair of runs"))
}

fn record(samples: &mut Samples, wall: Duration) {
    samples.record(u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX));
}

fn seconds(wall: Duration) -> f64 {
    wall.as_secs_f64().max(1e-6)
}

/// What is not the same, for people.
fn difference(workload: &Workload, native: &Outcome, ours: &Outcome) -> Option<String> {
    let errors = || ours.errors.chars().take(2_000).collect::<String>();
    if native.status != ours.status {
        return Some(format!("{}, not {}: {}", ours.status, native.status, errors()));
    }
    if workload.compared == Compared::Status {
        return None;
    }
    if native.output != ours.output {
        return Some(format!("it prints something else: {}", errors()));
    }
    if native.errors != ours.errors {
        return Some(format!("it prints other errors: {}", errors()));
    }
    (native.files != ours.files).then(|| "it writes other files".to_owned())
}

/// What keeps a benchmark from running here.
fn cannot(what: &str, error: impl std::fmt::Display) -> Failure {
    refused(format!("{what}: {error}"))
}
