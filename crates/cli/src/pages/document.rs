//! The document of `freehold pages`; all counts are pages of 4 KiB.

use std::collections::BTreeMap;

use freehold_linux::resident::{Counts, Method, Pages, ProcessError, Resident};
use serde::Serialize;

/// Pages by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Kinds {
    /// In executable mappings.
    pub(crate) code: u64,
    /// In others.
    pub(crate) data: u64,
    /// Both.
    pub(crate) total: u64,
}

impl From<Pages> for Kinds {
    fn from(pages: Pages) -> Self {
        Self {
            code: pages.code,
            data: pages.data,
            total: pages.total(),
        }
    }
}

/// One process.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProcessPages {
    /// Its number.
    pub(crate) pid: u32,
    /// Its name.
    pub(crate) name: String,
    /// How its pages were counted: `frames` or `areas`.
    pub(crate) method: &'static str,
    /// Pages that no other process maps.
    pub(crate) private: Kinds,
    /// Pages that another process maps too.
    pub(crate) shared: Kinds,
    /// All.
    pub(crate) total: u64,
    /// Shared pages in a hundred.
    pub(crate) shared_percent: f64,
    /// Of all, pages in ranges registered with a userfaultfd.
    pub(crate) registered: u64,
    /// Pages in the kernel's swap, in no other count.
    pub(crate) swapped: u64,
    /// Mappings of the zero page, in no other count; null where they cannot be told.
    pub(crate) zero: Option<u64>,
    /// What is mapped, largest first, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) objects: Vec<ObjectPages>,
}

/// What a process has of one file, or of one kind of memory without.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ObjectPages {
    /// The kernel's name of it.
    pub(crate) name: String,
    /// Pages that no other process maps.
    pub(crate) private: Kinds,
    /// Pages that another process maps too.
    pub(crate) shared: Kinds,
}

/// A process that could not be looked at.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RefusedProcess {
    /// Its number.
    pub(crate) pid: u32,
    /// Why.
    pub(crate) reason: String,
}

/// The whole document.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct PagesDocument {
    /// In the order asked for.
    pub(crate) processes: Vec<ProcessPages>,
    /// Those that could not be looked at.
    pub(crate) refused: Vec<RefusedProcess>,
    /// Why frames could not be looked up one by one, where they could not.
    pub(crate) hindrance: Option<String>,
}

impl PagesDocument {
    /// Adds what was counted.
    pub(super) fn add(&mut self, pid: u32, name: String, resident: &Resident, with_objects: bool) {
        self.hindrance = self.hindrance.take().or_else(|| resident.hindrance.clone());
        let mut process = ProcessPages::new(pid, name, resident);
        if with_objects {
            process.objects = objects(resident);
        }
        self.processes.push(process);
    }

    /// Adds a process that could not be counted.
    pub(super) fn refuse(&mut self, pid: u32, error: &ProcessError) {
        let reason = error.to_string();
        self.refused.push(RefusedProcess { pid, reason });
    }

    /// How was counted, in a sentence.
    pub(super) fn how(&self) -> String {
        match &self.hindrance {
            None => "Counted frame by frame (/proc/PID/pagemap, /proc/kpagecount).".to_owned(),
            Some(why) => format!(
                "Counted from the kernel's sums (/proc/PID/smaps), where a page that one process maps twice is shared \
                 too: {why}."
            ),
        }
    }
}

impl ProcessPages {
    pub(crate) fn new(pid: u32, name: String, resident: &Resident) -> Self {
        let counts = resident.total();
        let frames = resident.method == Method::Frames;
        Self {
            pid,
            name,
            method: if frames { "frames" } else { "areas" },
            private: counts.private.into(),
            shared: counts.shared.into(),
            total: counts.resident(),
            shared_percent: percent(counts.shared.total(), counts.resident()),
            registered: counts.registered,
            swapped: counts.swapped,
            zero: frames.then_some(counts.zero),
            objects: Vec::new(),
        }
    }
}

/// To a tenth; 0 of nothing.
#[allow(clippy::cast_precision_loss, reason = "counts of pages are far below 2^53")]
fn percent(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => (part as f64 * 1000.0 / whole as f64).round() / 10.0,
    }
}

fn objects(resident: &Resident) -> Vec<ObjectPages> {
    let mut by_name: BTreeMap<&str, Counts> = BTreeMap::new();
    for (area, counts) in &resident.areas {
        let name = if area.name.is_empty() {
            "[anonymous]"
        } else {
            &area.name
        };
        *by_name.entry(name).or_default() += *counts;
    }
    let mut objects: Vec<(&str, Counts)> = by_name
        .into_iter()
        .filter(|(_, counts)| counts.resident() > 0)
        .collect();
    objects.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.resident()));
    let object = |(name, counts): (&str, Counts)| ObjectPages {
        name: name.to_owned(),
        private: counts.private.into(),
        shared: counts.shared.into(),
    };
    objects.into_iter().map(object).collect()
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn shares_are_to_a_tenth() {
        for (part, whole, expected) in [
            (777, 4643, 16.7),
            (1937, 4737, 40.9),
            (0, 7, 0.0),
            (3, 0, 0.0),
            (5, 5, 100.0),
        ] {
            assert!((percent(part, whole) - expected).abs() < 1e-9, "{part}/{whole}");
        }
    }
}
