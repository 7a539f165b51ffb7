//! What a server has recorded of a run: names once, and rows of numbers that mean them by position.

use crate::reservation::ReservationCounts;
use freehold_core::effect::{Resolution, UnmapReason};
use serde::{Deserialize, Serialize};

/// The document. Times are nanoseconds of the monotonic clock. Names are by the server's slots, null where one is not
/// in use; events mean them by slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDocument {
    /// Tasks.
    pub tasks: Vec<Option<String>>,
    /// Memory objects.
    pub objects: Vec<Option<String>>,
    /// Reservations.
    pub reservations: Vec<Option<String>>,
    /// Faults, in the order in which they ended.
    pub faults: Vec<RecordedFault>,
    /// Pages that went from lists.
    pub evictions: Vec<RecordedEviction>,
    /// Reads from and writes to the store.
    pub transfers: Vec<RecordedTransfer>,
    /// Holds of the engine's lock.
    pub holds: Vec<RecordedHold>,
    /// The lists, ascending in time.
    pub samples: Vec<RecordedSample>,
    /// Events that found no room.
    pub lost: u64,
}

/// Task, from, to, object, page, how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFault(pub usize, pub u64, pub u64, pub usize, pub u32, pub FaultKind);

/// When, object, page, reservation (null: the pool's, or everybody's), why, whether it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedEviction(
    pub u64,
    pub usize,
    pub u32,
    pub Option<usize>,
    pub EvictionReason,
    pub bool,
);

/// From, to, object, page, whether it is written, whether it failed, the task that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedTransfer(
    pub u64,
    pub u64,
    pub usize,
    pub u32,
    pub bool,
    pub bool,
    pub Option<usize>,
);

/// From, to, the wait before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedHold(pub u64, pub u64, pub u64);

/// The lists at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSample {
    /// When.
    pub at: u64,
    /// Frames of the pool that nobody holds.
    pub pool_free: u64,
    /// Frames held by reservations, and pages of tasks without one.
    pub pool_used: u64,
    /// Which, and its numbers.
    pub reservations: Vec<(usize, ReservationCounts)>,
    /// Which, and its resident pages.
    pub objects: Vec<(usize, u64)>,
}

/// How a fault ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FaultKind {
    /// The page was resident.
    #[default]
    Soft,
    /// Filled with zeros.
    ZeroFill,
    /// Read back from the store.
    SwapIn,
    /// Read back from the store, and the task still held the page when another's eviction took it.
    SharedSwapIn,
    /// Read from a file for the first time.
    FileRead,
    /// Copied on write.
    Copy,
    /// Write permission granted.
    Upgrade,
    /// It could not be resolved.
    Failed,
}

impl From<Resolution> for FaultKind {
    fn from(resolution: Resolution) -> Self {
        match resolution {
            // Nothing is mapped ahead of a fault where every access is told.
            Resolution::Soft | Resolution::Ahead => Self::Soft,
            Resolution::ZeroFill => Self::ZeroFill,
            Resolution::SwapIn { shared: false } => Self::SwapIn,
            Resolution::SwapIn { shared: true } => Self::SharedSwapIn,
            Resolution::FileRead => Self::FileRead,
            Resolution::Copy => Self::Copy,
            Resolution::Upgrade => Self::Upgrade,
        }
    }
}

impl FaultKind {
    /// Every kind, in the order in which documents list them.
    pub const ALL: [Self; 8] = [
        Self::Soft,
        Self::ZeroFill,
        Self::SwapIn,
        Self::SharedSwapIn,
        Self::FileRead,
        Self::Copy,
        Self::Upgrade,
        Self::Failed,
    ];

    /// Its name for a reader.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft fault",
            Self::ZeroFill => "zero fill",
            Self::SwapIn => "swap-in",
            Self::SharedSwapIn => "shared swap-in",
            Self::FileRead => "file read",
            Self::Copy => "copy on write",
            Self::Upgrade => "write fault",
            Self::Failed => "failed fault",
        }
    }
}

/// Why a page went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EvictionReason {
    /// Moved to the inactive list.
    Demotion,
    /// Taken from its holder's lists for a frame.
    #[default]
    Eviction,
    /// Taken back from a firm reservation that had borrowed its frame.
    TakenBack,
    /// Its holder left the page.
    Left,
    /// A copy-on-write page got its own copy.
    Copied,
}

impl From<UnmapReason> for EvictionReason {
    fn from(reason: UnmapReason) -> Self {
        match reason {
            UnmapReason::Demotion => Self::Demotion,
            UnmapReason::Eviction => Self::Eviction,
            UnmapReason::TakenBack => Self::TakenBack,
            UnmapReason::Left => Self::Left,
            UnmapReason::Copied => Self::Copied,
        }
    }
}

impl EvictionReason {
    /// Every reason.
    pub const ALL: [Self; 5] = [
        Self::Demotion,
        Self::Eviction,
        Self::TakenBack,
        Self::Left,
        Self::Copied,
    ];

    /// Its name for a reader.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Demotion => "demotion",
            Self::Eviction => "eviction",
            Self::TakenBack => "taken back",
            Self::Left => "left",
            Self::Copied => "copied",
        }
    }
}
