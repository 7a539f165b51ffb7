//! Pictures of the core's state, for reports and oracles.

use crate::id::ReservationId;
use crate::units::{Duration, FrameCount, PageCount};

/// A reservation's lists and frames at one moment. See ARCHITECTURE.md for the two laws that tie them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReservationView {
    /// Frames promised.
    pub capacity: FrameCount,
    /// Pages on the active list, owned or foreign.
    pub active: PageCount,
    /// Pages on the inactive list, owned or foreign.
    pub inactive: PageCount,
    /// Pages locked by this reservation.
    pub locked: PageCount,
    /// Frames free for the next fault.
    pub free: FrameCount,
    /// Frames being filled or written back.
    pub in_flight: FrameCount,
    /// Frames the pool owes (only under `none`).
    pub owed: FrameCount,
    /// Frames borrowed from the pool (only firm reservations).
    pub borrowed: FrameCount,
    /// Pages ever evicted from it because the frames under them were taken back.
    pub taken_back: u64,
    /// Frames of pages this reservation owns.
    pub owned: FrameCount,
    /// Frames on the conserved-page list.
    pub conserved: FrameCount,
    /// Frames that left the page lists: transient memory, device memory.
    pub outside: FrameCount,
    /// Of these, frames that were asked back and have not come yet.
    pub recalled: FrameCount,
    /// All frames held: owned + free + in flight + conserved + outside.
    pub held: FrameCount,
    /// The largest `held` so far.
    pub peak: FrameCount,
}

/// The pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolView {
    /// All frames the core manages.
    pub total: FrameCount,
    /// Frames held by nobody.
    pub free: FrameCount,
    /// Frames of pages on the global lists, and of pages nobody uses any more.
    pub used: FrameCount,
    /// Frames of the pool's pages being filled or written back.
    pub in_flight: FrameCount,
    /// Frames set aside for good, for devices: held outside of the core.
    pub outside: FrameCount,
    /// Frames promised to reservations.
    pub committed: FrameCount,
    /// Sum of all `held` plus `used` plus `in_flight` plus `outside`, the contract's `memory.used`.
    pub memory_used: FrameCount,
    /// The largest `memory_used` so far.
    pub memory_peak: FrameCount,
    /// Pages that were here before, and whose content is now in the store or the file only.
    pub away: PageCount,
    /// The most of them so far.
    pub away_peak: PageCount,
}

/// What happened to one task so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Faults on resident pages.
    pub soft_faults: u64,
    /// First touches filled with zeros.
    pub zero_fills: u64,
    /// Pages read back from a store.
    pub swap_ins: u64,
    /// Of these, pages the reservation still held when another's eviction took them.
    pub shared_swap_ins: u64,
    /// First reads of pages of a file.
    pub file_reads: u64,
    /// Copies on write.
    pub copies: u64,
    /// Write-permission faults.
    pub write_faults: u64,
    /// Pages granted without a fault, beside one that was faulted on; pages of files that were mapped already count
    /// again.
    pub ahead: u64,
    /// Pages read back beside one that was faulted on.
    pub read_ahead: u64,
    /// Pages taken from the lists of the task's holder by this task's faults.
    pub evictions: u64,
    /// Time between fault and resolution, all faults together.
    pub waited: Duration,
}

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// Never written, or its content was zero and dropped.
    Empty,
    /// In its store or file only.
    Stored,
    /// Being filled.
    Filling,
    /// In a frame.
    Resident,
    /// Evicted, its frame not yet free.
    Leaving,
}

/// On which of a reservation's lists a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceView {
    /// Active.
    Active,
    /// Inactive: unmapped, and the next to go if it is not touched.
    Inactive,
    /// Locked: it does not go.
    Locked,
}

/// One page at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageView {
    /// Where it is.
    pub state: PageState,
    /// Written since its fill.
    pub dirty: bool,
    /// The reservation that owns it, where one does.
    pub owner: Option<ReservationId>,
    /// Reservations that have it on their lists.
    pub sharers: u32,
    /// Reservations that lock it.
    pub lockers: u32,
}
