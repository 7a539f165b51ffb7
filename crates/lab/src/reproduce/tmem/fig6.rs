//! Figure 6: the latest jobs and misses of real-time threads against memory.

use std::ops::RangeInclusive;

use freehold_scenario::results::ReproduceRow;
use freehold_sim::component::task_set;

use super::{DEMAND, GREEDY, MICROSECOND, SECONDS, SETS, TMEM, WAYS, Way, simulate};
use crate::reproduce::{Claim, Experiment, Kind, Laboratory, row};
use freehold_command::exit_status::Failure;

/// Units beyond the minima.
const SIZES: [u32; 7] = [0, 8, 16, 24, 32, 48, 64];
/// All that anybody could hold: nobody waits.
const AMPLE: u32 = 24 * 2 * 16;
/// The paper: the slope of `tmem` is four times that of `greedy`.
const PAPER_SLOPE: u64 = 4;
const MOST_SETS: u64 = 8;
/// For each of the paper's sets so many others, on which nothing was chosen.
const FURTHER: u64 = 3;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "tmem-fig6",
    about: "tardiness and misses of ten task sets against transient memory, for each policy, with and without PI",
    files: &[],
    kind: Kind::Models,
    run,
};

/// Of each size and set: the mean of each second's latest job in microseconds, and the misses of a second.
struct Curve {
    tardiness: Vec<Vec<u64>>,
    misses: Vec<Vec<u64>>,
}

/// The curves of all policies.
type Curves = Vec<(Way, Curve)>;

fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let sets = u64::from(laboratory.seeds(u32::try_from(SETS).unwrap_or(u32::MAX)));
    let mut rows = Vec::new();
    let mut curves = Curves::new();
    for way in WAYS {
        let sizes: &[u32] = if way.name == "max" { &[AMPLE] } else { &SIZES };
        let curve = curve(way, sizes, 1..=sets)?;
        rows.extend(points(way, &curve, sizes));
        curves.push((way, curve));
    }
    let all = Share::of(sets, MOST_SETS);
    rows.extend(beside(&curves, GREEDY, "sets", all));
    rows.extend(beside(&curves, DEMAND, "sets", all.shown()));
    rows.extend(slope(&curves));
    rows.extend(inheritance(&curves));
    rows.extend(further(sets)?);
    Ok(rows)
}

/// The same of sets that were not looked at when the policy was made.
fn further(sets: u64) -> Result<Vec<ReproduceRow>, Failure> {
    let (first, count) = (sets + 1, FURTHER * sets);
    let curves: Result<Curves, Failure> = [TMEM, GREEDY, DEMAND]
        .into_iter()
        .map(|way| Ok((way, curve(way, &SIZES, first..=sets + count)?)))
        .collect();
    let (curves, all) = (curves?, Share::of(count, MOST_SETS));
    let mut rows = beside(&curves, GREEDY, "further sets", all);
    rows.extend(beside(&curves, DEMAND, "further sets", all.shown()));
    Ok(rows)
}

/// Of how many sets, and the goal if there is one.
#[derive(Clone, Copy)]
struct Share {
    sets: u64,
    goal: Option<u64>,
}

impl Share {
    /// A goal of so many in ten.
    fn of(sets: u64, in_ten: u64) -> Self {
        Self {
            sets,
            goal: Some(in_ten * sets / SETS),
        }
    }

    fn shown(self) -> Self {
        Self { goal: None, ..self }
    }
}

fn points(way: Way, curve: &Curve, sizes: &[u32]) -> Vec<ReproduceRow> {
    let mut rows = Vec::new();
    for (at, size) in sizes.iter().enumerate() {
        let what = |what: &str| format!("{}, {size} units beyond the minima: {what}", way.name);
        let [tardiness, misses] = [&curve.tardiness[at], &curve.misses[at]].map(|of| Some(mean(of)));
        rows.push(row(what("latest job of a second"), "us", None, tardiness, Claim::Shown));
        rows.push(row(what("misses in 1000 s"), "jobs", None, misses, Claim::Shown));
    }
    rows
}

fn find<'a>(curves: &'a Curves, name: &str) -> Option<&'a Curve> {
    curves.iter().find(|(way, _)| way.name == name).map(|(_, curve)| curve)
}

/// In how many sets `tmem` is below another policy.
fn beside(curves: &Curves, other: Way, sets: &str, share: Share) -> Vec<ReproduceRow> {
    let (Some(tmem), Some(than)) = (find(curves, TMEM.name), find(curves, other.name)) else {
        return Vec::new();
    };
    let below = (0..usize::try_from(share.sets).unwrap_or(0)).filter(|set| is_below(tmem, than, *set));
    let (name, claim) = (other.name, share.goal.map_or(Claim::Shown, Claim::AtLeast));
    let what = format!(
        "{} {sets}: those in which tmem is below {name} at every size",
        share.sets
    );
    let mut rows = vec![row(what, "sets", None, Some(below.count() as u64), claim)];
    let sizes = SIZES.iter().zip(tmem.tardiness.iter().zip(&than.tardiness));
    for (size, (ours, others)) in sizes.skip(1) {
        let lower = ours.iter().zip(others).filter(|(ours, other)| ours < other).count() as u64;
        let what = format!(
            "{} {sets}: those in which tmem is below {name} with {size} units",
            share.sets
        );
        rows.push(row(what, "sets", None, Some(lower), Claim::Shown));
    }
    rows
}

fn slope(curves: &Curves) -> Option<ReproduceRow> {
    let (tmem, greedy) = (find(curves, TMEM.name)?, find(curves, GREEDY.name)?);
    let percent = (100 * fall(tmem)).checked_div(fall(greedy).max(1));
    let what = "slope of tmem as a part of greedy's (the paper's factor)";
    Some(row(what, "%", Some(100 * PAPER_SLOPE), percent, Claim::Shown))
}

fn inheritance(curves: &Curves) -> Vec<ReproduceRow> {
    let mut rows = Vec::new();
    for name in ["min", "greedy", "tmem"] {
        if let (Some(with), Some(without)) = (find(curves, name), find(curves, &format!("{name} w/o PI"))) {
            let [with, without] = [with, without].map(|curve| mean(&curve.tardiness[1]));
            let what = format!("{name} with 8 units: latest job, without PI as a part of with");
            let percent = (100 * without).checked_div(with.max(1));
            rows.push(row(what, "%", None, percent, Claim::AtLeast(100)));
        }
    }
    rows
}

fn curve(way: Way, sizes: &[u32], sets: RangeInclusive<u64>) -> Result<Curve, Failure> {
    let mut curve = Curve {
        tardiness: Vec::new(),
        misses: Vec::new(),
    };
    for size in sizes {
        let (mut tardiness, mut misses) = (Vec::new(), Vec::new());
        for set in sets.clone() {
            let outcome = simulate(&task_set(set), way, *size, set)?;
            let all = usize::try_from(SECONDS).unwrap_or(usize::MAX);
            tardiness.push(outcome.mean_tardiness(0, all) / MICROSECOND);
            misses.push(outcome.mean_misses(0, all));
        }
        curve.tardiness.push(tardiness);
        curve.misses.push(misses);
    }
    Ok(curve)
}

/// Below at every size but the first, where both have the minima; or as low, where nobody is late under either.
fn is_below(tmem: &Curve, greedy: &Curve, set: usize) -> bool {
    let pairs = tmem.tardiness.iter().zip(&greedy.tardiness).skip(1);
    let mut pairs = pairs.map(|(ours, other)| (ours[set], other[set]));
    pairs.all(|(ours, other)| ours < other || (ours == 0 && other == 0))
}

/// By how much the tardiness falls from no unit to the least number of units of the figure, in microseconds.
fn fall(curve: &Curve) -> u64 {
    mean(&curve.tardiness[0]).saturating_sub(mean(&curve.tardiness[1]))
}

fn mean(of: &[u64]) -> u64 {
    of.iter().sum::<u64>() / (of.len() as u64).max(1)
}
