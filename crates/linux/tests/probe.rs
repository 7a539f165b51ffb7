//! The probe tries everything and leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use freehold_linux::probe::{self, Need, Status};
use freehold_linux::sched;
use freehold_linux::{ThreadId, sched::allowed_cpus};
use std::collections::BTreeSet;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn sigbus_action() -> usize {
    // SAFETY: a zeroed sigaction is valid, and with a null new action the call only fills it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut action), 0);
        action.sa_sigaction
    }
}

#[test]
fn everything_is_tried_named_once_and_undone_and_impossible_wishes_are_absent() {
    let own = || sched::policy(ThreadId::current());
    let before = (descriptors(), sigbus_action(), allowed_cpus().unwrap(), own());
    let findings = probe::all(16 << 20);
    assert_eq!(before, (descriptors(), sigbus_action(), allowed_cpus().unwrap(), own()));
    for finding in &findings {
        println!(
            "{:24} {:8} {:?} {}",
            finding.name, finding.status, finding.need, finding.detail
        );
        assert!(!finding.why.is_empty() && !finding.fix.is_empty() && !finding.detail.is_empty());
    }
    let names: BTreeSet<_> = findings.iter().map(|finding| finding.name).collect();
    assert_eq!(names.len(), findings.len());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("freehold-probe"), "a probe's mapping is left");
    for finding in findings.iter().filter(|finding| !finding.is_present()) {
        println!(
            "NOT PRESENT HERE: {} ({}): {}",
            finding.name, finding.detail, finding.fix
        );
    }
    // The other tests of this crate need these, so they are there where this test is of use.
    assert!(probe::is_usable(&findings));

    // In the same test, because descriptors are counted above: more memory than can be mapped is absent, not a crash.
    let findings = probe::all(1 << 60);
    let locked = findings.iter().find(|finding| finding.name == "locked-memory").unwrap();
    assert_eq!((locked.status, locked.need), (Status::Absent, Need::Recommended));
    assert!(probe::is_usable(&findings));
}
