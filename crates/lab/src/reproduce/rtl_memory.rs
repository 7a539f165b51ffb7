//! What a reservation is for: page faults of a periodic real-time task beside a process that takes more memory than
//! there is, with its memory reserved and without; and the same of the pager's own placements.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use freehold_rtl::campaign;
use freehold_rtl::walk::{self, How, Walk};
use freehold_scenario::results::ReproduceRow;

use crate::bench::isolation::placements::{self, Placed};
use crate::bench::isolation::{group_beside_hog, hog_of};
use freehold_command::exit_status::Failure;
use freehold_command::process::own_executable;

use super::{Claim, Experiment, Kind, Laboratory, row};

/// Periods of the RTLinux program before it is looked at, once round its memory and more, and then.
const WARM_UP: u64 = 2100;
const PERIODS: u64 = 3000;
/// Jobs in each placement of the pager.
const JOBS: u32 = 2000;
/// The size of the reservation of `--reserve`, and room in the group of processes beside the hog's.
const RESERVATION: &str = "48MiB";
const ROOM: usize = 96 << 20;

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rtl-memory",
    about: "page faults of periodic tasks beside a hog, with reserved memory and without; both placements of the pager",
    files: &[],
    kind: Kind::LongPrograms,
    run,
};

/// Where the RTLinux program's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Pageable,
    Locked,
    Served,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Pageable => "separate, left to the kernel",
            Self::Locked => "separate",
            Self::Served => "separate, in a reservation of a server",
        }
    }

    fn is_reserved(self) -> bool {
        self != Self::Pageable
    }
}

fn run(_: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let mut rows = Vec::new();
    for source in [Source::Pageable, Source::Locked, Source::Served] {
        rows.extend(walked(source)?);
    }
    for placed in placements::measure_all(JOBS)? {
        rows.extend(job_rows(&placed));
    }
    Ok(rows)
}

/// The RTLinux program beside the hog, both in one memory cgroup.
fn walked(source: Source) -> Result<Vec<ReproduceRow>, Failure> {
    // Dropped in the other order: the group after everybody in it.
    let group = group_beside_hog(ROOM)?;
    let hog = hog_of(&group)?;
    let directory = campaign::folder().map_err(|error| Failure::Run(format!("no folder for FIFOs: {error}")))?;
    let how = How {
        launcher: launcher(&group.members(), source)?,
        pageable: source == Source::Pageable,
    };
    let before = hog.brought_back();
    let walk = walk::run(&directory, &how, WARM_UP, PERIODS);
    let brought_back = hog.brought_back() - before;
    // It is in memory: what is left there would be lost memory.
    let _ = fs::remove_dir_all(directory.path());
    let walk = walk.map_err(|error| Failure::Run(format!("{}: {error}", source.name())))?;
    Ok(walk_rows(source, &walk, brought_back).into())
}

/// Has the task's process join the group, and then be what it is. Its server is outside: the group is too small for it.
fn launcher(members: &Path, source: Source) -> Result<Vec<OsString>, Failure> {
    let mut words = Vec::new();
    if source == Source::Served {
        words.push(own_executable()?.into());
        words.extend(["exec", "--reserve", RESERVATION, "--"].map(OsString::from));
    }
    words.extend(["sh", "-c", "echo 0 > \"$0\" && exec \"$@\""].map(OsString::from));
    words.push(members.into());
    Ok(words)
}

fn walk_rows(source: Source, walk: &Walk, brought_back: u64) -> [ReproduceRow; 6] {
    let name = source.name();
    let shown = |what: &str, unit: &str, ours| row(format!("{name}: {what}"), unit, None, Some(ours), Claim::Shown);
    // Without a reservation some are wanted: else nothing would have been seen.
    let claim = if source.is_reserved() {
        Claim::Equal(0)
    } else {
        Claim::AtLeast(1)
    };
    let faults = |what: &str, ours| row(format!("{name}: {what}"), "faults", None, ours, claim);
    [
        shown("periods", "periods", walk.periods),
        faults("page faults in them (getrusage)", Some(walk.minor + walk.major)),
        faults("the kernel's events", walk.events),
        shown("faults that needed input", "faults", walk.major),
        shown("periods missed", "periods", walk.missed),
        row(
            format!("{name}: pages that the hog had back meanwhile"),
            "pages",
            None,
            Some(brought_back),
            Claim::AtLeast(1),
        ),
    ]
}

fn job_rows(placed: &Placed) -> [ReproduceRow; 4] {
    let (with, claim) = if placed.reserved {
        ("with", Claim::Equal(0))
    } else {
        ("without", Claim::Shown)
    };
    let name = format!("pager, {}, {with} a reservation", placed.placement);
    let row = |what: &str, unit, ours, claim| row(format!("{name}: {what}"), unit, None, ours, claim);
    [
        row(
            "the kernel's events of the first touches",
            "faults",
            placed.first_touches,
            Claim::AtLeast(placements::TOUCHED),
        ),
        row(
            "page faults in its jobs (getrusage)",
            "faults",
            Some(placed.faults),
            claim,
        ),
        row("the kernel's events", "faults", placed.events, claim),
        row(
            "pages of the sibling meanwhile",
            "pages",
            Some(placed.sibling),
            Claim::AtLeast(1),
        ),
    ]
}
