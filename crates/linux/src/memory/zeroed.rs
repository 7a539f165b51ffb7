//! Tables of zeros, whose memory comes when it is first used.
//!
//! For what only those use who evict, and are about to wait for a transfer anyway: of a store for gigabytes a short run
//! in an ample reservation touches nothing, and to write such tables takes as long as all else of a server's start.
//! What a task needs that stays inside its reservation is to be there from the beginning.

use super::LeaseCell;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// A type of which all bytes zero is a value: its default.
///
/// # Safety
/// It is one, and the same as [`Default::default`].
pub unsafe trait Zeroed: Default {}

// SAFETY: an integer of zero bytes is 0, which is its default.
unsafe impl Zeroed for AtomicU8 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU16 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: a pointer of zero bytes is null, which is that of an empty cell.
unsafe impl Zeroed for LeaseCell {}

/// So many values that are zeros. O(1) where the allocator gets fresh memory from the kernel for it.
///
/// # Panics
/// As `vec!`, where there is no such length or no memory.
#[must_use]
pub fn zeroed<T: Zeroed>(count: usize) -> Box<[T]> {
    let Some(layout) = Layout::array::<T>(count).ok().filter(|layout| layout.size() > 0) else {
        // Nothing, or a length that cannot be, of which this tells.
        return (0..count).map(|_| T::default()).collect();
    };
    // SAFETY: the layout is not of size 0.
    let first = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if first.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the memory is of the global allocator, with the layout of so many values; all are zeros, which `Zeroed`
    // promises to be values; nobody else has it.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(first, count)) }
}

#[cfg(test)]
mod tests {
    use super::zeroed;
    use crate::memory::{LeaseCell, PageLease};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_table_of_zeros_is_a_table() {
        for count in [0, 1, 3, 100_000] {
            let table = zeroed::<AtomicU64>(count);
            assert_eq!(table.len(), count);
            assert!(table.iter().all(|word| word.swap(7, Ordering::Relaxed) == 0));
            assert!(table.iter().all(|word| word.load(Ordering::Relaxed) == 7));
        }
    }

    #[test]
    fn cells_are_empty_and_drop_what_they_hold() {
        let cells = zeroed::<LeaseCell>(3);
        assert!(cells.iter().all(|cell| cell.take().is_none()));
        cells[1].put(PageLease::allocated());
        assert!(cells[0].take().is_none() && cells[2].take().is_none());
    }
}
