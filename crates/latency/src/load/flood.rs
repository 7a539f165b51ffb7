//! Memory traffic that leaves no line of the first two caches and no entry of the TLB to anybody else.

use std::hint;

/// Twice the second-level cache of today's CPUs.
const LINES_BYTES: usize = 4 << 20;
/// Twice as many pages as the second-level TLB of today's CPUs has entries.
const PAGES: usize = 4096;
const LINE: usize = 64;
const PAGE: usize = 4096;

/// What is written over and over.
#[derive(Debug)]
pub(super) struct Flood {
    lines: Vec<u8>,
    pages: Vec<u8>,
    value: u8,
}

impl Flood {
    pub(super) fn new() -> Self {
        Self {
            lines: vec![1; LINES_BYTES],
            pages: vec![1; PAGES * PAGE],
            value: 0,
        }
    }

    /// Every line written, then a byte of every page.
    pub(super) fn round(&mut self) {
        self.value = self.value.wrapping_add(1);
        for line in self.lines.chunks_exact_mut(LINE) {
            line[0] = self.value;
        }
        hint::black_box(&mut self.lines);
        // Another line of each page, or all would compete for the same sets of the caches.
        for (number, page) in self.pages.chunks_exact_mut(PAGE).enumerate() {
            page[number % (PAGE / LINE) * LINE] = self.value;
        }
        hint::black_box(&mut self.pages);
    }
}
