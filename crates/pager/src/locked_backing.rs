//! A reservation's frames are there: what is promised but not in use is backed by locked frames of the pager's own.
//!
//! The *backing* is private memory whose first pages are resident, as many as reservations have free and conserved
//! frames (and frames being filled). Filling a page of an object takes a frame from the machine, so one is released
//! here, and dropping a page gives one back, so one is taken here. Both are done for a run of pages at a time: fills
//! may run ahead of the release by at most the size of the headroom; drops are made up for off the fault path, between
//! jobs.
//!
//! The *headroom* is a second one, with one frame for each task that may fault at the same time: released when the
//! machine has no frame for a fill, restored between jobs.
//!
//! Between the release of a frame here and its allocation there, somebody else may take it: see CAVEATS.md.

use crate::error::StartError;
use freehold_core::units::FrameCount;
use freehold_linux::Errno;
use freehold_linux::memory::LockedFrames;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering};

/// Fewest frames of headroom.
const LEAST_HEADROOM: usize = 16;

/// Frames that are promised but not in use, and headroom.
#[derive(Debug)]
pub(crate) struct LockedBacking {
    stock: LockedFrames,
    headroom: LockedFrames,
    headroom_size: usize,
    /// Resident pages of all objects, as the pager filled and dropped them.
    in_objects: AtomicUsize,
    /// Fills less drops since the stock was last looked at.
    behind: AtomicIsize,
    most_behind: AtomicIsize,
    headroom_used: AtomicU64,
}

impl LockedBacking {
    /// A backing that can back `frames`, empty at first, and headroom for `tasks`, there at once.
    pub(crate) fn new(frames: usize, tasks: usize) -> Result<Self, StartError> {
        let headroom_size = tasks.max(LEAST_HEADROOM);
        let headroom = LockedFrames::create(headroom_size)?;
        headroom
            .approach(headroom_size, headroom_size)
            .map_err(|errno| StartError::Headroom {
                frames: FrameCount::new(u32::try_from(headroom_size).unwrap_or(u32::MAX)),
                errno,
            })?;
        Ok(Self {
            stock: LockedFrames::create(frames.max(1))?,
            headroom,
            headroom_size,
            in_objects: AtomicUsize::new(0),
            behind: AtomicIsize::new(0),
            most_behind: AtomicIsize::new(0),
            headroom_used: AtomicU64::new(0),
        })
    }

    /// An object got a frame.
    pub(crate) fn note_filled(&self) {
        self.in_objects.fetch_add(1, Ordering::AcqRel);
        let behind = self.behind.fetch_add(1, Ordering::AcqRel) + 1;
        self.most_behind.fetch_max(behind, Ordering::Relaxed);
    }

    /// Objects lost `count` frames.
    pub(crate) fn note_dropped(&self, count: usize) {
        self.in_objects.fetch_sub(count, Ordering::AcqRel);
        self.behind
            .fetch_sub(isize::try_from(count).unwrap_or(isize::MAX), Ordering::AcqRel);
    }

    /// Whether so many frames were filled ahead that some must be released before the next fill.
    pub(crate) fn must_trim(&self) -> bool {
        self.behind.load(Ordering::Acquire) >= isize::try_from(LEAST_HEADROOM).unwrap_or(isize::MAX)
    }

    /// Whether the stock is off by enough to be worth a system call between two jobs.
    pub(crate) fn wants_adjustment(&self) -> bool {
        self.behind.load(Ordering::Acquire).unsigned_abs() >= LEAST_HEADROOM / 2
    }

    /// Releases what the stock has beyond its due, given all frames in use by the core's books.
    pub(crate) fn trim(&self, used: usize) -> Result<(), Errno> {
        let there = self.stock.held() + self.in_objects.load(Ordering::Acquire);
        // What is missing stays noted, for the next adjustment.
        self.behind
            .store(there.min(used).cast_signed() - used.cast_signed(), Ordering::Release);
        match there.saturating_sub(used) {
            0 => Ok(()),
            excess => self.stock.release(excess).map(drop),
        }
    }

    /// Makes the stock exactly what it should be, and the headroom whole. Not for the fault path.
    pub(crate) fn adjust(&self, used: usize) -> Result<(), Errno> {
        self.behind.store(0, Ordering::Release);
        let wanted = used.saturating_sub(self.in_objects.load(Ordering::Acquire));
        self.stock.approach(wanted, usize::MAX)?;
        self.headroom.approach(self.headroom_size, usize::MAX)?;
        Ok(())
    }

    /// Releases one frame of the headroom; false if there is none left.
    pub(crate) fn release_headroom(&self) -> bool {
        let released = self.headroom.release(1).is_ok_and(|released| released == 1);
        self.headroom_used.fetch_add(u64::from(released), Ordering::Relaxed);
        released
    }

    /// Frames of the stock, as the kernel counts them.
    pub(crate) fn resident(&self) -> Result<usize, Errno> {
        self.stock.resident()
    }

    /// Frames of the headroom, as the kernel counts them.
    pub(crate) fn headroom_resident(&self) -> Result<usize, Errno> {
        self.headroom.resident()
    }

    /// The farthest that fills ever ran ahead of the release.
    pub(crate) fn most_behind(&self) -> usize {
        self.most_behind.load(Ordering::Relaxed).max(0).unsigned_abs()
    }

    /// How often the headroom had to give a frame.
    pub(crate) fn headroom_used(&self) -> u64 {
        self.headroom_used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::LockedBacking;

    #[test]
    fn the_stock_follows_the_books() {
        let backing = LockedBacking::new(100, 4).unwrap();
        assert_eq!(backing.headroom_resident().unwrap(), 16);
        backing.adjust(40).unwrap();
        assert_eq!(backing.resident().unwrap(), 40);
        for _ in 0..16 {
            assert!(!backing.must_trim());
            backing.note_filled();
        }
        assert!(backing.must_trim());
        backing.trim(40).unwrap();
        assert_eq!(backing.resident().unwrap(), 24);
        assert!(!backing.must_trim());
        backing.note_dropped(10);
        assert!(backing.wants_adjustment());
        // A trim never takes frames.
        backing.trim(40).unwrap();
        assert_eq!(backing.resident().unwrap(), 24);
        backing.adjust(40).unwrap();
        assert_eq!(backing.resident().unwrap(), 34);
        assert_eq!(backing.most_behind(), 16);
    }

    #[test]
    fn the_headroom_is_spent_and_restored() {
        let backing = LockedBacking::new(1, 17).unwrap();
        let spent = std::iter::repeat_with(|| backing.release_headroom()).take_while(|&released| released);
        assert_eq!(spent.count(), 17);
        assert_eq!(backing.headroom_resident().unwrap(), 0);
        backing.adjust(0).unwrap();
        assert_eq!(backing.headroom_resident().unwrap(), 17);
        assert_eq!(backing.headroom_used(), 17);
    }
}
