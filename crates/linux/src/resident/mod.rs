//! Which frames living processes have, and which of them others have too: the columns of the paper's Table I.
//!
//! Two ways of counting, and the result says which was used. *Frames* looks every page up (`/proc/PID/pagemap`) and
//! asks how often its frame is mapped (`/proc/kpagecount`), which takes CAP_SYS_ADMIN. *Areas* adds up what the kernel
//! sums for each mapping (`/proc/PID/smaps`), which takes the right to trace the process.
//!
//! What is counted: pages that are mapped and in memory, huge ones as the 4 KiB pages they consist of. The zero page is
//! nobody's frame and is counted apart, and so are pages in the kernel's swap. Allocates; not for the fault path.

mod area;
mod frames;
mod process;

pub use area::Area;
pub use process::{Process, ProcessError};

use std::ops::AddAssign;

/// Pages, by what they are mapped for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// In executable mappings.
    pub code: u64,
    /// In all others.
    pub data: u64,
}

impl Pages {
    /// Both together.
    #[must_use]
    pub fn total(self) -> u64 {
        self.code.saturating_add(self.data)
    }

    fn add(&mut self, executable: bool, pages: u64) {
        let place = if executable { &mut self.code } else { &mut self.data };
        *place = place.saturating_add(pages);
    }
}

impl AddAssign for Pages {
    fn add_assign(&mut self, other: Self) {
        self.add(true, other.code);
        self.add(false, other.data);
    }
}

/// How pages were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Each frame looked up. A frame that the process maps at several places counts once, and is shared only if another
    /// process maps it.
    Frames,
    /// The kernel's sums for each mapping. A frame that the process maps at two places counts twice, and as shared.
    Areas,
}

/// What a process, or one of its mappings, has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages that no other process maps.
    pub private: Pages,
    /// Pages that another process maps too.
    pub shared: Pages,
    /// Of both, pages in mappings that are registered with a userfaultfd: a pager manages them.
    pub registered: u64,
    /// Pages in the kernel's swap; in no other count.
    pub swapped: u64,
    /// Mappings of the zero page; in no other count. Counted only by [`Method::Frames`].
    pub zero: u64,
}

impl Counts {
    /// All resident pages.
    #[must_use]
    pub fn resident(&self) -> u64 {
        self.private.total().saturating_add(self.shared.total())
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.private += other.private;
        self.shared += other.shared;
        self.registered = self.registered.saturating_add(other.registered);
        self.swapped = self.swapped.saturating_add(other.swapped);
        self.zero = self.zero.saturating_add(other.zero);
    }
}

/// The pages of a process.
#[derive(Clone, Debug)]
pub struct Resident {
    /// How they were counted.
    pub method: Method,
    /// Why not by [`Method::Frames`], where that was not possible.
    pub hindrance: Option<String>,
    /// Its mappings in the order of addresses, each with what it has. A frame that several map is counted with the
    /// first of them, or with the first that is executable.
    pub areas: Vec<(Area, Counts)>,
}

impl Resident {
    /// All mappings together.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        for (_, counts) in &self.areas {
            total += *counts;
        }
        total
    }
}

/// Counts the pages of `process` as they are now. A process that runs meanwhile is counted while it changes. Mappings
/// of `aside` (a pager that maps what it serves) do not make a page shared; that is known only to [`Method::Frames`].
///
/// Cost: the kernel walks the page tables once for each way; `Frames` reads 8 bytes for each page of every mapping that
/// has any, and 8 for each frame.
///
/// # Errors
/// See [`ProcessError`].
pub fn count(process: &Process, aside: &[Process]) -> Result<Resident, ProcessError> {
    let areas = process.areas()?;
    match frames::count(process, &areas, aside) {
        Ok(counts) => Ok(Resident {
            method: Method::Frames,
            hindrance: None,
            areas: areas.into_iter().zip(counts).collect(),
        }),
        Err(frames::Hindrance::Process(error)) => Err(error),
        Err(frames::Hindrance::Rights(text)) => Ok(Resident {
            method: Method::Areas,
            hindrance: Some(text),
            areas: areas.into_iter().map(|area| (area.clone(), area.counts())).collect(),
        }),
    }
}

/// Counts by the kernel's sums alone ([`Method::Areas`]).
///
/// # Errors
/// See [`ProcessError`].
pub fn count_areas(process: &Process) -> Result<Resident, ProcessError> {
    let areas = process.areas()?;
    Ok(Resident {
        method: Method::Areas,
        hindrance: None,
        areas: areas.into_iter().map(|area| (area.clone(), area.counts())).collect(),
    })
}
