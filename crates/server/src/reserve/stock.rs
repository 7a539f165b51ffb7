//! Frames that are held: taken and released in batches, by one thread at a time.

use freehold_linux::memory::{Ballast, BallastError};
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::{Errno, PageRange};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Locked frames, the first pages of a ballast of their own.
#[derive(Debug)]
pub(super) struct Stock {
    memory: Ballast,
    /// Who changes it.
    pub(super) changing: PiMutex<()>,
    /// How many of the first pages are resident.
    held: AtomicUsize,
}

impl Stock {
    pub(super) fn new(pages: usize) -> Result<Self, BallastError> {
        Ok(Self {
            memory: Ballast::create(pages.max(1))?,
            changing: PiMutex::new(()),
            held: AtomicUsize::new(0),
        })
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// Comes nearer to `wanted` by at most `most` frames; the frames that have moved.
    pub(super) fn approach(&self, wanted: usize, most: usize) -> Result<usize, Errno> {
        let _changing = self.changing.lock();
        let (held, wanted) = (self.held(), wanted.min(self.memory.pages()));
        let count = held.abs_diff(wanted).min(most);
        if count == 0 {
            return Ok(0);
        }
        if wanted > held {
            self.memory.fill(PageRange::new(held, count))?;
            self.held.store(held + count, Ordering::SeqCst);
        } else {
            self.release(held, count)?;
        }
        Ok(count)
    }

    /// Releases up to `most` of what is beyond `wanted`; `None` where somebody else is about to change it.
    pub(super) fn shrink(&self, wanted: usize, most: usize) -> Result<Option<usize>, Errno> {
        let Some(_changing) = self.changing.try_lock() else {
            return Ok(None);
        };
        let held = self.held();
        let count = held.saturating_sub(wanted).min(most);
        if count > 0 {
            self.release(held, count)?;
        }
        Ok(Some(count))
    }

    fn release(&self, held: usize, count: usize) -> Result<(), Errno> {
        self.memory.release(PageRange::new(held - count, count))?;
        self.held.store(held - count, Ordering::SeqCst);
        Ok(())
    }

    pub(super) fn resident(&self) -> Result<u64, Errno> {
        self.memory.resident().map(|pages| pages as u64)
    }
}
