//! The transfer memory of one client: where its private pages are while they are not in its page table.
//!
//! The server hands out the slots. A free slot may still have its frame, which the next page that comes uses, or which
//! is given back when there are more frames about than the books say.

use freehold_linux::memory::{Backed, BackedError};
use freehold_linux::{Errno, PageRange};

/// Free slots that keep their frames, at most.
const MOST_WARM: usize = 64;

/// Slots of one client.
#[derive(Debug)]
pub(crate) struct Slots {
    memory: Backed,
    /// Free slots that have their frames, the latest last.
    warm: Vec<u32>,
    /// Free slots without.
    cold: Vec<u32>,
    /// The first slot never used.
    unused: u32,
    taken: u32,
}

impl Slots {
    pub(crate) fn new(pages: u32) -> Result<Self, BackedError> {
        Ok(Self {
            memory: Backed::create(c"freehold-transfer", pages.max(1) as usize, false)?,
            warm: Vec::new(),
            cold: Vec::new(),
            unused: 0,
            taken: 0,
        })
    }

    pub(crate) fn memory(&self) -> &Backed {
        &self.memory
    }

    /// Length in pages.
    pub(crate) fn pages(&self) -> u32 {
        u32::try_from(self.memory.pages()).unwrap_or(u32::MAX)
    }

    /// A slot; `None` where there is none.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let slot = self.warm.pop().or_else(|| self.cold.pop()).or_else(|| {
            let next = self.unused;
            (next < self.pages()).then(|| {
                self.unused += 1;
                next
            })
        })?;
        self.taken += 1;
        Some(slot)
    }

    /// A slot is free again; it may have its frame.
    pub(crate) fn free(&mut self, slot: u32) {
        self.taken = self.taken.saturating_sub(1);
        self.warm.push(slot);
        if self.warm.len() > MOST_WARM {
            // A frame that stays too long makes the machine poorer, and nobody's page wrong.
            let _ = self.cool(MOST_WARM / 2);
        }
    }

    /// A slot is never used again: somebody may yet write to it.
    pub(crate) fn lose(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    /// Whether no slot has ever been taken.
    pub(crate) fn is_untouched(&self) -> bool {
        self.unused == 0
    }

    /// Slots in use.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    /// Free slots that may have frames.
    pub(crate) fn warm(&self) -> usize {
        self.warm.len()
    }

    /// Gives back the frames of up to `count` free slots; how many.
    pub(crate) fn cool(&mut self, count: usize) -> Result<usize, Errno> {
        let count = count.min(self.warm.len());
        // The oldest: their slots are next to each other more often than not.
        let mut slots: Vec<u32> = self.warm.drain(..count).collect();
        slots.sort_unstable();
        let mut rest = &slots[..];
        while let Some(&first) = rest.first() {
            let run = rest
                .iter()
                .zip(first..)
                .take_while(|(slot, expected)| *slot == expected)
                .count();
            self.memory.punch(PageRange::new(first as usize, run))?;
            rest = rest.get(run..).unwrap_or_default();
        }
        self.cold.extend(slots);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn slots_are_used_again_and_cooled() {
        let mut slots = Slots::new(3).unwrap();
        let all: Vec<_> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(all, [0, 1, 2]);
        for slot in [1, 0] {
            slots.memory().write(slot as usize, &[1; 4096]).unwrap();
            slots.free(slot);
        }
        assert_eq!((slots.taken(), slots.warm()), (1, 2));
        assert_eq!(slots.cool(9).unwrap(), 2);
        assert_eq!(slots.memory().resident().unwrap().pages, 0);
        assert_eq!(slots.warm(), 0);
        assert!(slots.take().is_some() && slots.take().is_some() && slots.take().is_none());
    }
}
