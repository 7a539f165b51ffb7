//! Table II: what shared-page management adds to allocating, freeing, mapping and unmapping a page.
//!
//! The paper counts cycles of a kernel, ours are instructions of the core (or nanoseconds where valgrind is missing),
//! so the numbers themselves are not compared: the ratios are. A page is freed as part of a fault that takes its frame
//! for another page; what freeing costs is that fault less one that finds a free frame.

use freehold_core::limits::Regime;
use freehold_scenario::results::ReproduceRow;

use super::Laboratory;
use super::{Experiment, Kind};
use crate::bench::callgrind::{self, Cost};
use crate::bench::operations::Operation;
use crate::bench::rounds::Samples;
use crate::bench::shared::Live;
use freehold_command::engine::{Engine, Placement};
use freehold_command::exit_status::Failure;
use freehold_command::output;

/// What is done, and the paper's cycles without and with shared-page management.
const PAPER: [(&str, f64, f64); 4] = [
    ("page allocation", 192.4, 202.3),
    ("page deallocation", 187.2, 188.6),
    ("mapping a shared page", 1220.4, 1417.3),
    ("unmapping a shared page", 834.3, 1059.7),
];
/// The bounds claimed: the paper's own ratios. Those of the first two are its remark that they are "almost the same".
const AT_MOST: [Option<f64>; 4] = [None, None, Some(1.16), Some(1.27)];
/// Pagers for the live times.
const PASSES: u32 = 8;

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "spc-table2",
    about: "what shared-page management adds to the cost of single operations",
    files: &[],
    kind: Kind::Scenarios,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let (none, unit) = counts(Regime::Unmanaged)?;
    let (spc, _) = counts(Regime::Conserve)?;
    let unit = format!("paper: cycles, ours: {unit}");
    let mut rows = Vec::new();
    for (at, (what, without, with)) in PAPER.into_iter().enumerate() {
        rows.push(shown(format!("{what}: none"), &unit, Some(without), none[at]));
        rows.push(shown(format!("{what}: spc"), &unit, Some(with), spc[at]));
        rows.push(ratio(what, with / without, spc[at] / none[at], AT_MOST[at]));
    }
    let session = laboratory.session();
    match (session.engine(), session.placement()) {
        (Engine::Sim, _) => {}
        (Engine::Live, Placement::Embedded) => rows.extend(live()?),
        (Engine::Live, Placement::Server) => output::note(
            "freehold: spc-table2: the times on real pages are of the pager in the faulting thread, so they are left \
             out with --placement server; `freehold bench --placement server` measures faults there. The core that \
             the instructions are counted of is the same in both places",
        ),
    }
    Ok(rows)
}

/// The four operations, and the unit.
fn counts(regime: Regime) -> Result<([f64; 4], &'static str), Failure> {
    let cost = |operation| callgrind::cost(operation, regime, false);
    let allocate: Cost = cost(Operation::Allocate)?;
    let replace = cost(Operation::Replace)?.value();
    let (map, unmap) = (cost(Operation::Map)?.value(), cost(Operation::Unmap)?.value());
    let first = allocate.value();
    Ok(([first, replace - first, map, unmap], allocate.unit()))
}

/// The medians of the same on real pages; freeing is not an event of its own there.
fn live() -> Result<Vec<ReproduceRow>, Failure> {
    let mut regimes = [(Regime::Unmanaged, "none"), (Regime::Conserve, "spc")]
        .map(|(regime, name)| Live::new().map(|live| (regime, name, live)));
    for _ in 0..PASSES {
        for (regime, _, live) in regimes.iter_mut().flatten() {
            live.pass(*regime)?;
        }
    }
    let mut rows = Vec::new();
    for found in regimes {
        let (_, name, live) = found?;
        let median = |samples: &Samples| samples.quantiles().p50;
        for (what, samples) in [
            ("page allocation", &live.first),
            ("mapping a shared page", &live.mapping),
            ("unmapping a shared page", &live.unmapping),
        ] {
            rows.push(shown(format!("{what}, live: {name}"), "ns", None, median(samples)));
        }
    }
    Ok(rows)
}

fn shown(what: String, unit: &str, paper: Option<f64>, ours: f64) -> ReproduceRow {
    ReproduceRow {
        what,
        paper,
        ours,
        interval: None,
        unit: unit.to_owned(),
        claim: "shown".to_owned(),
        holds: true,
    }
}

fn ratio(what: &str, paper: f64, ours: f64, at_most: Option<f64>) -> ReproduceRow {
    let row = shown(format!("{what}: spc / none"), "ratio", Some(paper), ours);
    // With debug assertions the core checks its books after every step, and that is what would be compared.
    let Some(bound) = at_most.filter(|_| !cfg!(debug_assertions)) else {
        return row;
    };
    ReproduceRow {
        claim: format!("at most {bound}"),
        holds: ours <= bound,
        ..row
    }
}
