//! Memory traffic that leaves no line of the first two caches and no entry of the TLB to anybody else.

use freehold_linux::Errno;
use freehold_linux::cpu_caches::CacheSizes;
use freehold_linux::flood::{Lines, Returns, SpreadPages};

/// Twice as many pages as the second-level TLB of today's CPUs has entries: the kernel does not tell how many.
const PAGES: usize = 4096;

/// What is run and written over and over. One round replaces all: between two events further apart than a round there
/// is always a whole one.
#[derive(Debug)]
pub(super) struct Flood {
    instructions: Returns,
    pages: SpreadPages,
    lines: Lines,
    value: u8,
}

impl Flood {
    /// For the caches of a CPU, each twice.
    ///
    /// # Errors
    /// No memory, or no right to make instructions.
    pub(super) fn new(cpu: usize) -> Result<Self, Errno> {
        let sizes = CacheSizes::of(cpu);
        Ok(Self {
            instructions: Returns::new(2 * sizes.instructions())?,
            pages: SpreadPages::new(PAGES)?,
            lines: Lines::new(2 * sizes.second_level())?,
            value: 0,
        })
    }

    /// Every instruction run, every page and every line written. The lines come last: those of the instructions are
    /// clean, and a second-level cache holds some of them.
    pub(super) fn round(&mut self) {
        self.value = self.value.wrapping_add(1);
        self.instructions.run();
        self.pages.touch(self.value);
        self.lines.write(self.value);
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheSizes, Flood, PAGES};

    #[test]
    fn a_round_covers_twice_what_the_caches_hold() {
        let mut flood = Flood::new(0).unwrap();
        flood.round();
        let sizes = CacheSizes::of(0);
        assert!(flood.lines.length() >= 2 * sizes.second_level());
        assert!(flood.instructions.run() * 64 >= 2 * sizes.instructions());
        assert_eq!(flood.pages.count(), PAGES);
    }
}
