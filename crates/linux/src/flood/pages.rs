//! Pages of which each needs an entry of the TLB. They are small ones, in pieces that lie far apart: so the entries
//! that lead to page tables are used up too.

use super::{LINE, Mapping};
use crate::{Errno, PAGE_SIZE};
use rustix::mm::{Advice, MprotectFlags, ProtFlags};

/// What one page table spans.
const SPAN: usize = 512 * PAGE_SIZE;
/// Pages of a piece; each lies in a span of its own.
const PIECE: usize = 64;
/// Places for a piece in its span.
const PLACES: usize = SPAN / (PIECE * PAGE_SIZE);

/// Memory for using up a TLB.
#[derive(Debug)]
pub struct SpreadPages {
    mapping: Mapping,
    pieces: usize,
}

impl SpreadPages {
    /// At least `pages`, all of them there.
    ///
    /// # Errors
    /// No memory.
    pub fn new(pages: usize) -> Result<Self, Errno> {
        let pieces = pages.max(1).div_ceil(PIECE);
        let length = pieces.checked_add(1).and_then(|spans| spans.checked_mul(SPAN));
        let mapping = Mapping::new(length.ok_or(Errno::NOMEM)?, ProtFlags::empty())?;
        let mut pages = Self { mapping, pieces };
        for piece in 0..pieces {
            let (start, length) = (pages.start(piece).cast(), PIECE * PAGE_SIZE);
            // SAFETY: inside the mapping, of which nobody has a reference.
            unsafe {
                rustix::mm::mprotect(start, length, MprotectFlags::READ | MprotectFlags::WRITE)?;
                // A kernel without huge pages refuses, and has none.
                let _ = rustix::mm::madvise(start, length, Advice::LinuxNoHugepage);
            }
        }
        pages.touch(1);
        Ok(pages)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.pieces * PIECE
    }

    /// Writes a byte of each page; neighbours in another line, or all would compete for the same sets of the caches.
    pub fn touch(&mut self, value: u8) {
        for page in 0..PIECE {
            for piece in 0..self.pieces {
                // SAFETY: inside a piece, which may be written; nobody has a reference to it.
                unsafe { self.byte(piece, page).write_volatile(value) };
            }
        }
    }

    /// A piece's first byte. The places in the spans take turns, so that all sets of the TLB are used.
    fn start(&self, piece: usize) -> *mut u8 {
        let place = piece % PLACES * PIECE * PAGE_SIZE;
        self.mapping.aligned(SPAN).wrapping_add(piece * SPAN + place)
    }

    fn byte(&self, piece: usize, page: usize) -> *mut u8 {
        let line = (piece + page) % (PAGE_SIZE / LINE);
        self.start(piece).wrapping_add(page * PAGE_SIZE + line * LINE)
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE, SPAN, SpreadPages};
    use crate::PAGE_SIZE;
    use std::collections::BTreeSet;

    #[test]
    fn every_page_is_another_one_and_written_and_each_piece_has_a_page_table_of_its_own() {
        let mut pages = SpreadPages::new(10 * PIECE - 3).unwrap();
        assert_eq!(pages.count(), 10 * PIECE);
        pages.touch(9);
        let all = || (0..pages.pieces).flat_map(|piece| (0..PIECE).map(move |page| (piece, page)));
        let bytes = all().map(|(piece, page)| {
            let byte = pages.byte(piece, page);
            // SAFETY: a byte that was written, in this test's own memory.
            assert_eq!(unsafe { byte.read_volatile() }, 9);
            byte.addr()
        });
        let bytes: Vec<_> = bytes.collect();
        let distinct = |unit: usize| bytes.iter().map(|byte| byte / unit).collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(PAGE_SIZE), 10 * PIECE);
        assert_eq!(distinct(SPAN), 10);
        assert!(SpreadPages::new(usize::MAX).is_err());
    }
}
