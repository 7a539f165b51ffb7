//! Table III: total physical memory, from the books and from the kernel.

use freehold_scenario::results::ReproduceRow;

use super::files::file;
use super::{Claim, Laboratory, row};
use super::{Experiment, Kind};
use freehold_command::exit_status::Failure;

const PAGES_PER_MIB: u64 = 256;
const NONE: &str = "region.shm.sharing=none";
const SPEL: &str = "region.shm.sharing=spel";
const R1: &str = "reservation.r1.size=11MiB";
const R2: &str = "reservation.r2.size=11MiB";

/// Task set, policy, file, overrides, and the paper's total in MiB.
const CELLS: [(&str, &str, &str, &[&str], u64); 9] = [
    ("{tau1,tau1}", "none", "spc-table3-11.toml", &[NONE], 12),
    ("{tau1,tau1}", "spc", "spc-table3-11.toml", &[], 22),
    ("{tau1,tau1}", "spel", "spc-table3-11.toml", &[SPEL], 12),
    ("{tau2,tau2}", "none", "spc-table3-22.toml", &[NONE], 3),
    ("{tau2,tau2}", "spc", "spc-table3-22.toml", &[], 4),
    ("{tau2,tau2}", "spel", "spc-table3-22.toml", &[SPEL, R1, R2], 12),
    ("{tau1,tau2}", "none", "spc-table3-12.toml", &[NONE], 12),
    ("{tau1,tau2}", "spc", "spc-table3-12.toml", &[], 13),
    ("{tau1,tau2}", "spel", "spc-table3-12.toml", &[SPEL, R2], 12),
];

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "spc-table3",
    about: "total physical memory of three task sets under none, spc and spel",
    files: &[
        file!("spc-table3-11.toml"),
        file!("spc-table3-22.toml"),
        file!("spc-table3-12.toml"),
    ],
    kind: Kind::Scenarios,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let mut rows = Vec::new();
    for (tasks, policy, file, sets, mib) in CELLS {
        let memory = laboratory.run(file, sets)?.result.memory;
        let paper = mib * PAGES_PER_MIB;
        let cell = |what: &str, ours| row(what, "pages", Some(paper), ours, Claim::Equal(paper));
        rows.push(cell(&format!("{tasks} {policy}"), Some(memory.used)));
        rows.push(cell(
            &format!("{tasks} {policy}, measured"),
            Some(memory.resident_measured),
        ));
    }
    Ok(rows)
}
