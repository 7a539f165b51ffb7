//! What can be done on this machine, from what was found.

use freehold_linux::probe::{Finding, Need, Status};
use serde::Serialize;

/// Something to be done, and whether it can be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Use {
    /// What.
    #[serde(rename = "use")]
    pub(super) name: &'static str,
    /// Whether nothing that it needs is missing.
    pub(super) possible: bool,
    /// The findings that it lacks.
    pub(super) missing: Vec<&'static str>,
}

/// What a live run needs besides what is required everywhere: it refuses a pool that is not there or cannot be locked.
const LIVE: [&str; 2] = ["available-memory", "locked-memory"];
/// What the server needs besides what every live run does.
const SERVER: [&str; 4] = ["userfaultfd", "userfaultfd-events", "memfd-seals", "peer-pidfd"];
/// What an unmodified program needs besides a server.
const PROGRAM: [&str; 4] = [
    "userfaultfd-event-fork",
    "userfaultfd-move",
    "c-library",
    "agent-library",
];

/// What devices need besides a server.
const DEVICES: [&str; 1] = ["device-sealing"];
/// What a mount needs.
const MOUNT: [&str; 2] = ["fuse", "file-leases"];
/// What a recording of file pages needs.
const RECORD: [&str; 1] = ["page-cache-tracepoints"];

const LIVE_RUN: &str = "freehold run --engine live";

/// Whether live runs are among the uses that are possible.
pub(super) fn live_run(uses: &[Use]) -> bool {
    uses.iter().any(|found| found.name == LIVE_RUN && found.possible)
}

/// Every use, in the order of what it needs.
pub(super) fn all(findings: &[Finding]) -> Vec<Use> {
    let required = findings.iter().filter(|finding| finding.need == Need::Required);
    let required: Vec<&'static str> = required.map(|finding| finding.name).collect();
    let live = [&required[..], &LIVE].concat();
    let server = [&required[..], &SERVER].concat();
    let program = [&server[..], &PROGRAM].concat();
    let devices = [&server[..], &DEVICES].concat();
    let mount = [&MOUNT[..], &DEVICES].concat();
    // In part is enough to run: what is required there works in its limited form.
    let is_absent = |finding: &Finding| finding.status == Status::Absent;
    let is_short = |finding: &Finding| !finding.is_present();
    vec![
        of(LIVE_RUN, lacking(findings, &live, is_absent)),
        of("freehold serve", lacking(findings, &server, is_short)),
        of("freehold exec", lacking(findings, &program, is_short)),
        of("tasks of class fifo", lacking(findings, &["sched-fifo"], is_short)),
        of(
            "tasks of class deadline",
            lacking(findings, &["sched-deadline"], is_short),
        ),
        of("freehold serve --devices", lacking(findings, &devices, is_short)),
        of("freehold mount", lacking(findings, &mount, is_short)),
        of("freehold cache record", lacking(findings, &RECORD, is_short)),
    ]
}

fn of(name: &'static str, missing: Vec<&'static str>) -> Use {
    let possible = missing.is_empty();
    Use {
        name,
        possible,
        missing,
    }
}

/// Which of `names` are not to be had.
fn lacking(findings: &[Finding], names: &[&'static str], is_short: impl Fn(&Finding) -> bool) -> Vec<&'static str> {
    let found = |name: &str| findings.iter().find(|finding| finding.name == name);
    let lacks = |name: &&'static str| found(name).is_none_or(&is_short);
    let mut missing: Vec<&'static str> = names.iter().copied().filter(lacks).collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &'static str, status: Status, need: Need) -> Finding {
        Finding {
            name,
            status,
            detail: String::new(),
            need,
            why: "",
            fix: "",
        }
    }

    /// Of live runs, a server, programs under it, and the two classes of tasks.
    fn possible(findings: &[Finding]) -> Vec<bool> {
        all(findings).iter().take(5).map(|found| found.possible).collect()
    }

    /// Of devices, mounts, recordings.
    fn possible_besides(findings: &[Finding]) -> Vec<bool> {
        all(findings).iter().skip(5).map(|found| found.possible).collect()
    }

    #[test]
    fn devices_need_a_server_and_mounts_do_not() {
        let mut findings = vec![finding("fuse", Status::Present, Need::Optional)];
        findings.push(finding("file-leases", Status::Present, Need::Optional));
        assert_eq!(possible_besides(&findings), [false, false, false]);
        findings.push(finding("device-sealing", Status::Present, Need::Recommended));
        assert_eq!(possible_besides(&findings), [false, true, false]);
        let server = LIVE.iter().chain(&SERVER);
        findings.extend(server.map(|name| finding(name, Status::Present, Need::Recommended)));
        assert_eq!(possible_besides(&findings), [true, true, false]);
        findings.push(finding("page-cache-tracepoints", Status::Present, Need::Optional));
        findings[0].status = Status::Absent;
        assert_eq!(possible_besides(&findings), [true, false, true]);
    }

    #[test]
    fn each_use_needs_what_the_one_before_needs_and_more() {
        let mut findings = vec![finding("memfd", Status::Present, Need::Required)];
        findings.extend(LIVE.map(|name| finding(name, Status::Present, Need::Recommended)));
        assert_eq!(possible(&findings), [true, false, false, false, false]);
        findings.push(finding("userfaultfd", Status::Limited, Need::Required));
        let others = SERVER.iter().skip(1);
        findings.extend(others.map(|name| finding(name, Status::Present, Need::Recommended)));
        assert_eq!(possible(&findings), [true, false, false, false, false]);
        assert_eq!(all(&findings)[1].missing, ["userfaultfd"]);
        findings[3].status = Status::Present;
        assert_eq!(possible(&findings), [true, true, false, false, false]);
        findings.extend(PROGRAM.map(|name| finding(name, Status::Present, Need::Optional)));
        findings.push(finding("sched-fifo", Status::Present, Need::Recommended));
        assert_eq!(possible(&findings), [true, true, true, true, false]);
        findings[0].status = Status::Absent;
        assert_eq!(possible(&findings), [false, false, false, true, false]);
        findings[0].status = Status::Present;
        findings[2].status = Status::Absent;
        assert_eq!(possible(&findings), [false, true, true, true, false]);
        assert!(!live_run(&all(&findings)));
    }
}
