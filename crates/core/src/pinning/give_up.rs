//! When a pinned page pool gives pages up: it is full, it has become smaller, or nobody else has a page that could
//! leave.

use crate::effect::{Holder, Scope, UnmapReason};
use crate::index::PinnedIndex;
use crate::memory::{DEMOTION_BATCH, Memory};
use crate::pinning::pool::PinnedPool;

impl Memory {
    /// At least one page leaves, where there is one: by Algorithm 2, or of a pool that tries pages the oldest.
    pub(crate) fn unpin_some(&mut self, pinner: PinnedIndex) {
        if self.pinned.slots.at(pinner.slot()).is_some_and(PinnedPool::proves) {
            self.unpin_oldest(pinner);
        } else {
            self.algorithm2(pinner);
        }
    }

    /// The page that has been on trial longest leaves, or where none is the one that was used longest ago.
    fn unpin_oldest(&mut self, pinner: PinnedIndex) {
        if let Some(index) = self.oldest_inactive(pinner) {
            self.unpin(pinner, index, true);
        } else if let Some(index) = self.oldest_active(pinner) {
            self.unpin(pinner, index, false);
        }
    }

    /// Pools that pin more than their capacity, because it has shrunk, give up a few pages: one pool, in turn.
    pub(crate) fn trim_next_pool(&mut self) {
        let Some(pinner) = self.next_pool(|pool| pool.is_adaptive() && pool.len() > pool.capacity.get()) else {
            return;
        };
        for _ in 0..DEMOTION_BATCH {
            let over = |pool: &PinnedPool| pool.len() > pool.capacity.get();
            if !self.pinned.slots.at(pinner.slot()).is_some_and(over) {
                return;
            }
            self.unpin_some(pinner);
        }
    }

    /// Nothing is left on the global lists that could leave: a pool gives up pages although it has the capacity.
    pub(crate) fn unpin_in_need(&mut self) {
        if let Some(pinner) = self.next_pool(|pool| pool.is_adaptive() && pool.len() > 0) {
            for _ in 0..DEMOTION_BATCH {
                self.give_up(pinner);
            }
        }
    }

    /// A pool that tries pages gives up one that it has the capacity for. A page that was not on trial loses its
    /// mappings at once: on the active list it would be pinned again, and nobody would ever get a frame.
    fn give_up(&mut self, pinner: PinnedIndex) {
        let proves = self.pinned.slots.at(pinner.slot()).is_some_and(PinnedPool::proves);
        if !proves || self.oldest_inactive(pinner).is_some() {
            return self.unpin_some(pinner);
        }
        if self.pinned.balanced < DEMOTION_BATCH
            && let Some(index) = self.oldest_active(pinner)
        {
            self.pinned.balanced += 1;
            self.unpin(pinner, index, true);
            let page = self.entries[index].page;
            self.emit_unmap(page, Scope::Of(Holder::Pool), UnmapReason::Demotion);
        }
    }

    /// The next pool, in turn, of which this holds. O(pools).
    fn next_pool(&mut self, wanted: impl Fn(&PinnedPool) -> bool) -> Option<PinnedIndex> {
        let count = self.pinned.slots.len();
        let found = (0..count)
            .map(|step| (usize::from(self.pinned.next) + step) % count)
            .find(|&slot| self.pinned.slots.at(slot).is_some_and(&wanted))?;
        let index = PinnedIndex(u16::try_from(found).ok()?);
        self.pinned.next = index.0.wrapping_add(1);
        Some(index)
    }
}
