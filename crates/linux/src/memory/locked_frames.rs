//! Frames that are held only to be given back when others need them: taken and released in batches, by one thread at a
//! time.

use super::LockError;
use super::anonymous::Anonymous;
use crate::pi_mutex::PiMutex;
use crate::sys::check_int;
use crate::{Errno, PAGE_SIZE, PageRange};
use rustix::mm::{Advice, MlockFlags, ProtFlags};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pages whose state is asked for with one system call.
const ASKED: usize = 4_096;

/// Memory that is to hold frames, or zeros, could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockedFramesError {
    /// The kernel's refusal of address space (`NOMEM`), or the caller's request for none of it.
    #[error("address space for {pages} pages could not be had: {errno}")]
    Map {
        /// What was asked for.
        pages: usize,
        /// The refusal.
        errno: Errno,
    },
    /// The lock.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// Locked private memory that nobody reads or writes: its first pages have frames, as many as are *held*.
///
/// To take a frame and to give it back costs a third of what it costs in a locked mapping of a memory object. Huge
/// pages would cost a twentieth, but a hypervisor has often taken back what is free in such blocks, and each page of
/// them is then ten times as dear as a small one that somebody has just left.
#[derive(Debug)]
pub struct LockedFrames {
    memory: Anonymous,
    /// Who changes how many are held.
    changing: PiMutex<()>,
    held: AtomicUsize,
}

impl LockedFrames {
    /// Room for `pages` frames, at least one; none is held.
    ///
    /// # Errors
    /// See [`LockedFramesError`].
    pub fn create(pages: usize) -> Result<Self, LockedFramesError> {
        let frames = Self {
            memory: Anonymous::create(pages, ProtFlags::READ | ProtFlags::WRITE)?,
            changing: PiMutex::new(()),
            held: AtomicUsize::new(0),
        };
        frames.lock()?;
        Ok(frames)
    }

    fn lock(&self) -> Result<(), LockError> {
        let wanted = self.memory.pages() * PAGE_SIZE;
        // SAFETY: the range is this mapping; locking changes no content.
        match unsafe { rustix::mm::mlock_with(self.memory.start(0), wanted, MlockFlags::ONFAULT) } {
            Ok(()) => Ok(()),
            Err(Errno::NOMEM | Errno::PERM) => Err(LockError::Limit { wanted }),
            Err(errno) => Err(LockError::System(errno)),
        }
    }

    /// Frames held, by its own books.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// Comes nearer to `wanted` frames, or to as many as there is room for, by at most `most` frames in one system
    /// call; how many frames were taken or released. Waits for whoever else changes it.
    ///
    /// # Errors
    /// The kernel's refusal, `NOMEM` where no frame is to be had. As many are held as before.
    pub fn approach(&self, wanted: usize, most: usize) -> Result<usize, Errno> {
        let _changing = self.changing.lock();
        let (held, wanted) = (self.held(), wanted.min(self.memory.pages()));
        let count = held.abs_diff(wanted).min(most);
        if count > 0 && wanted > held {
            self.memory
                .advise(PageRange::new(held, count), Advice::LinuxPopulateWrite)?;
            self.held.store(held + count, Ordering::SeqCst);
            return Ok(count);
        }
        self.give_back(held, count)
    }

    /// Releases up to `most` frames; how many. Waits for whoever else changes it.
    ///
    /// # Errors
    /// The kernel's refusal. As many are held as before.
    pub fn release(&self, most: usize) -> Result<usize, Errno> {
        let _changing = self.changing.lock();
        let held = self.held();
        self.give_back(held, held.min(most))
    }

    /// Releases up to `most` of the frames beyond `wanted`; `None` where somebody else is about to change it. Never
    /// waits.
    ///
    /// # Errors
    /// The kernel's refusal. As many are held as before.
    pub fn shrink(&self, wanted: usize, most: usize) -> Result<Option<usize>, Errno> {
        let Some(_changing) = self.changing.try_lock() else {
            return Ok(None);
        };
        let held = self.held();
        self.give_back(held, held.saturating_sub(wanted).min(most)).map(Some)
    }

    /// Gives back the last `count` frames (5.18).
    fn give_back(&self, held: usize, count: usize) -> Result<usize, Errno> {
        if count > 0 {
            let last = PageRange::new(held - count, count);
            self.memory.advise(last, Advice::LinuxDontneedLocked)?;
            self.held.store(held - count, Ordering::SeqCst);
        }
        Ok(count)
    }

    /// For tests of its users: does something while nobody else can change how many are held.
    #[doc(hidden)]
    pub fn while_changing<R>(&self, work: impl FnOnce() -> R) -> R {
        let _changing = self.changing.lock();
        work()
    }

    /// Counts the frames, as the kernel sees it.
    ///
    /// # Errors
    /// The kernel's refusal to tell.
    pub fn resident(&self) -> Result<usize, Errno> {
        let mut states = [0_u8; ASKED];
        let mut count = 0;
        for first in (0..self.memory.pages()).step_by(ASKED) {
            let asked = ASKED.min(self.memory.pages() - first);
            let start = self.memory.start(first);
            // SAFETY: the range lies in this mapping, and `states` has a byte for each of its pages.
            check_int(unsafe { libc::mincore(start, asked * PAGE_SIZE, states.as_mut_ptr()) })?;
            count += states.iter().take(asked).filter(|state| **state & 1 != 0).count();
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::LockedFrames;

    #[test]
    fn frames_are_taken_and_given_back_from_the_end() {
        let frames = LockedFrames::create(100).unwrap();
        assert_eq!((frames.held(), frames.resident().unwrap()), (0, 0));
        assert_eq!(frames.approach(80, 70), Ok(70));
        assert_eq!(frames.approach(80, 70), Ok(10));
        assert_eq!((frames.held(), frames.resident().unwrap()), (80, 80));
        assert_eq!(frames.approach(60, 5), Ok(5));
        assert_eq!(frames.shrink(50, usize::MAX), Ok(Some(25)));
        assert_eq!(frames.shrink(50, usize::MAX), Ok(Some(0)));
        assert_eq!(frames.release(20), Ok(20));
        assert_eq!((frames.held(), frames.resident().unwrap()), (30, 30));
        assert_eq!(frames.release(usize::MAX), Ok(30));
        assert_eq!(frames.approach(usize::MAX, usize::MAX), Ok(100));
        assert_eq!(frames.resident().unwrap(), 100);
    }

    #[test]
    fn who_finds_somebody_else_at_it_does_not_wait() {
        let frames = LockedFrames::create(4).unwrap();
        frames.approach(4, 4).unwrap();
        frames.while_changing(|| assert_eq!(frames.shrink(0, 4), Ok(None)));
        assert_eq!(frames.shrink(0, 4), Ok(Some(4)));
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        assert!(LockedFrames::create(0).is_err() && LockedFrames::create(usize::MAX).is_err());
    }
}
