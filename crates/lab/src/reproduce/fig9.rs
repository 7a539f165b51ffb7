//! Figure 9: temporal isolation from the eviction of shared pages.

use freehold_scenario::results::{LateJob, ReproduceRow};

use super::files::file;
use super::{Claim, Laboratory, row, task_of};
use super::{Experiment, Kind};
use freehold_command::exit_status::Failure;

const FILE: &str = "spc-fig9.toml";
/// Releases of tau2 in the run, the last of which may be too late to harm tau1 within it.
const RELEASES: u64 = 10;

/// The period of tau2.
const PERIOD: u64 = 500_000_000;

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "spc-fig9",
    about: "tau1's misses beside tau2 under none, spc and spel",
    files: &[file!("spc-fig9.toml")],
    kind: Kind::Scenarios,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let mut rows = Vec::new();
    let none = laboratory.run(FILE, &["region.shm.sharing=none"])?;
    let tau1 = task_of(&none, "tau1");
    let misses = tau1.map(|task| task.misses);
    // "Every 500 ms": about one miss for each of tau2's jobs, neither fewer nor many more.
    rows.push(row(
        "none: tau1's misses, at least one per job of tau2",
        "misses",
        None,
        misses,
        Claim::AtLeast(RELEASES - 2),
    ));
    rows.push(row(
        "none: tau1's misses, not in every period",
        "misses",
        None,
        misses,
        Claim::AtMost(2 * RELEASES),
    ));
    // The typical time from the release of one late job to that of the next.
    let apart = tau1.and_then(|task| typical_gap(&task.late.late_jobs));
    rows.push(row(
        "none: from one of tau1's misses to the next",
        "ns",
        Some(PERIOD),
        apart,
        Claim::Equal(PERIOD),
    ));
    let evicted = tau1.map(|task| task.faults.shared_swap_ins);
    rows.push(row(
        "none: pages tau2 evicted under tau1",
        "pages",
        None,
        evicted,
        Claim::AtLeast(1),
    ));
    let misses = task_of(&none, "tau2").map(|task| task.misses);
    rows.push(row("none: tau2's misses", "misses", Some(0), misses, Claim::Equal(0)));
    let spel = ["region.shm.sharing=spel", "reservation.r2.size=11MiB"];
    for (name, sets) in [("spc", &[][..]), ("spel", &spel[..])] {
        let outcome = laboratory.run(FILE, sets)?;
        for task in ["tau1", "tau2"] {
            let misses = task_of(&outcome, task).map(|task| task.misses);
            rows.push(row(
                format!("{name}: {task}'s misses"),
                "misses",
                Some(0),
                misses,
                Claim::Equal(0),
            ));
        }
    }
    Ok(rows)
}

/// The median time between the releases of late jobs.
fn typical_gap(late: &[LateJob]) -> Option<u64> {
    let mut gaps: Vec<u64> = late
        .windows(2)
        .map(|pair| pair[1].release_ns.saturating_sub(pair[0].release_ns))
        .collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied()
}
