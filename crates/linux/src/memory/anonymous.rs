//! Private memory of this process. This type makes no reference to it; whoever does answers for it.

use super::LockedFramesError;
use crate::{AddressRange, Errno, PAGE_SIZE, PageRange};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;

/// A mapping of absent pages, never huge ones, that neither children of a fork have nor core dumps.
#[derive(Debug)]
pub(super) struct Anonymous {
    base: NonNull<c_void>,
    pages: usize,
}

// SAFETY: the mapping is plain memory of the process, owned by this value, with no tie to a thread.
unsafe impl Send for Anonymous {}
// SAFETY: this type makes no reference to the memory; what shared references do are system calls that are safe to make
// concurrently.
unsafe impl Sync for Anonymous {}

impl Anonymous {
    /// Maps `pages`, at least one.
    ///
    /// # Errors
    /// [`LockedFramesError::Map`].
    pub(super) fn create(pages: usize, access: ProtFlags) -> Result<Self, LockedFramesError> {
        let refused = |errno| LockedFramesError::Map { pages, errno };
        let length = pages.checked_mul(PAGE_SIZE).ok_or_else(|| refused(Errno::NOMEM))?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, access, flags) };
        let base = NonNull::new(base.map_err(refused)?).ok_or_else(|| refused(Errno::NOMEM))?;
        let memory = Self { base, pages };
        for advice in [Advice::LinuxDontFork, Advice::LinuxDontDump, Advice::LinuxNoHugepage] {
            match memory.advise(memory.whole(), advice) {
                // EINVAL: a kernel without huge pages.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(refused(errno)),
            }
        }
        Ok(memory)
    }

    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    pub(super) fn whole(&self) -> PageRange {
        PageRange::new(0, self.pages)
    }

    /// The first byte of a page; past the end where there is none such.
    pub(super) fn start(&self, page: usize) -> *mut c_void {
        self.base.as_ptr().wrapping_byte_add(page * PAGE_SIZE)
    }

    /// The addresses of `range`; `None` if it is empty or leaves the mapping.
    pub(super) fn addresses(&self, range: PageRange) -> Option<AddressRange> {
        let inside = range.count() > 0 && range.fits(self.pages);
        inside.then(|| AddressRange::new(self.start(range.first()).addr(), range.count() * PAGE_SIZE))?
    }

    /// Whether the kernel says that a page has a frame.
    pub(super) fn is_resident(&self, page: usize) -> bool {
        let mut state = 0;
        // SAFETY: the call writes one byte, for one page; whose it is, is asked for by its address only.
        let asked = unsafe { libc::mincore(self.start(page), PAGE_SIZE, &raw mut state) };
        asked == 0 && state & 1 == 1
    }

    /// # Errors
    /// `INVAL` if the range is empty or leaves the mapping; the kernel's refusal.
    pub(super) fn advise(&self, range: PageRange, advice: Advice) -> Result<(), Errno> {
        let addresses = self.addresses(range).ok_or(Errno::INVAL)?;
        let start = self.start(range.first());
        // SAFETY: the range lies in this mapping. Callers advise content away only where nobody has a reference to it.
        rustix::io::retry_on_intr(|| unsafe { rustix::mm::madvise(start, addresses.length(), advice) })
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping; references to its memory borrow from what owns this value.
        let result = unsafe { rustix::mm::munmap(self.start(0), self.pages * PAGE_SIZE) };
        // At the limit of mappings one stays that the kernel has joined with its neighbours.
        debug_assert!(
            matches!(result, Ok(()) | Err(Errno::NOMEM)),
            "munmap of an own mapping failed: {result:?}"
        );
    }
}
