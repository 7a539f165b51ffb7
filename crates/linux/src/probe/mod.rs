//! What this machine can do, found out by trying it on a tiny case.
//!
//! Nothing is judged by the kernel's version. Everything tried is undone: memory is unmapped, descriptors closed, and
//! policies are tried in threads that end. No signal handler is touched. Allocates; not for the fault path.

mod devices;
mod library;
mod memory;
mod scheduling;
mod server;
mod system;
mod transfer;
mod trial;

use std::fmt;

/// Whether something works here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It works.
    Present,
    /// It works in part; the detail says which.
    Limited,
    /// It does not work; the detail says what happened.
    Absent,
}

/// What Freehold loses without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// Live runs are impossible.
    Required,
    /// A guarantee is weaker or a feature is replaced by a slower one.
    Recommended,
    /// Only some features use it.
    Optional,
}

/// One thing tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A stable short name.
    pub name: &'static str,
    /// Whether it works.
    pub status: Status,
    /// What was observed.
    pub detail: String,
    /// How much it matters.
    pub need: Need,
    /// What it is for.
    pub why: &'static str,
    /// What to do if it is limited or absent.
    pub fix: &'static str,
}

/// Tries everything. `wanted_locked` is how many bytes of memory are to be locked.
#[must_use]
pub fn all(wanted_locked: usize) -> Vec<Finding> {
    let mut findings = vec![system::kernel()];
    findings.extend(memory::userfault());
    findings.push(memory::memfd());
    findings.push(memory::cachestat());
    findings.push(memory::locked_zap());
    findings.push(memory::lock_limit(wanted_locked));
    findings.extend(scheduling::all());
    findings.push(transfer::io_uring());
    findings.push(system::shmem_huge_pages());
    findings.push(system::huge_pages());
    findings.push(system::swap());
    findings.push(system::overcommit());
    findings.push(system::memory_limit(wanted_locked));
    findings.push(system::seccomp());
    findings.extend(server::all());
    findings.push(library::c_library());
    findings.extend(devices::all());
    findings
}

/// Whether nothing that is required is absent.
#[must_use]
pub fn is_usable(findings: &[Finding]) -> bool {
    !findings
        .iter()
        .any(|finding| finding.need == Need::Required && finding.status == Status::Absent)
}

impl Finding {
    /// Whether it works in full.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.status == Status::Present
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Present => "present",
            Self::Limited => "limited",
            Self::Absent => "absent",
        })
    }
}

/// What a thing is for and how to get it, before it is tried.
struct Item {
    name: &'static str,
    need: Need,
    why: &'static str,
    fix: &'static str,
}

impl Item {
    fn found(&self, status: Status, detail: impl Into<String>) -> Finding {
        let Self { name, need, why, fix } = *self;
        Finding {
            name,
            status,
            detail: detail.into(),
            need,
            why,
            fix,
        }
    }

    /// Present with what the trial observed, or absent with what went wrong.
    fn tried(&self, trial: Result<String, String>) -> Finding {
        match trial {
            Ok(detail) => self.found(Status::Present, detail),
            Err(detail) => self.found(Status::Absent, detail),
        }
    }
}
