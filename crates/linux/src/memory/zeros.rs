//! Pages of zeros to copy from.

use super::BallastError;
use crate::{AddressRange, Errno, PAGE_SIZE};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Read-only memory whose every page is the kernel's page of zeros: copying from all of them reads the same 4 KiB,
/// which stay in the first cache, where as many pages of their own would push as much out of the second.
///
/// That page is never reclaimed, so that it needs no lock.
#[derive(Debug)]
pub struct Zeros {
    base: NonNull<c_void>,
    pages: usize,
}

// SAFETY: the mapping is plain memory of the process, owned by this value, with no tie to a thread.
unsafe impl Send for Zeros {}
// SAFETY: nobody can write the memory; shared references only give its addresses.
unsafe impl Sync for Zeros {}

impl Zeros {
    /// So many pages, at least one (Linux 5.14).
    ///
    /// # Errors
    /// [`BallastError::Map`].
    pub fn create(pages: usize) -> Result<Self, BallastError> {
        let refused = |errno| BallastError::Map { pages, errno };
        let length = pages.checked_mul(PAGE_SIZE).ok_or_else(|| refused(Errno::NOMEM))?;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE) };
        let base = NonNull::new(base.map_err(refused)?).ok_or_else(|| refused(Errno::NOMEM))?;
        let zeros = Self { base, pages };
        // Not the huge page of zeros, which is as large as many.
        match zeros.advise(Advice::LinuxNoHugepage) {
            // EINVAL: a kernel without huge pages.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(errno) => return Err(refused(errno)),
        }
        for advice in [Advice::LinuxDontFork, Advice::LinuxPopulateRead] {
            rustix::io::retry_on_intr(|| zeros.advise(advice)).map_err(refused)?;
        }
        Ok(zeros)
    }

    /// The length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The addresses of so many of them; `None` for none, and for more than there are.
    pub(crate) fn addresses(&self, pages: usize) -> Option<AddressRange> {
        let inside = pages <= self.pages;
        AddressRange::new(self.base.as_ptr().addr(), pages * PAGE_SIZE).filter(|_| inside)
    }

    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the range is this mapping, in which nothing is ever written.
        unsafe { rustix::mm::madvise(self.base.as_ptr(), self.pages * PAGE_SIZE, advice) }
    }
}

impl Drop for Zeros {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, to whose memory no reference is ever made.
        let result = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.pages * PAGE_SIZE) };
        debug_assert!(result.is_ok(), "munmap of an own mapping failed: {result:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::Zeros;
    use crate::PAGE_SIZE;

    #[test]
    fn so_many_pages_can_be_copied_from() {
        let zeros = Zeros::create(70).unwrap();
        assert_eq!(zeros.pages(), 70);
        assert_eq!(zeros.addresses(70).unwrap().length(), 70 * PAGE_SIZE);
        assert!(zeros.addresses(0).is_none() && zeros.addresses(71).is_none());
        assert!(Zeros::create(0).is_err());
    }
}
