//! Rows of a trace, whatever its format.

use freehold_core::units::PageIndex;

/// The most pages of one row: 64 GiB.
pub(super) const MOST_PAGES: u32 = 1 << 24;

/// Pages of a file that lie behind one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The file, numbered as it first appeared, or the trace's own number of an object.
    pub file: u64,
    /// The first page.
    pub first: PageIndex,
    /// How many: 1 to 2²⁴.
    pub count: u32,
}

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The pages were used.
    Access(Pages),
    /// The pages left the recorded machine's page cache: an eviction, unless the trace means a deletion by it.
    Delete(Pages),
    /// Nothing that a replay needs: pages that entered the recorded machine's page cache.
    Inform,
    /// From here on, until the next such row, pages are used for this: a program, a phase. No format has it.
    Mark {
        /// Its number, from 0.
        group: usize,
    },
    /// A device opens.
    Open {
        /// Its place among the devices.
        device: usize,
        /// Pages that it uses; 0: all.
        used: u32,
    },
    /// A device closes.
    Close {
        /// Its place among the devices.
        device: usize,
    },
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its line, or its number in a format without lines, from 1.
    pub number: u64,
    /// When, in microseconds, where the format says that.
    pub time: Option<u64>,
    /// What.
    pub event: Event,
}

/// A trace cannot be read. Displays as `line N: what is wrong`.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The trace's fault.
    #[error("line {number}: {message}")]
    Row {
        /// The line, from 1.
        number: u64,
        /// What is wrong, and what is expected.
        message: String,
    },
    /// The reader failed.
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
}

impl TraceError {
    pub(super) fn row(number: u64, message: impl Into<String>) -> Self {
        Self::Row {
            number,
            message: message.into(),
        }
    }
}
