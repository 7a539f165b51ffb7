//! Addresses that [`Chunk`]s are mapped into, one behind the other.

use super::chunk::{Chunk, HUGE_PAGES};
use super::racing::{copy_in, copy_out};
use crate::{AddressRange, Errno, PAGE_SIZE, PageRange};
use rustix::mm::{Advice, MapFlags, MlockFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;

const ALIGNMENT: usize = HUGE_PAGES * PAGE_SIZE;

/// Reserved addresses for a number of pages; chunks are placed in them and taken out again. Children of a fork have
/// none of them.
///
/// Pages are reached by copies only. A page where no chunk is, or whose frame somebody has punched and none is left for
/// it, raises a signal that ends the process: [`populate`](Self::populate) first what others have had.
#[derive(Debug)]
pub struct Window {
    /// What was reserved.
    whole: NonNull<u8>,
    length: usize,
    /// The first page, at a multiple of a huge page.
    base: NonNull<u8>,
    pages: usize,
    /// Whose addresses they are.
    owner: u32,
}

// SAFETY: plain addresses of the process, owned by this value, with no tie to a thread.
unsafe impl Send for Window {}
// SAFETY: a shared reference makes copies of pages that may race with others, which copy_in and copy_out allow for, and
// system calls that are safe to make concurrently.
unsafe impl Sync for Window {}

impl Window {
    /// Reserves addresses for `pages` pages.
    ///
    /// # Errors
    /// `NOMEM` where there are no such addresses.
    pub fn reserve(pages: usize) -> Result<Self, Errno> {
        let size = pages
            .checked_mul(PAGE_SIZE)
            .filter(|size| *size > 0)
            .ok_or(Errno::NOMEM)?;
        let length = size.checked_add(ALIGNMENT).ok_or(Errno::NOMEM)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let whole = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::empty(), flags) }?;
        let whole = whole.cast::<u8>();
        let base = whole.wrapping_add(whole.addr().next_multiple_of(ALIGNMENT) - whole.addr());
        Ok(Self {
            whole: NonNull::new(whole).ok_or(Errno::NOMEM)?,
            length,
            base: NonNull::new(base).ok_or(Errno::NOMEM)?,
            pages,
            owner: std::process::id(),
        })
    }

    /// Its length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The addresses of `range`; `None` if it is empty or leaves the window.
    #[must_use]
    pub fn addresses(&self, range: PageRange) -> Option<AddressRange> {
        if !range.fits(self.pages) {
            return None;
        }
        let start = self.base.as_ptr().addr() + range.first() * PAGE_SIZE;
        AddressRange::new(start, range.count() * PAGE_SIZE)
    }

    /// Maps `chunk` from page `first` on, over whatever was there.
    ///
    /// # Errors
    /// `INVAL` if it leaves the window; `NOMEM` where there are not enough huge pages.
    pub fn place(&self, first: usize, chunk: &Chunk) -> Result<(), Errno> {
        let range = PageRange::new(first, chunk.pages());
        let at = self.start(range)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let length = range.count() * PAGE_SIZE;
        // SAFETY: replaces a part of this value's own addresses, into which no reference is ever made.
        unsafe { rustix::mm::mmap(at, length, access, flags, chunk, 0) }?;
        self.advise(range, Advice::LinuxDontFork)
    }

    /// Leaves nothing mapped in `range`.
    ///
    /// # Errors
    /// `INVAL` if it is empty or leaves the window; other refusals of the kernel.
    pub fn vacate(&self, range: PageRange) -> Result<(), Errno> {
        let at = self.start(range)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let length = range.count() * PAGE_SIZE;
        // SAFETY: as in `place`.
        unsafe { rustix::mm::mmap_anonymous(at, length, ProtFlags::empty(), flags) }.map(|_| ())
    }

    /// Gives every page of `range` a frame, of zeros where it has none, and maps it (5.14).
    ///
    /// # Errors
    /// `INVAL` if the range is empty or leaves the window; `NOMEM` or `FAULT` where no chunk is, or no frame is left.
    pub fn populate(&self, range: PageRange) -> Result<(), Errno> {
        rustix::io::retry_on_intr(|| self.advise(range, Advice::LinuxPopulateWrite))
    }

    /// Keeps pages of `range` from being swapped out.
    ///
    /// # Errors
    /// `NOMEM` or `PERM` where the limit on locked memory is too low.
    pub fn lock(&self, range: PageRange) -> Result<(), Errno> {
        let at = self.start(range)?;
        // SAFETY: this value's own addresses; locking changes no content.
        unsafe { rustix::mm::mlock_with(at, range.count() * PAGE_SIZE, MlockFlags::ONFAULT) }
    }

    /// Copies a page in.
    ///
    /// # Errors
    /// `INVAL` if there is no such page.
    pub fn write(&self, page: usize, content: &[u8; PAGE_SIZE]) -> Result<(), Errno> {
        let at = self.start(PageRange::single(page))?;
        // SAFETY: a page of this value's own addresses; `content` is no part of them.
        unsafe { copy_in(content, at.cast()) };
        Ok(())
    }

    /// Copies a page out.
    ///
    /// # Errors
    /// `INVAL` if there is no such page.
    pub fn read(&self, page: usize, content: &mut [u8; PAGE_SIZE]) -> Result<(), Errno> {
        let at = self.start(PageRange::single(page))?;
        // SAFETY: as in `write`.
        unsafe { copy_out(at.cast(), content) };
        Ok(())
    }

    /// Fills `range` with zeros.
    ///
    /// # Errors
    /// `INVAL` if it is empty or leaves the window.
    pub fn zero(&self, range: PageRange) -> Result<(), Errno> {
        let at = self.start(range)?;
        // SAFETY: this value's own addresses, into which no reference is ever made.
        unsafe { at.cast::<u8>().write_bytes(0, range.count() * PAGE_SIZE) };
        Ok(())
    }

    fn advise(&self, range: PageRange, advice: Advice) -> Result<(), Errno> {
        let at = self.start(range)?;
        // SAFETY: this value's own addresses; no advice used here loses content.
        unsafe { rustix::mm::madvise(at, range.count() * PAGE_SIZE, advice) }
    }

    fn start(&self, range: PageRange) -> Result<*mut c_void, Errno> {
        let addresses = self.addresses(range).ok_or(Errno::INVAL)?;
        Ok(self.base.as_ptr().with_addr(addresses.start()).cast())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // A child of a fork has no chunks there, and may have mapped something else in their place.
        if std::process::id() != self.owner {
            return;
        }
        // SAFETY: this value owns the addresses, and nothing can use them through it any more.
        let result = unsafe { rustix::mm::munmap(self.whole.as_ptr().cast(), self.length) };
        // At the limit of mappings one stays that the kernel has joined with its neighbours.
        debug_assert!(
            matches!(result, Ok(()) | Err(Errno::NOMEM)),
            "munmap of own addresses failed: {result:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::Window;
    use crate::memory::Chunk;
    use crate::{Errno, PAGE_SIZE, PageRange};

    #[test]
    fn chunks_come_and_go() {
        let window = Window::reserve(8).unwrap();
        let (one, two) = (
            Chunk::create(c"one", 4, false).unwrap(),
            Chunk::create(c"two", 4, false).unwrap(),
        );
        window.place(0, &one).unwrap();
        window.place(4, &two).unwrap();
        assert_eq!(window.place(5, &two), Err(Errno::INVAL));
        window.populate(PageRange::new(0, 8)).unwrap();
        let mut content = [5; PAGE_SIZE];
        window.write(4, &content).unwrap();
        window.place(0, &two).unwrap();
        window.read(0, &mut content).unwrap();
        assert_eq!(content, [5; PAGE_SIZE]);
        window.zero(PageRange::new(0, 1)).unwrap();
        window.read(4, &mut content).unwrap();
        assert_eq!(content, [0; PAGE_SIZE]);
        assert_eq!(window.write(8, &content), Err(Errno::INVAL));
        window.vacate(PageRange::new(0, 8)).unwrap();
        assert!(window.populate(PageRange::new(0, 1)).is_err());
    }
}
