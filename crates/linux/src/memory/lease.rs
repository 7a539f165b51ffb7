//! A page lent to somebody for the time of one transfer.
//!
//! Input and output go straight between a device and the page where its user will see it. Whoever moves the bytes needs
//! an address that stays good until the transfer has ended, perhaps in another thread and perhaps by the kernel, behind
//! the language's back. A [`PageLease`] is that address with its promise: made by the one who knows that it holds, used
//! by safe code.

use crate::PAGE_SIZE;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Marks, in the lowest bit of an address, a page that the lease itself allocated.
const ALLOCATED: usize = 1;

/// A page of heap memory.
#[repr(C, align(4096))]
struct HeapPage([u8; PAGE_SIZE]);

/// The use of one page, exclusive until this value is dropped.
#[derive(Debug)]
pub struct PageLease {
    /// The page's first byte, marked if the page is the lease's own.
    marked: NonNull<u8>,
}

// SAFETY: it is an exclusive use of plain memory, with no tie to a thread.
unsafe impl Send for PageLease {}
// SAFETY: through a shared reference it only gives `&[u8]`.
unsafe impl Sync for PageLease {}

impl PageLease {
    /// Lends the page that begins at `start`; `None` if that is null or not the beginning of a page. Async-signal-safe.
    ///
    /// # Safety
    /// Until the lease is dropped the page must stay mapped for reading and writing and resident, and nobody, in any
    /// process, may touch it except through the lease.
    #[must_use]
    pub unsafe fn new(start: *mut u8) -> Option<Self> {
        let marked = NonNull::new(start).filter(|start| start.addr().get().is_multiple_of(PAGE_SIZE))?;
        Some(Self { marked })
    }

    /// A page of zeros of the lease's own, freed with it. Allocates.
    #[must_use]
    pub fn allocated() -> Self {
        let page = Box::into_raw(Box::new(HeapPage([0; PAGE_SIZE]))).cast::<u8>();
        let marked = page.map_addr(|address| address | ALLOCATED);
        Self {
            // A box is never null, so this is never the dangling pointer.
            marked: NonNull::new(marked).unwrap_or(NonNull::dangling()),
        }
    }

    /// The first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.marked.as_ptr().map_addr(|address| address & !ALLOCATED)
    }

    /// The content.
    #[must_use]
    pub fn bytes(&self) -> &[u8; PAGE_SIZE] {
        // SAFETY: `new`'s caller promised a mapped page that nobody else touches, and `allocated` owns one; any bytes
        // are valid, and `&self` excludes a mutable borrow through the lease.
        unsafe { &*self.start().cast() }
    }

    /// The content, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE_SIZE] {
        // SAFETY: as in `bytes`, and `&mut self` makes this the only borrow.
        unsafe { &mut *self.start().cast() }
    }

    fn into_marked(self) -> *mut u8 {
        let marked = self.marked.as_ptr();
        std::mem::forget(self);
        marked
    }
}

impl Drop for PageLease {
    fn drop(&mut self) {
        if self.marked.addr().get() & ALLOCATED != 0 {
            // SAFETY: the mark says that the page came from `Box::into_raw` in `allocated`, and this value owned it.
            drop(unsafe { Box::from_raw(self.start().cast::<HeapPage>()) });
        }
    }
}

/// Room for one lease, filled and emptied by any thread. Never waits; async-signal-safe.
#[derive(Debug, Default)]
pub struct LeaseCell {
    marked: AtomicPtr<u8>,
}

impl LeaseCell {
    /// Puts a lease in; one that was there is dropped.
    pub fn put(&self, lease: PageLease) {
        drop(Self::lease(self.marked.swap(lease.into_marked(), Ordering::AcqRel)));
    }

    /// Takes the lease out.
    pub fn take(&self) -> Option<PageLease> {
        Self::lease(self.marked.swap(std::ptr::null_mut(), Ordering::AcqRel))
    }

    /// The lease of a pointer that was in a cell and has been taken out of it.
    fn lease(marked: *mut u8) -> Option<PageLease> {
        NonNull::new(marked).map(|marked| PageLease { marked })
    }
}

impl Drop for LeaseCell {
    fn drop(&mut self) {
        // Tables of these are long, and nearly all of it is empty.
        drop(Self::lease(*self.marked.get_mut()));
    }
}

#[cfg(test)]
mod tests {
    use super::{LeaseCell, PageLease};
    use crate::PAGE_SIZE;

    #[test]
    fn only_whole_pages_are_lent() {
        // SAFETY: nothing is lent: null, and an address inside a page.
        unsafe {
            assert!(PageLease::new(std::ptr::null_mut()).is_none());
            assert!(PageLease::new(std::ptr::without_provenance_mut(PAGE_SIZE + 1)).is_none());
        }
    }

    #[test]
    fn a_lease_keeps_its_content_through_a_cell_and_another_thread() {
        let cell = LeaseCell::default();
        assert!(cell.take().is_none());
        let mut lease = PageLease::allocated();
        assert_eq!(lease.bytes(), &[0; PAGE_SIZE]);
        lease.bytes_mut()[PAGE_SIZE - 1] = 7;
        cell.put(lease);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut lease = cell.take().unwrap();
                lease.bytes_mut()[0] = 1;
                cell.put(lease);
            });
        });
        cell.put(PageLease::allocated());
        assert_eq!(cell.take().unwrap().bytes()[PAGE_SIZE - 1], 0);
        assert!(cell.take().is_none());
    }

    #[test]
    fn a_lent_page_is_the_page_itself() {
        let mut page = PageLease::allocated();
        // SAFETY: the page outlives the lease made here and is not touched meanwhile.
        let mut lent = unsafe { PageLease::new(page.start()) }.unwrap();
        lent.bytes_mut()[5] = 9;
        drop(lent);
        assert_eq!(page.bytes_mut()[5], 9);
    }
}
