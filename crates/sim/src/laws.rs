//! Broken laws, as found by the core's own check and by the simulator's independent oracles.

use std::fmt;

use freehold_scenario::results::{Laws, Violation};

/// Broken laws that are written out; further ones are only counted.
const KEPT: usize = 16;

/// What watches over a run, beside the core's own check of its books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Oracle {
    /// A page read back equals the page last written.
    Integrity,
    /// Each effect is legal where it comes: no mapping of a page that is not there, zap first and drop then.
    Effects,
    /// Frames in use never exceed the pool, and residency is what the core says.
    Frames,
    /// What the victim cache serves is what the file holds; no frame of a device holds a page.
    VictimCache,
    /// Every fault ends exactly once.
    Faults,
    /// Nobody waits for nothing.
    Liveness,
}

impl Oracle {
    /// The law that it watches. Faults and liveness are law 9's: nobody may wait without a bound.
    const fn law(self) -> u8 {
        match self {
            Self::Integrity | Self::Effects => 5,
            Self::Frames => 1,
            Self::VictimCache => 6,
            Self::Faults | Self::Liveness => 9,
        }
    }
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Integrity => "integrity",
            Self::Effects => "effects",
            Self::Frames => "frames",
            Self::Faults => "faults",
            Self::VictimCache => "victim cache",
            Self::Liveness => "liveness",
        })
    }
}

/// Collects the broken laws of a run.
#[derive(Debug, Default)]
pub(crate) struct LawBook {
    checked: u64,
    violations: Vec<Violation>,
    unwritten: u64,
}

impl LawBook {
    pub(crate) fn note_check(&mut self) {
        self.checked += 1;
    }

    pub(crate) fn report(&mut self, now: u64, oracle: Oracle, what: impl FnOnce() -> String) {
        self.note(now, oracle.law(), || format!("{oracle}: {}", what()));
    }

    pub(crate) fn note(&mut self, now: u64, law: u8, what: impl FnOnce() -> String) {
        if self.violations.len() < KEPT {
            self.violations.push(Violation {
                law,
                at_ns: now,
                what: what(),
            });
        } else {
            self.unwritten += 1;
        }
    }

    pub(crate) fn into_laws(mut self) -> Laws {
        if let Some(last) = self.violations.last_mut().filter(|_| self.unwritten > 0) {
            last.what.push_str(&format!(" (and {} more)", self.unwritten));
        }
        Laws {
            checked: self.checked,
            violations: self.violations,
        }
    }
}
