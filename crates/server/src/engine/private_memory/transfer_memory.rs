//! The transfer memory of one client: where its private pages are while they are not in its page table.
//!
//! The server hands out the slots. A free slot may still have its frame, which the next page that comes uses, or which
//! is given back when there are more frames about than the books say. The client has a descriptor of the memory, and
//! may keep whoever gives frames back waiting (see [`holes`](crate::engine::teardown::holes)): where it is not trusted,
//! somebody else does.

use freehold_linux::memory::{PagedMemfd, PagedMemfdError};
use freehold_linux::{Errno, PageRange};
use std::sync::Arc;

/// Free slots that keep their frames, at most.
pub(crate) const MOST_WARM: usize = 64;

/// Slots of one client.
#[derive(Debug)]
pub(crate) struct TransferMemory {
    memory: Arc<PagedMemfd>,
    /// The client may keep others waiting.
    apart: bool,
    /// Free slots that have their frames, the latest last.
    warm: Vec<u32>,
    /// Free slots without.
    cold: Vec<u32>,
    /// Free slots whose frames somebody else gives back.
    cooling: usize,
    /// The first slot never used.
    unused: u32,
    taken: u32,
}

impl TransferMemory {
    pub(crate) fn new(pages: u32) -> Result<Self, PagedMemfdError> {
        Ok(Self {
            memory: Arc::new(PagedMemfd::create(c"freehold-transfer", pages.max(1) as usize, false)?),
            apart: false,
            warm: Vec::new(),
            cold: Vec::new(),
            cooling: 0,
            unused: 0,
            taken: 0,
        })
    }

    pub(crate) fn memory(&self) -> &PagedMemfd {
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
        if self.warm.len() > MOST_WARM && !self.apart {
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
        self.warm.len() + self.cooling
    }

    /// They are a client's from now on that may keep others waiting, or is trusted not to.
    pub(crate) fn give_back_apart(&mut self, apart: bool) {
        self.apart = apart;
    }

    /// Whether somebody else gives their frames back.
    pub(crate) fn are_apart(&self) -> bool {
        self.apart
    }

    /// Whether so many free slots have frames that somebody else is to give some back.
    pub(crate) fn are_hot(&self) -> bool {
        self.apart && self.warm.len() > MOST_WARM
    }

    /// Up to `count` free slots whose frames somebody else is to give back; none where that is done here.
    pub(crate) fn begin_cooling(&mut self, count: usize) -> Option<(Arc<PagedMemfd>, Vec<u32>)> {
        let count = count.min(self.warm.len());
        if !self.apart || count == 0 {
            return None;
        }
        let mut slots: Vec<u32> = self.warm.drain(..count).collect();
        slots.sort_unstable();
        self.cooling += slots.len();
        Some((Arc::clone(&self.memory), slots))
    }

    /// Their frames have been given back.
    pub(crate) fn end_cooling(&mut self, slots: Vec<u32>) {
        self.cooling = self.cooling.saturating_sub(slots.len());
        self.cold.extend(slots);
    }

    /// Gives back the frames of up to `count` free slots; how many. None where somebody else does.
    pub(crate) fn cool(&mut self, count: usize) -> Result<usize, Errno> {
        let count = if self.apart { 0 } else { count.min(self.warm.len()) };
        // The oldest: their slots are next to each other more often than not.
        let mut slots: Vec<u32> = self.warm.drain(..count).collect();
        slots.sort_unstable();
        punch(&self.memory, &slots)?;
        self.cold.extend(slots);
        Ok(count)
    }
}

/// Gives back the frames of these slots, neighbours together.
pub(crate) fn punch(memory: &PagedMemfd, slots: &[u32]) -> Result<(), Errno> {
    let mut rest = slots;
    while let Some(&first) = rest.first() {
        let run = rest
            .iter()
            .zip(first..)
            .take_while(|(slot, expected)| *slot == expected)
            .count();
        memory.punch(PageRange::new(first as usize, run))?;
        rest = rest.get(run..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::TransferMemory;

    #[test]
    fn slots_are_used_again_and_cooled() {
        let mut slots = TransferMemory::new(3).unwrap();
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

    #[test]
    fn frames_of_whoever_may_keep_others_waiting_are_given_back_by_somebody_else() {
        let mut slots = TransferMemory::new(3).unwrap();
        slots.give_back_apart(true);
        for slot in [0, 1, 2] {
            assert_eq!(slots.take(), Some(slot));
            slots.memory().write(slot as usize, &[1; 4096]).unwrap();
        }
        for slot in [2, 0, 1] {
            slots.free(slot);
        }
        assert_eq!(slots.cool(9).unwrap(), 0);
        let (memory, cooling) = slots.begin_cooling(2).unwrap();
        assert_eq!(
            (&cooling, slots.warm()),
            (&vec![0, 2], 3),
            "they are there until they are given back"
        );
        super::punch(&memory, &cooling).unwrap();
        assert_eq!(slots.take(), Some(1));
        assert_eq!(slots.take(), None, "nobody has them meanwhile");
        slots.end_cooling(cooling);
        assert_eq!((slots.warm(), slots.memory().resident().unwrap().pages), (0, 1));
        assert!(slots.take().is_some() && slots.take().is_some() && slots.take().is_none());
    }
}
