//! What a store knows of each slot beside its bytes.

use crate::error::{Damage, StoreError};
use crate::{Record, checksum};
use freehold_linux::memory::{LeaseCell, PageLease, zeroed};
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A place for one record, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u32);

impl Slot {
    /// The slot with this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.0)
    }
}

/// Marks of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u8);

impl Mark {
    /// The slot has a locked frame.
    pub(crate) const BACKED: Self = Self(1);
    /// The slot has a record.
    pub(crate) const PRESENT: Self = Self(2);
    /// The transfer under way is to fail.
    pub(crate) const STRUCK: Self = Self(4);
    /// The write under way is to be torn.
    pub(crate) const TORN: Self = Self(8);
    /// The transfer under way waited, or waits, for others.
    pub(crate) const QUEUED: Self = Self(16);
    /// The transfer under way is a write.
    pub(crate) const WRITE: Self = Self(32);
    /// The record is all zeros and takes no room.
    pub(crate) const ZEROS: Self = Self(64);
    /// Somebody hurries for the transfer under way.
    pub(crate) const HURRIED: Self = Self(128);
}

/// One row for each slot. A row is used by one transfer at a time; atomics only make that safe to share.
#[derive(Debug)]
pub(crate) struct SlotTable {
    marks: Box<[AtomicU8]>,
    sums: Box<[AtomicU64]>,
    /// The pages of transfers under way.
    loans: Box<[LeaseCell]>,
}

impl SlotTable {
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            marks: zeroed(slots as usize),
            sums: zeroed(slots as usize),
            loans: zeroed(slots as usize),
        }
    }

    /// # Errors
    /// [`StoreError::NoSuchSlot`].
    pub(crate) fn check(&self, slot: Slot) -> Result<(), StoreError> {
        if slot.index() < self.marks.len() {
            Ok(())
        } else {
            Err(StoreError::NoSuchSlot(slot))
        }
    }

    /// Keeps the page of the transfer that begins.
    pub(crate) fn keep(&self, slot: Slot, page: PageLease) {
        self.loans[slot.index()].put(page);
    }

    /// Hands the page of the transfer out.
    ///
    /// # Errors
    /// [`StoreError::NotUnderWay`].
    pub(crate) fn take(&self, slot: Slot) -> Result<PageLease, StoreError> {
        let loan = self.loans.get(slot.index()).ok_or(StoreError::NoSuchSlot(slot))?;
        loan.take().ok_or(StoreError::NotUnderWay(slot))
    }

    /// Whether a page read back from a slot is what was written to it.
    pub(crate) fn verify(&self, slot: Slot, record: &Record) -> Result<(), StoreError> {
        if checksum::of(slot.get(), record) == self.sum(slot) {
            return Ok(());
        }
        let damage = Damage::Checksum;
        Err(StoreError::Damaged { slot, damage })
    }

    /// Whether there is a record to read.
    pub(crate) fn require(&self, slot: Slot) -> Result<(), StoreError> {
        self.check(slot)?;
        if self.has(slot, Mark::PRESENT) {
            return Ok(());
        }
        let damage = Damage::Absent;
        Err(StoreError::Damaged { slot, damage })
    }

    pub(crate) fn has(&self, slot: Slot, mark: Mark) -> bool {
        self.marks[slot.index()].load(Ordering::Acquire) & mark.0 != 0
    }

    pub(crate) fn set(&self, slot: Slot, mark: Mark) {
        self.marks[slot.index()].fetch_or(mark.0, Ordering::AcqRel);
    }

    /// Takes the mark away; whether it was there.
    pub(crate) fn clear(&self, slot: Slot, mark: Mark) -> bool {
        self.marks[slot.index()].fetch_and(!mark.0, Ordering::AcqRel) & mark.0 != 0
    }

    pub(crate) fn sum(&self, slot: Slot) -> u64 {
        self.sums[slot.index()].load(Ordering::Acquire)
    }

    pub(crate) fn set_sum(&self, slot: Slot, sum: u64) {
        self.sums[slot.index()].store(sum, Ordering::Release);
    }
}
