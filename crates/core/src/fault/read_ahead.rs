//! Swap read-ahead, as Linux has it (`vm.page-cluster`, proc(5)): pages around one that a task without a reservation
//! reads back from the store are read back with it.
//!
//! They take frames that are free and begin no eviction; batches of evictions, which a fault that finds no frame
//! begins as ever, are larger instead, so that some are left. Nobody waits for them, they are mapped nowhere, and the
//! task that touches one later has a soft fault. Reservations read nothing around: what is evicted from them depends
//! on their own accesses alone (law 0; but see [`crate::fault::runs`]). Pages of files are not meant: the kernel
//! reads those ahead.

use crate::index::{HolderIndex, PageNumber, TaskIndex};
use crate::limits::ObjectKind;
use crate::memory::Memory;

/// At most one in so many pages of the pool is evicted for what is read ahead.
const BATCH_SHARE: u32 = 8;

/// How many pages are read back together: a power of two, 1 to 64. Those are aligned to their number in their object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead(u32);

impl ReadAhead {
    /// The most pages together.
    pub(crate) const MOST: u32 = 64;
    /// Each page by itself.
    pub const NONE: Self = Self(1);

    /// So many together; `None` where that is no power of two, or above 64.
    #[must_use]
    pub const fn of(pages: u32) -> Option<Self> {
        if pages.is_power_of_two() && pages <= Self::MOST {
            Some(Self(pages))
        } else {
            None
        }
    }

    /// How many.
    #[must_use]
    pub const fn pages(self) -> u32 {
        self.0
    }
}

/// What is read back besides what is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// By tasks without a reservation.
    pub(crate) around: ReadAhead,
    /// By tasks with one: what follows in their runs.
    pub(crate) on: bool,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            around: ReadAhead::NONE,
            on: false,
        }
    }
}

impl Memory {
    /// From now on tasks without a reservation read back so many pages together.
    pub fn set_read_ahead(&mut self, read_ahead: ReadAhead) {
        self.reclaim.reading.around = read_ahead;
    }

    /// How many they read back together.
    #[must_use]
    pub fn read_ahead(&self) -> ReadAhead {
        self.reclaim.reading.around
    }

    /// The task waits for this page to be read back: those around it that are in the store come along. O(pages read
    /// together × sharers).
    pub(crate) fn read_around(&mut self, task: TaskIndex, page: PageNumber) {
        let wanted = self.tasks.at(task.slot()).is_some_and(|task| !task.restores);
        if self.reclaim.reading.around == ReadAhead::NONE || !wanted {
            return;
        }
        let (object, cluster) = (self.object_of(page), self.reclaim.reading.around.pages());
        if object.kind == ObjectKind::File {
            return;
        }
        let first = (page.0 - object.first) / cluster * cluster;
        let end = object.pages.min(first + cluster);
        let (start, mut taken) = (object.first, 0);
        for number in first..end {
            if !self.may_read_ahead() {
                break;
            }
            taken += u64::from(self.read_along(HolderIndex::POOL, PageNumber(start + number)));
        }
        if let Some(task) = self.tasks.at_mut(task.slot()) {
            task.counts.read_ahead += taken;
        }
    }

    /// Frames that the pool, which has so many pages, frees together so that some are there to read ahead into.
    pub(crate) fn read_ahead_batch(&self, pages: u32) -> u32 {
        if self.reclaim.reading.around == ReadAhead::NONE {
            return 0;
        }
        (2 * self.reclaim.reading.around.pages()).min(pages / BATCH_SHARE)
    }

    /// Whether the pool has a free frame that nobody waits for.
    fn may_read_ahead(&self) -> bool {
        let pool = self.pool();
        let promised = !self.credit.debtors.is_empty() || self.admission_reclaim.frames > 0;
        !promised && pool.held.free.len() > pool.claims.count()
    }
}
