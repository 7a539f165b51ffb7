//! A shared mapping of a memory object.

use super::Memfd;
use crate::{AddressRange, Errno, PAGE_SIZE, PageRange};
use rustix::mm::{Advice, MapFlags, MlockFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;

/// What a mapping may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
    /// Reading, of an object whose descriptor is open for reading only. Such a shared mapping cannot be registered with
    /// a userfaultfd, so the mapping is private; as nothing writes through it, its frames are the object's own.
    ReadPrivately,
}

/// An object could not be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The caller's mistake: the range is empty or leaves the object.
    #[error("the range is empty or leaves the object")]
    OutOfBounds,
    /// The kernel's refusal: no address space (`NOMEM`), or the descriptor is not open for the access (`ACCES`).
    #[error("the object could not be mapped: {0}")]
    System(Errno),
}

/// A mapping could not be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The limit on locked memory is too low.
    #[error("locking {wanted} bytes exceeds the limit on locked memory: raise RLIMIT_MEMLOCK or grant CAP_IPC_LOCK")]
    Limit {
        /// How many bytes were to be locked.
        wanted: usize,
    },
    /// Some other refusal.
    #[error("memory could not be locked: {0}")]
    System(Errno),
}

/// A mapping of pages of a [`Memfd`] that shares its frames, unmapped on drop. Pages are counted from the start of
/// the mapping.
///
/// Children of a fork do not have it (they would map it unregistered and read holes as zeros) unless that is
/// [allowed](Self::let_children_have), and it never uses huge pages. The memory is reached through raw pointers only:
/// its pages come and go.
#[derive(Debug)]
pub struct SharedMapping {
    base: NonNull<u8>,
    pages: usize,
    locked: bool,
}

// SAFETY: the mapping is plain memory of the process, owned by this value, with no tie to a thread.
unsafe impl Send for SharedMapping {}
// SAFETY: through a shared reference it hands out addresses and makes system calls that are safe to make concurrently;
// accesses through raw pointers are the business of whoever makes them.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps the pages `range` of `object`.
    ///
    /// # Errors
    /// See [`MapError`].
    pub fn new(object: &Memfd, range: PageRange, access: Access) -> Result<Self, MapError> {
        if range.count() == 0 || !range.fits(object.pages()) {
            return Err(MapError::OutOfBounds);
        }
        let (offset, _) = range.bytes().ok_or(MapError::OutOfBounds)?;
        let (protection, flags) = match access {
            Access::Read => (ProtFlags::READ, MapFlags::SHARED),
            Access::ReadWrite => (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED),
            Access::ReadPrivately => (ProtFlags::READ, MapFlags::PRIVATE),
        };
        let length = range.count() * PAGE_SIZE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, flags, object, offset) }
            .map_err(MapError::System)?;
        let base = NonNull::new(base.cast()).ok_or(MapError::System(Errno::NOMEM))?;
        let mapping = Self {
            base,
            pages: range.count(),
            locked: false,
        };
        mapping
            .advise(mapping.whole(), Advice::LinuxDontFork)
            .map_err(MapError::System)?;
        match mapping.advise(mapping.whole(), Advice::LinuxNoHugepage) {
            // EINVAL: a kernel without huge pages.
            Ok(()) | Err(Errno::INVAL) => Ok(mapping),
            Err(errno) => Err(MapError::System(errno)),
        }
    }

    /// Maps all of `object`.
    ///
    /// # Errors
    /// See [`MapError`].
    pub fn of_whole(object: &Memfd, access: Access) -> Result<Self, MapError> {
        Self::new(object, PageRange::new(0, object.pages()), access)
    }

    /// From now on children of a fork have it as well, at the same address. Not for an object of which a userfaultfd
    /// serves pages.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn let_children_have(&self) -> Result<(), Errno> {
        self.advise(self.whole(), Advice::LinuxDoFork)
    }

    /// The first byte.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.pages * PAGE_SIZE
    }

    /// The length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The first byte of `page`; `None` past the end.
    #[must_use]
    pub fn page(&self, page: usize) -> Option<*mut u8> {
        (page < self.pages).then(|| self.base().wrapping_add(page * PAGE_SIZE))
    }

    /// The page that contains `address`; `None` outside the mapping. Async-signal-safe.
    #[must_use]
    pub fn page_of(&self, address: usize) -> Option<usize> {
        let page = address.checked_sub(self.base().addr())? / PAGE_SIZE;
        (page < self.pages).then_some(page)
    }

    /// The addresses of `range`; `None` if it is empty or leaves the mapping. Async-signal-safe.
    #[must_use]
    pub fn addresses(&self, range: PageRange) -> Option<AddressRange> {
        if !range.fits(self.pages) {
            return None;
        }
        AddressRange::new(
            self.base().addr() + range.first() * PAGE_SIZE,
            range.count() * PAGE_SIZE,
        )
    }

    /// All the pages of the mapping.
    #[must_use]
    pub fn whole(&self) -> PageRange {
        PageRange::new(0, self.pages)
    }

    /// Locks every page that is or comes to be mapped here, without filling holes as a plain mlock would.
    ///
    /// Lock only a mapping that is never zapped (an alias). To zap a page in *any* locked mapping soon after it was
    /// filled takes its lock away although another locked mapping still has it: the kernel counts the locks of a page
    /// only once it has left a per-CPU batch. A page zapped in a mapping that is not locked keeps the alias's lock.
    ///
    /// # Errors
    /// See [`LockError`]; nothing is locked then.
    pub fn lock_on_fault(&mut self) -> Result<(), LockError> {
        let wanted = self.length();
        // SAFETY: the range is this mapping; locking changes no content.
        let result = unsafe { rustix::mm::mlock_with(self.base().cast::<c_void>(), wanted, MlockFlags::ONFAULT) };
        match result {
            Ok(()) => {
                self.locked = true;
                Ok(())
            }
            Err(Errno::NOMEM | Errno::PERM) => Err(LockError::Limit { wanted }),
            Err(errno) => Err(LockError::System(errno)),
        }
    }

    /// Whether [`SharedMapping::lock_on_fault`] has succeeded and [`SharedMapping::unlock`] not since.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// Takes the lock of this mapping away, be it of [`SharedMapping::lock_on_fault`] or of an `mlockall` elsewhere in
    /// the process.
    ///
    /// # Errors
    /// The kernel's refusal: `NOMEM` if the process may have no more mappings.
    pub fn unlock(&mut self) -> Result<(), Errno> {
        // SAFETY: the range is this mapping; unlocking changes no content.
        unsafe { rustix::mm::munlock(self.base().cast::<c_void>(), self.length()) }?;
        self.locked = false;
        Ok(())
    }

    /// Drops this mapping's page-table entries of `range`; the frames stay in the object.
    ///
    /// A userfaultfd write protection of the pages is gone when they are mapped again, unless it is asked for then. If
    /// this mapping is locked, so is the pages' lock (see [`SharedMapping::lock_on_fault`]). Async-signal-safe.
    ///
    /// # Errors
    /// `INVAL` if the range is empty or leaves the mapping, or if the mapping is locked (an `mlockall` does that too)
    /// and the kernel is older than 5.18.
    pub fn zap(&self, range: PageRange) -> Result<(), Errno> {
        match self.advise(range, Advice::LinuxDontneedLocked) {
            // Older than 5.18.
            Err(Errno::INVAL) => self.advise(range, Advice::LinuxDontNeed),
            result => result,
        }
    }

    /// Maps every page of `range` writable, with new zero-filled frames for holes (5.14). Not for registered mappings.
    ///
    /// # Errors
    /// `INVAL` if the range is empty, leaves the mapping or the mapping is read-only; `FAULT` if a page is absent and
    /// registered; `NOMEM` if there is no frame to be had.
    pub fn populate(&self, range: PageRange) -> Result<(), Errno> {
        rustix::io::retry_on_intr(|| self.advise(range, Advice::LinuxPopulateWrite))
    }

    fn advise(&self, range: PageRange, advice: Advice) -> Result<(), Errno> {
        let addresses = self.addresses(range).ok_or(Errno::INVAL)?;
        let start = self.base().with_addr(addresses.start()).cast::<c_void>();
        // SAFETY: the range lies in this mapping, which is shared or never written through: no advice used here loses
        // content of the object.
        unsafe { rustix::mm::madvise(start, addresses.length(), advice) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping and nothing can use it through this value any more.
        let result = unsafe { rustix::mm::munmap(self.base().cast::<c_void>(), self.length()) };
        // At the limit of mappings one stays that the kernel has joined with its neighbours.
        debug_assert!(
            matches!(result, Ok(()) | Err(Errno::NOMEM)),
            "munmap of an own mapping failed: {result:?}"
        );
    }
}
