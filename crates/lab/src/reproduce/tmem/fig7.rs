//! Figure 7: best-effort threads come at 20 s and go at 40 s.

use freehold_scenario::results::ReproduceRow;
use freehold_sim::component::best_effort;

use super::{GREEDY, MICROSECOND, SETS, TMEM, WAYS, Way, simulate};
use crate::reproduce::{Claim, Experiment, Kind, Laboratory, row};
use freehold_command::exit_status::Failure;

/// Units beyond the minima of all three parts.
const ABOVE: u32 = 48;
/// Seconds before, during and after; the policies have learnt by then, and have a second after it.
const PHASES: [(&str, usize, usize); 3] = [("before", 5, 20), ("during", 20, 40), ("after", 41, 60)];

/// The seconds in which best-effort threads run.
const COMPANY: Option<(u64, u64)> = Some((20, 40));

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
const COLUMNS: [(&str, &str); 3] = [
    ("latest job of a second", "us"),
    ("misses in 1000 s", "jobs"),
    ("units", "units"),
];

fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let sets = u64::from(laboratory.seeds(u32::try_from(SETS).unwrap_or(u32::MAX)));
    let mut rows = Vec::new();
    for way in WAYS {
        rows.extend(shown(way, &phases(way, sets, COMPANY)?));
    }
    let [greedy, tmem] = [rises(GREEDY, sets)?, rises(TMEM, sets)?];
    let what = |name: &str| format!("{name}: what the best-effort threads add to the latest job");
    rows.push(row(what("greedy"), "us", None, Some(greedy.during), Claim::Shown));
    let half = Claim::AtMost(greedy.during / 2);
    rows.push(row(what("tmem"), "us", None, Some(tmem.during), half));
    let what = "tmem: what they have added a second after they left";
    rows.push(row(what, "us", None, Some(tmem.after), Claim::AtMost(tmem.tenth)));
    Ok(rows)
}

fn shown(way: Way, phases: &Phases) -> Vec<ReproduceRow> {
    let mut rows = Vec::new();
    for ((phase, ..), values) in PHASES.iter().zip(phases) {
        for ((what, unit), value) in COLUMNS.into_iter().zip(values) {
            let what = format!("{}, {phase}: {what}", way.name);
            rows.push(row(what, unit, None, Some(*value), Claim::Shown));
        }
    }
    rows
}

/// How much later the latest jobs are than in the same seconds of the same sets without best-effort threads: what one
/// part of a minute differs from another by is left out.
struct Rises {
    during: u64,
    after: u64,
    /// A tenth of the latest job without: what task sets differ by from minute to minute.
    tenth: u64,
}

fn rises(way: Way, sets: u64) -> Result<Rises, Failure> {
    let [beside, alone] = [phases(way, sets, COMPANY)?, phases(way, sets, None)?];
    let rise = |phase: usize| beside[phase][0].saturating_sub(alone[phase][0]);
    Ok(Rises {
        during: rise(1),
        after: rise(2),
        tenth: alone[2][0] / 10,
    })
}

/// `active`: from when to when best-effort threads run, if any do.
fn phases(way: Way, sets: u64, active: Option<(u64, u64)>) -> Result<Phases, Failure> {
    let mut sums = Phases::default();
    for set in 1..=sets {
        let model = best_effort(set, active);
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
