//! Paper 002's future work: faults are injected into the time-sharing side, which is restarted, while the same program
//! runs in both spaces.

use std::fs;

use freehold_rtl::campaign::{self, Report, Toll};
use freehold_rtl::inject::Fault;
use freehold_scenario::results::ReproduceRow;

use freehold_command::exit_status::Failure;

use super::{Claim, Experiment, Kind, Laboratory, row};

const INJECTIONS: u32 = 1_000;
const SEED: u64 = 1;

/// The experiment.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rtl-faults",
    about: "1,000 faults of the time-sharing side: what of both spaces goes on, and whether it keeps its periods",
    files: &[],
    kind: Kind::LongPrograms,
    run,
};

fn run(_: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let directory = campaign::folder().map_err(|error| Failure::Run(format!("no folder for FIFOs: {error}")))?;
    let report = campaign::run(&directory, INJECTIONS, SEED);
    // It is in memory: what is left there would be lost memory.
    let _ = fs::remove_dir_all(directory.path());
    report
        .map(|report| rows(&report))
        .map_err(|error| Failure::Run(error.to_string()))
}

fn rows(report: &Report) -> Vec<ReproduceRow> {
    let mut rows: Vec<ReproduceRow> = report.faults.iter().flat_map(tolls).collect();
    let restarts = (
        "restarts of the time-sharing side",
        "times",
        report.restarts,
        Claim::Shown,
    );
    let counts = [restarts].into_iter().chain(periods(report)).chain(messages(report));
    rows.extend(counts.map(|(what, unit, ours, claim)| row(what, unit, None, Some(ours), claim)));
    rows
}

/// What is counted, in which unit, how often, and what is claimed of that.
type Count = (&'static str, &'static str, u64, Claim);

fn periods(report: &Report) -> [Count; 7] {
    let (missed, excused) = (report.missed, report.missed_with_reference);
    let faults = "page faults of the separate task, of any kind";
    [
        (
            "periods of the separate task",
            "periods",
            report.periods,
            Claim::AtLeast(1),
        ),
        (
            "missed, the reference thread on time",
            "periods",
            missed,
            Claim::Equal(0),
        ),
        ("missed, the reference late too", "periods", excused, Claim::Shown),
        ("looks at the task", "times", report.looks, Claim::Shown),
        (
            "looks with the reference late",
            "times",
            report.late_looks,
            Claim::Shown,
        ),
        (
            "looks that were judged",
            "times",
            report.judged_looks,
            Claim::AtLeast(1),
        ),
        (faults, "faults", report.page_faults, Claim::Shown),
    ]
}

fn messages(report: &Report) -> [Count; 5] {
    let (refused, said) = (report.corrupt_claims, report.corruption_said.into());
    [
        ("messages read", "messages", report.messages, Claim::AtLeast(1)),
        ("torn", "messages", report.torn, Claim::Equal(0)),
        (
            "duplicated or out of order",
            "messages",
            report.disordered,
            Claim::Equal(0),
        ),
        ("impossible claims refused", "claims", refused, Claim::AtLeast(1)),
        ("each said in the log", "0 or 1", said, Claim::Equal(1)),
    ]
}

fn tolls((fault, toll): (&Fault, &Toll)) -> [ReproduceRow; 3] {
    let counts = [
        ("injected", toll.injected, Claim::Shown),
        ("shared space ended", toll.shared_ended, Claim::Shown),
        ("separate space ended", toll.separate_ended, Claim::Equal(0)),
    ];
    counts.map(|(what, ours, claim)| row(format!("{fault:?}: {what}"), "times", None, Some(ours), claim))
}
