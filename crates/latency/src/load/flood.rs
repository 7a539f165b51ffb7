//! Memory traffic that leaves no line of the first two caches and no entry of the TLB to anybody else.

use freehold_linux::cpu_caches::CacheSizes;
use freehold_linux::flood::{Lines, Returns, SpreadPages};

/// Twice as many pages as the second-level TLB of today's CPUs has entries: the kernel does not tell how many.
const PAGES: usize = 4096;

/// What is run and written over and over. One round replaces all: between two events further apart than a round there
/// is always a whole one.
#[derive(Debug)]
pub(super) struct Flood {
    instructions: Option<Returns>,
    pages: Option<SpreadPages>,
    lines: Option<Lines>,
    value: u8,
}

impl Flood {
    /// For the caches of a CPU, each twice. What this machine has no memory or no right for is left out.
    pub(super) fn new(cpu: usize) -> Self {
        let sizes = CacheSizes::of(cpu);
        Self {
            instructions: Returns::new(2 * sizes.instructions()).ok(),
            pages: SpreadPages::new(PAGES).ok(),
            lines: Lines::new(2 * sizes.second_level()).ok(),
            value: 0,
        }
    }

    /// Every instruction run, every page and every line written. The lines come last: those of the instructions are
    /// clean, and a second-level cache holds some of them.
    pub(super) fn round(&mut self) {
        self.value = self.value.wrapping_add(1);
        let _ = self.instructions.as_ref().map(Returns::run);
        if let Some(pages) = &mut self.pages {
            pages.touch(self.value);
        }
        if let Some(lines) = &mut self.lines {
            lines.write(self.value);
        }
    }
}
