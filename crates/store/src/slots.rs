//! What a store knows of each slot beside its bytes.

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
}

/// One row for each slot. A row is used by one transfer at a time; atomics only make that safe to share.
#[derive(Debug)]
pub(crate) struct SlotTable {
    marks: Box<[AtomicU8]>,
    sums: Box<[AtomicU64]>,
}

impl SlotTable {
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            marks: (0..slots).map(|_| AtomicU8::new(0)).collect(),
            sums: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(crate) fn contains(&self, slot: Slot) -> bool {
        slot.index() < self.marks.len()
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
