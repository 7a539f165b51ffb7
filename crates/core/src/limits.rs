//! The sizes of all tables, fixed before the core is sealed, and the descriptions of reservations and objects.

use crate::error::SealError;
use crate::memory::Memory;
use crate::units::{FrameCount, PageCount, PageIndex};

/// Sizes of the core's tables. [`seal`](Self::seal) allocates them; nothing is allocated afterwards, and a full table
/// refuses.
///
/// ```
/// use freehold_core::limits::{Limits, ReservationKind, ReservationSpec};
/// use freehold_core::units::{FrameCount, PageCount};
///
/// let limits = Limits {
///     frames: FrameCount::new(64),
///     pages: PageCount::new(256),
///     reservations: 2,
///     objects: 2,
///     tasks: 4,
///     mappings: 4,
///     compared_pages: PageCount::ZERO,
///     shared_locks: PageCount::ZERO,
/// };
/// let mut memory = limits.seal()?;
/// let reservation = memory
///     .admit(ReservationSpec { capacity: FrameCount::new(48), kind: ReservationKind::Hard })
///     .expect("48 of 64 frames are free");
/// assert_eq!(memory.reservation(reservation).unwrap().free, FrameCount::new(48));
/// # Ok::<(), freehold_core::error::SealError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Frames in the pool, 1 to 2³⁰.
    pub frames: FrameCount,
    /// Pages of all objects together, 1 to 2³¹.
    pub pages: PageCount,
    /// Reservations at a time, 1 to 65,000.
    pub reservations: u16,
    /// Objects at a time, 1 to 65,000.
    pub objects: u16,
    /// Tasks at a time, 1 to 65,000.
    pub tasks: u16,
    /// Mappings at a time, 1 to 65,000.
    pub mappings: u16,
    /// Pages of objects under `none`, for which the core remembers whose pages another's eviction took.
    pub compared_pages: PageCount,
    /// Locked pages that another locker pays, at a time: n reservations that lock the same MS pages need (n − 1)·MS.
    pub shared_locks: PageCount,
}

impl Limits {
    /// Allocates the tables.
    ///
    /// # Errors
    /// [`SealError::BadLimit`] where a limit is zero or out of range, [`SealError::OutOfMemory`].
    pub fn seal(self) -> Result<Memory, SealError> {
        let bad = |limit| Err(SealError::BadLimit { limit });
        if self.frames.is_zero() || self.frames.get() > 1 << 30 {
            return bad("frames");
        }
        if self.pages.is_zero() || self.pages.get() > 1 << 31 {
            return bad("pages");
        }
        for (limit, value) in [
            ("reservations", self.reservations),
            ("objects", self.objects),
            ("tasks", self.tasks),
            ("mappings", self.mappings),
        ] {
            if value == 0 || value > 65_000 {
                return bad(limit);
            }
        }
        if self.compared_pages > self.pages {
            return bad("compared_pages");
        }
        Memory::new(self).ok_or(SealError::OutOfMemory)
    }
}

/// What a reservation does when its frames are exhausted (paper 000, section II.B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationKind {
    /// Never more than its frames.
    Hard,
    /// May borrow unreserved frames, which are taken back under pressure.
    Firm,
}

/// A reservation to admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationSpec {
    /// Frames promised, at least one.
    pub capacity: FrameCount,
    /// Hard or firm.
    pub kind: ReservationKind,
}

/// What an object's pages hold before they are first written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Zeros; meant for the tasks of one reservation.
    Private,
    /// Zeros; meant for the tasks of several.
    Shared,
    /// The content of a file, read on first touch.
    File,
}

/// How pages of an object that several reservations use are managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regime {
    /// Shared-Page Conservation, and Shared-Page Eviction Lock where pages are locked.
    Conserve,
    /// The paper's No-SP-Mgmt, `none`: any sharer may evict a page for all. For comparison only.
    Unmanaged,
}

/// An object to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectSpec {
    /// What it holds at first.
    pub kind: ObjectKind,
    /// Its size, at least one page.
    pub pages: PageCount,
    /// How sharing is managed, for the whole object.
    pub regime: Regime,
}

/// Pages `first` to `first + count`, the end excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// The first page.
    pub first: PageIndex,
    /// How many.
    pub count: PageCount,
}
