//! Frames that are held only to be given back when others need them.

use super::LockError;
use crate::sys::check_int;
use crate::{Errno, PAGE_SIZE, PageRange};
use rustix::mm::{Advice, MapFlags, MlockFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;

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
pub struct Ballast {
    base: NonNull<c_void>,
    pages: usize,
}

// SAFETY: the mapping is plain memory of the process, owned by this value, with no tie to a thread.
unsafe impl Send for Ballast {}
// SAFETY: nothing reads or writes the memory; what shared references do are system calls that are safe to make
// concurrently.
unsafe impl Sync for Ballast {}

impl Ballast {
    /// A ballast of `pages` absent pages, at least one.
    ///
    /// # Errors
    /// See [`BallastError`].
    pub fn create(pages: usize) -> Result<Self, BallastError> {
        let refused = |errno| BallastError::Map { pages, errno };
        let length = pages.checked_mul(PAGE_SIZE).ok_or_else(|| refused(Errno::NOMEM))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, access, flags) };
        let base = NonNull::new(base.map_err(refused)?).ok_or_else(|| refused(Errno::NOMEM))?;
        let ballast = Self { base, pages };
        for advice in [Advice::LinuxDontFork, Advice::LinuxDontDump, Advice::LinuxNoHugepage] {
            match ballast.advise(PageRange::new(0, pages), advice) {
                // EINVAL: a kernel without huge pages.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(refused(errno)),
            }
        }
        ballast.lock()?;
        Ok(ballast)
    }

    fn lock(&self) -> Result<(), LockError> {
        let wanted = self.pages * PAGE_SIZE;
        // SAFETY: the range is this mapping; locking changes no content.
        match unsafe { rustix::mm::mlock_with(self.base.as_ptr(), wanted, MlockFlags::ONFAULT) } {
            Ok(()) => Ok(()),
            Err(Errno::NOMEM | Errno::PERM) => Err(LockError::Limit { wanted }),
            Err(errno) => Err(LockError::System(errno)),
        }
    }

    /// Its length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Takes frames for the absent pages of `range`.
    ///
    /// # Errors
    /// `INVAL` if the range is empty or leaves the ballast; `NOMEM` if there is no frame to be had, and a part of the
    /// range may have some.
    pub fn fill(&self, range: PageRange) -> Result<(), Errno> {
        rustix::io::retry_on_intr(|| self.advise(range, Advice::LinuxPopulateWrite))
    }

    /// Gives back the frames of `range` (5.18).
    ///
    /// # Errors
    /// `INVAL` if the range is empty or leaves the ballast.
    pub fn release(&self, range: PageRange) -> Result<(), Errno> {
        self.advise(range, Advice::LinuxDontneedLocked)
    }

    /// Counts its pages in frames, as the kernel sees it.
    ///
    /// # Errors
    /// The kernel's refusal to tell.
    pub fn resident(&self) -> Result<usize, Errno> {
        let mut states = [0_u8; ASKED];
        let mut count = 0;
        for first in (0..self.pages).step_by(ASKED) {
            let asked = ASKED.min(self.pages - first);
            let start = self.base.as_ptr().wrapping_byte_add(first * PAGE_SIZE);
            // SAFETY: the range lies in this mapping, and `states` has a byte for each of its pages.
            check_int(unsafe { libc::mincore(start, asked * PAGE_SIZE, states.as_mut_ptr()) })?;
            count += states.iter().take(asked).filter(|state| **state & 1 != 0).count();
        }
        Ok(count)
    }

    fn advise(&self, range: PageRange, advice: Advice) -> Result<(), Errno> {
        if range.count() == 0 || !range.fits(self.pages) {
            return Err(Errno::INVAL);
        }
        let start = self.base.as_ptr().wrapping_byte_add(range.first() * PAGE_SIZE);
        // SAFETY: the range lies in this mapping, whose content nobody reads.
        unsafe { rustix::mm::madvise(start, range.count() * PAGE_SIZE, advice) }
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, to whose memory no reference is ever made.
        let result = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.pages * PAGE_SIZE) };
        debug_assert!(result.is_ok(), "munmap of an own mapping failed: {result:?}");
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
