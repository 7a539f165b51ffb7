//! Frames that are held only to be given back when others need them.

use super::LockError;
use super::anonymous::Anonymous;
use crate::sys::check_int;
use crate::{Errno, PAGE_SIZE, PageRange};
use rustix::mm::{Advice, MlockFlags, ProtFlags};

/// Pages whose state is asked for with one system call.
const ASKED: usize = 4_096;

/// A ballast could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BallastError {
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

/// Locked private memory that nobody reads or writes: its pages have frames, or have not.
///
/// To take a frame and to give it back costs a third of what it costs in a locked mapping of a memory object. Huge
/// pages would cost a twentieth, but a hypervisor has often taken back what is free in such blocks, and each page of
/// them is then ten times as dear as a small one that somebody has just left.
#[derive(Debug)]
pub struct Ballast(Anonymous);

impl Ballast {
    /// A ballast of `pages` absent pages, at least one.
    ///
    /// # Errors
    /// See [`BallastError`].
    pub fn create(pages: usize) -> Result<Self, BallastError> {
        let ballast = Self(Anonymous::create(pages, ProtFlags::READ | ProtFlags::WRITE)?);
        ballast.lock()?;
        Ok(ballast)
    }

    fn lock(&self) -> Result<(), LockError> {
        let wanted = self.pages() * PAGE_SIZE;
        // SAFETY: the range is this mapping; locking changes no content.
        match unsafe { rustix::mm::mlock_with(self.0.start(0), wanted, MlockFlags::ONFAULT) } {
            Ok(()) => Ok(()),
            Err(Errno::NOMEM | Errno::PERM) => Err(LockError::Limit { wanted }),
            Err(errno) => Err(LockError::System(errno)),
        }
    }

    /// Its length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.0.pages()
    }

    /// Takes frames for the absent pages of `range`.
    ///
    /// # Errors
    /// `INVAL` if the range is empty or leaves the ballast; `NOMEM` if there is no frame to be had, and a part of the
    /// range may have some.
    pub fn fill(&self, range: PageRange) -> Result<(), Errno> {
        self.0.advise(range, Advice::LinuxPopulateWrite)
    }

    /// Gives back the frames of `range` (5.18).
    ///
    /// # Errors
    /// `INVAL` if the range is empty or leaves the ballast.
    pub fn release(&self, range: PageRange) -> Result<(), Errno> {
        self.0.advise(range, Advice::LinuxDontneedLocked)
    }

    /// Counts its pages in frames, as the kernel sees it.
    ///
    /// # Errors
    /// The kernel's refusal to tell.
    pub fn resident(&self) -> Result<usize, Errno> {
        let mut states = [0_u8; ASKED];
        let mut count = 0;
        for first in (0..self.pages()).step_by(ASKED) {
            let asked = ASKED.min(self.pages() - first);
            let start = self.0.start(first);
            // SAFETY: the range lies in this mapping, and `states` has a byte for each of its pages.
            check_int(unsafe { libc::mincore(start, asked * PAGE_SIZE, states.as_mut_ptr()) })?;
            count += states.iter().take(asked).filter(|state| **state & 1 != 0).count();
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::Ballast;
    use crate::PageRange;

    #[test]
    fn frames_are_taken_and_given_back_page_by_page() {
        let ballast = Ballast::create(100).unwrap();
        assert_eq!(ballast.resident().unwrap(), 0);
        ballast.fill(PageRange::new(0, 70)).unwrap();
        ballast.fill(PageRange::new(60, 20)).unwrap();
        assert_eq!(ballast.resident().unwrap(), 80);
        ballast.release(PageRange::new(50, 30)).unwrap();
        assert_eq!(ballast.resident().unwrap(), 50);
    }

    #[test]
    fn ranges_outside_are_refused() {
        let ballast = Ballast::create(8).unwrap();
        for range in [PageRange::new(0, 0), PageRange::new(0, 9), PageRange::new(8, 1)] {
            assert!(ballast.fill(range).is_err() && ballast.release(range).is_err());
        }
        assert!(Ballast::create(0).is_err() && Ballast::create(usize::MAX).is_err());
    }
}
