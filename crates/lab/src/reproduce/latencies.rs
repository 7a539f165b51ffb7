//! Figures 3 and 4 of paper 002: how late a real-time thread runs beside what dirties caches and covers the kernel, in
//! the address space of the time-sharing side and in one of its own.
//!
//! The paper's two figures are two machines. This machine is one, so `rtl-fig3` shows where a wake-up's time goes, and
//! `rtl-fig4` asks the paper's question: is what separation adds less than what dirty caches add?

use std::time::Duration;

use freehold_latency::load::{self, Load};
use freehold_latency::report::{Percentiles, Report};
use freehold_latency::session;
use freehold_latency::settings::{Interval, Settings, Space};
use freehold_linux::{sched, tracefs};
use freehold_scenario::results::ReproduceRow;

use super::{Claim, Experiment, Kind, Laboratory, row};
use freehold_command::exit_status::Failure;
use freehold_command::process::own_executable;

/// How long each space of Figure 3 is measured.
const WHOLE: Duration = Duration::from_secs(30);
/// How long each part of a pair of Figure 4 is measured.
const PART: Duration = Duration::from_secs(2);
/// How many pairs.
const PAIRS: usize = 10;
/// The paper's worst cases on a Pentium Pro of 200 MHz, in nanoseconds: without and with address spaces.
const PENTIUM_PRO: [(Space, u64); 2] = [(Space::Shared, 21_000), (Space::Separate, 56_000)];

/// Figure 3.
pub(super) const FIG3: Experiment = Experiment {
    name: "rtl-fig3",
    about: "how late a real-time thread runs beside dirty caches and a busy kernel, and where that is lost",
    files: &[],
    kind: Kind::LongPrograms,
    run: fig3,
};

/// Runs Figure 3.
fn fig3(_: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    // Where it cannot be mounted the levels of the kernel are missing, and so are their rows.
    let _ = tracefs::mount_for_this_thread();
    let report = measure(WHOLE, &[Load::FloodKernel], true)?;
    let mut rows = Vec::new();
    for (space, worst) in PENTIUM_PRO {
        for level in ["irq", "hrtimer", "waking", "switch", "thread"] {
            let Some(us) = find(&report, space, Load::FloodKernel, level) else {
                continue;
            };
            let paper = (level == "thread").then_some(worst);
            let name = |what: &str| format!("{}: {level}, {what}", space.name());
            rows.push(row(name("median"), "ns", None, nanos(us.p50), Claim::Shown));
            rows.push(row(name("p99"), "ns", None, nanos(us.p99), Claim::Shown));
            rows.push(row(name("worst"), "ns", paper, nanos(us.max), Claim::Shown));
        }
    }
    let faults = report.rows.iter().map(|row| row.faults).sum();
    let what = "page faults of any kind while it was measured";
    rows.push(row(what, "faults", None, Some(faults), Claim::Equal(0)));
    Ok(rows)
}

/// Figure 4.
pub(super) const FIG4: Experiment = Experiment {
    name: "rtl-fig4",
    about: "what an address space of its own adds to a real-time thread's latency, beside what dirty caches add",
    files: &[],
    kind: Kind::LongPrograms,
    run: fig4,
};

/// Runs Figure 4.
fn fig4(_: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let mut reports = Vec::new();
    for _ in 0..PAIRS {
        reports.push(measure(PART, &[Load::Spin, Load::Flood], false)?);
    }
    let mut rows = Vec::new();
    for (name, quantile) in [("p50", Percentiles::median as Quantile), ("p90", Percentiles::ninth)] {
        let added = |one, other| median_difference(&reports, one, other, quantile);
        let flooding = added((Space::Shared, Load::Spin), (Space::Shared, Load::Flood));
        let separation = added((Space::Shared, Load::Flood), (Space::Separate, Load::Flood));
        let paper = (name == "p50").then_some(3000.0);
        rows.push(difference(
            format!("what flooding adds to {name}, shared"),
            None,
            flooding,
            None,
        ));
        rows.push(difference(
            format!("what separation adds to {name}, beside a flood"),
            paper,
            separation,
            Some(flooding),
        ));
    }
    Ok(rows)
}

type Quantile = fn(&Percentiles) -> f64;

fn measure(duration: Duration, loads: &[Load], events: bool) -> Result<Report, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Run(error.to_string());
    let interval = Interval::between(Duration::from_millis(2), Duration::from_millis(30));
    let cpus = sched::allowed_cpus().map_err(|error| failed(&error))?;
    let settings = Settings {
        priority: 80,
        interval: interval.map_err(|error| failed(&error))?,
        duration,
        cpu: cpus.last().copied().unwrap_or(0),
        spaces: vec![Space::Shared, Space::Separate],
        loads: loads.to_vec(),
        peer: false,
        bound: 1000,
    };
    let itself = own_executable()?;
    let process = |load| load::command(&itself, load, settings.cpu);
    session::measure(&settings, events, process).map_err(|error| failed(&error))
}

fn find(report: &Report, space: Space, load: Load, level: &str) -> Option<Percentiles> {
    let named =
        |row: &&freehold_latency::report::Row| (row.space, row.load, row.level) == (space.name(), load.name(), level);
    report.rows.iter().find(named).map(|row| row.us)
}

/// The median over all reports of how much more the second is than the first, in nanoseconds.
fn median_difference(reports: &[Report], first: (Space, Load), second: (Space, Load), quantile: Quantile) -> f64 {
    let of = |report, (space, load)| find(report, space, load, "thread").map(|us| quantile(&us));
    let each = reports
        .iter()
        .filter_map(|report| Some(of(report, second)? - of(report, first)?));
    let mut each: Vec<_> = each.collect();
    each.sort_by(f64::total_cmp);
    match each.len() {
        0 => f64::NAN,
        count => (each[(count - 1) / 2] + each[count / 2]) / 2.0 * 1000.0,
    }
}

/// A row of a difference, which may be below nothing.
fn difference(what: String, paper: Option<f64>, ours: f64, at_most: Option<f64>) -> ReproduceRow {
    ReproduceRow {
        what,
        paper,
        ours,
        interval: None,
        unit: "ns".to_owned(),
        claim: at_most.map_or("holds", |_| "below what flooding adds").to_owned(),
        holds: at_most.map_or(ours.is_finite(), |bound| ours < bound),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "microseconds of a histogram, at most 10^8"
)]
fn nanos(us: f64) -> Option<u64> {
    us.is_finite().then_some((us * 1000.0) as u64)
}
