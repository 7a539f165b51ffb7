//! Figure 7: best-effort threads come at 20 s and go at 40 s.

use freehold_scenario::results::ReproduceRow;
use freehold_sim::component::best_effort;

use super::{GREEDY, MICROSECOND, SETS, TMEM, WAYS, Way, simulate};
use crate::reproduce::{Claim, Experiment, Kind, Laboratory, row};
use freehold_command::status::Failure;

/// Units beyond the minima of all three parts.
const ABOVE: u32 = 48;
/// Seconds before, during and after; the policies have learnt by then, and have a second after it.
const PHASES: [(&str, usize, usize); 3] = [("before", 5, 20), ("during", 20, 40), ("after", 41, 60)];

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "tmem-fig7",
    about: "tardiness and memory of real-time threads while best-effort threads come and go, for each policy",
    files: &[],
    kind: Kind::Models,
    run,
};

/// Of each phase: the mean of each second's latest job in microseconds, misses in 1000 s, units.
type Phases = [[u64; 3]; 3];

fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let sets = u64::from(laboratory.seeds(u32::try_from(SETS).unwrap_or(u32::MAX)));
    let mut rows = Vec::new();
    let mut all = Vec::new();
    for way in WAYS {
        let phases = phases(way, sets)?;
        for ((name, ..), [tardiness, misses, units]) in PHASES.iter().zip(phases) {
            let what = format!("{}, {name}", way.name);
            rows.push(row(
                format!("{what}: latest job of a second"),
                "us",
                None,
                Some(tardiness),
                Claim::Shown,
            ));
            rows.push(row(
                format!("{what}: misses in 1000 s"),
                "jobs",
                None,
                Some(misses),
                Claim::Shown,
            ));
            rows.push(row(format!("{what}: units"), "units", None, Some(units), Claim::Shown));
        }
        all.push((way.name, phases));
    }
    let rise = |name: &str| {
        let found = all.iter().find(|(way, _)| *way == name);
        found.map(|(_, [before, during, _])| during[0].saturating_sub(before[0]))
    };
    let (ours, greedy) = (rise(TMEM.name), rise(GREEDY.name));
    let half = greedy.unwrap_or(0) / 2;
    rows.push(row(
        "rise of the latest job under greedy",
        "us",
        None,
        greedy,
        Claim::Shown,
    ));
    rows.push(row(
        "rise under tmem: half of greedy's",
        "us",
        None,
        ours,
        Claim::AtMost(half),
    ));
    if let Some((_, [before, _, after])) = all.iter().find(|(way, _)| *way == TMEM.name) {
        // A tenth is what task sets differ by from minute to minute.
        let bound = before[0] + before[0] / 10;
        rows.push(row(
            "tmem, a second after they left",
            "us",
            None,
            Some(after[0]),
            Claim::AtMost(bound),
        ));
    }
    Ok(rows)
}

fn phases(way: Way, sets: u64) -> Result<Phases, Failure> {
    let mut sums = Phases::default();
    for set in 1..=sets {
        let model = best_effort(set, 20, 40);
        // `max` has all that anybody could hold.
        let above = if way.name == "max" { 37 * 2 * 16 } else { ABOVE };
        let outcome = simulate(&model, way, above, set)?;
        for (sum, (_, from, to)) in sums.iter_mut().zip(PHASES) {
            sum[0] += outcome.mean_tardiness(from, to) / MICROSECOND;
            sum[1] += outcome.mean_misses(from, to);
            sum[2] += outcome.mean_units(from, to);
        }
    }
    Ok(sums.map(|phase| phase.map(|sum| sum / sets.max(1))))
}
