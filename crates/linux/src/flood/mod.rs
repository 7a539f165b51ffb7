//! What fills a CPU's caches and its TLB with other things than what anybody else needs.

mod lines;
mod pages;
mod returns;

pub use lines::Lines;
pub use pages::SpreadPages;
pub use returns::Returns;

use crate::{Errno, PAGE_SIZE};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Bytes of a line of a cache.
const LINE: usize = 64;

/// Memory of the process that only its owner uses.
#[derive(Debug)]
struct Mapping {
    base: NonNull<c_void>,
    length: usize,
}

// SAFETY: plain memory of the process, owned by this value, with no tie to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(length: usize, access: ProtFlags) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, access, flags) }?;
        let base = NonNull::new(base).ok_or(Errno::NOMEM)?;
        Ok(Self { base, length })
    }

    /// The first byte at or behind the start whose address is a multiple of `alignment`.
    fn aligned(&self, alignment: usize) -> *mut u8 {
        let start = self.base.as_ptr().cast::<u8>();
        start.wrapping_add(start.addr().next_multiple_of(alignment) - start.addr())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and what refers to its memory owns this value.
        let result = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.length) };
        // At the limit of mappings one stays that the kernel has joined with its neighbours.
        debug_assert!(
            matches!(result, Ok(()) | Err(Errno::NOMEM)),
            "munmap of an own mapping failed: {result:?}"
        );
    }
}

/// Whole pages that hold so many bytes.
fn whole_pages(bytes: usize) -> Result<usize, Errno> {
    bytes.checked_next_multiple_of(PAGE_SIZE).ok_or(Errno::NOMEM)
}
