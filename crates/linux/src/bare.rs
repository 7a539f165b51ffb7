//! Paging without a pager: the mechanism alone, to measure what a pager adds to it.
//!
//! A [`BareRegion`] is one registered mapping of a memfd, and the locked alias through which its pages are filled.
//! Whoever uses it decides everything: which frame a fault gets, what is dropped, and when. It keeps no books, so it
//! is as fast as these system calls can be, and it guarantees nothing.
//!
//! Operations are async-signal-safe: a fault hook may call them.

use crate::memory::{Access, LockError, MapError, Memfd, MemfdError, SharedMapping};
use crate::userfault::{Modes, RegisterError, Stopped, Userfault};
use crate::{AddressRange, Errno, PAGE_SIZE, PageRange};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// A page's content.
pub type PageContent = [u8; PAGE_SIZE];

/// A region could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BareError {
    /// No memory object.
    #[error(transparent)]
    Object(#[from] MemfdError),
    /// No mapping.
    #[error(transparent)]
    Map(#[from] MapError),
    /// No locked memory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Faults cannot be intercepted.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// Copies bytes as accesses to managed memory are made, by one string instruction: for measurements that compare the
/// two. Copies as many as both have.
#[inline(never)]
pub fn copy(to: &mut [u8], from: &[u8]) {
    let length = to.len().min(from.len());
    // SAFETY: both slices have `length` bytes and do not overlap, as one is borrowed mutably; the instruction changes
    // these bytes and the registers named. The direction flag is clear in every function.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rdi") to.as_mut_ptr() => _,
            inout("rsi") from.as_ptr() => _,
            inout("rcx") length => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Memory whose faults its user serves. One thread's.
#[derive(Debug)]
pub struct BareRegion {
    // Dropped in this order: the registered mapping never outlives its userfaultfd.
    mapping: SharedMapping,
    alias: SharedMapping,
    memfd: Memfd,
    userfault: Arc<Userfault>,
    /// Copies to and from a page must not race: they are one thread's.
    not_sync: PhantomData<Cell<()>>,
}

impl BareRegion {
    /// A region of `pages` absent pages; `lock` keeps every page locked that is given a frame by
    /// [`BareRegion::allocate`], as a pager's promise needs it.
    ///
    /// # Errors
    /// See [`BareError`].
    pub fn new(userfault: &Arc<Userfault>, pages: usize, lock: bool) -> Result<Self, BareError> {
        let memfd = Memfd::create(c"freehold-bare", pages)?;
        let mut alias = SharedMapping::of_whole(&memfd, Access::ReadWrite)?;
        if lock {
            alias.lock_on_fault()?;
        }
        let mapping = SharedMapping::of_whole(&memfd, Access::ReadWrite)?;
        let whole = mapping.addresses(mapping.whole()).ok_or(MapError::OutOfBounds)?;
        // SAFETY: the memory is this new mapping's, which hands out raw pointers only; no reference into it is made.
        unsafe { userfault.register(whole, Modes::MISSING | Modes::MINOR | Modes::WRITE_PROTECT) }?;
        Ok(Self {
            mapping,
            alias,
            memfd,
            userfault: Arc::clone(userfault),
            not_sync: PhantomData,
        })
    }

    /// The length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.mapping.pages()
    }

    /// The page that contains `address`; `None` outside the region.
    #[must_use]
    pub fn page_of(&self, address: usize) -> Option<usize> {
        self.mapping.page_of(address)
    }

    /// Reads the first word of `page`. A fault that no hook serves ends the process. Past the end it reads 0.
    #[must_use]
    pub fn read(&self, page: usize) -> u64 {
        self.mapping.page(page).map_or(0, |at| {
            // SAFETY: an aligned word of a live mapping; absent pages are the business of the fault hook.
            unsafe { at.cast::<u64>().read_volatile() }
        })
    }

    /// Writes the first word of `page`, as [`BareRegion::read`] reads it. Past the end it writes nothing.
    pub fn write(&self, page: usize, word: u64) {
        if let Some(at) = self.mapping.page(page) {
            // SAFETY: as in `read`; no reference into the mapping exists.
            unsafe { at.cast::<u64>().write_volatile(word) }
        }
    }

    /// Maps the frame that `page` has.
    ///
    /// # Errors
    /// See [`Userfault::continue_`].
    pub fn map(&self, page: usize) -> Result<(), Stopped> {
        self.userfault.continue_(self.address(page)?, false)
    }

    /// Gives `page`, which has no frame, one with `content`, and maps it, in one system call. The frame is not locked.
    ///
    /// # Errors
    /// See [`Userfault::copy`].
    pub fn fill_and_map(&self, page: usize, content: &PageContent) -> Result<(), Stopped> {
        self.userfault.copy(self.address(page)?.start(), content, false)
    }

    /// Gives `page` a frame of zeros if it has none, mapped in the alias only.
    ///
    /// # Errors
    /// See [`SharedMapping::populate`].
    pub fn allocate(&self, page: usize) -> Result<(), Errno> {
        self.alias.populate(PageRange::single(page))
    }

    /// Copies `content` to `page`, which gets an unlocked frame if it has none, by `pwrite`.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn write_in(&self, page: usize, content: &PageContent) -> Result<(), Errno> {
        let offset = page as u64 * PAGE_SIZE as u64;
        rustix::io::retry_on_intr(|| rustix::io::pwrite(&self.memfd, content, offset)).map(|_| ())
    }

    /// Copies `content` to `page` through the alias. A page without a frame gets one. Past the end nothing is copied.
    pub fn copy_in(&self, page: usize, content: &PageContent) {
        if let Some(at) = self.alias.page(page) {
            // SAFETY: a whole page of the live alias, which is ordinary shared memory and unregistered; `content` is
            // not in it, since no reference into it exists. This thread alone uses the region.
            unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), at, PAGE_SIZE) }
        }
    }

    /// Copies `page` out through the alias, as [`BareRegion::copy_in`] copies in.
    pub fn copy_out(&self, page: usize, content: &mut PageContent) {
        if let Some(at) = self.alias.page(page) {
            // SAFETY: as in `copy_in`, the other way round.
            unsafe { std::ptr::copy_nonoverlapping(at, content.as_mut_ptr(), PAGE_SIZE) }
        }
    }

    /// Drops the page-table entries of `pages`; their frames stay.
    ///
    /// # Errors
    /// See [`SharedMapping::zap`].
    pub fn zap(&self, pages: PageRange) -> Result<(), Errno> {
        self.mapping.zap(pages)
    }

    /// Drops the frames of `pages`.
    ///
    /// # Errors
    /// See [`Memfd::punch_hole`].
    pub fn punch(&self, pages: PageRange) -> Result<(), Errno> {
        self.memfd.punch_hole(pages)
    }

    fn address(&self, page: usize) -> Result<AddressRange, Stopped> {
        let errno = Errno::INVAL;
        let range = self.mapping.addresses(PageRange::single(page));
        range.ok_or(Stopped { done: 0, errno })
    }
}

#[cfg(test)]
mod tests {
    use super::{BareRegion, PAGE_SIZE, PageRange};
    use crate::userfault::{Features, Userfault};
    use std::sync::Arc;

    #[test]
    fn content_goes_in_and_out_and_a_hole_has_none() {
        let Ok(userfault) = Userfault::open(Features::SELF_PAGING) else {
            println!("skipped: no userfaultfd here");
            return;
        };
        let region = BareRegion::new(&Arc::new(userfault), 3, false).unwrap();
        assert_eq!(region.pages(), 3);
        region.allocate(0).unwrap();
        region.copy_in(0, &[7; PAGE_SIZE]);
        region.map(0).unwrap();
        assert_eq!(region.read(0), u64::from_le_bytes([7; 8]));
        region.write(0, 9);
        region.write_in(1, &[3; PAGE_SIZE]).unwrap();
        region.map(1).unwrap();
        region.fill_and_map(2, &[5; PAGE_SIZE]).unwrap();
        assert_eq!(region.read(1), u64::from_le_bytes([3; 8]));
        assert_eq!(region.read(2), u64::from_le_bytes([5; 8]));
        let mut content = [0; PAGE_SIZE];
        region.copy_out(0, &mut content);
        assert_eq!((content[0], content[9]), (9, 7));
        region.zap(PageRange::new(0, 3)).unwrap();
        region.punch(PageRange::new(1, 1)).unwrap();
        assert!(region.map(1).is_err(), "a hole has nothing to map");
        assert!(region.map(0).is_ok() && region.map(3).is_err());
    }
}
