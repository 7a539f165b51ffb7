//! Which pages leave a pinned page pool: Algorithm 2 of paper 001, window-based unpinning.

use crate::effect::{Holder, Scope, UnmapReason};
use crate::entry::{Marks, Place};
use crate::index::{EntryIndex, PinnedIndex};
use crate::memory::{DEMOTION_BATCH, Memory};
use crate::pinning::pool::PinnedPool;
use crate::pinning::settings::UnpinnedGoTo;

/// `ε` never gets smaller than one half to this power: windows are then one page however long the list is.
const MOST_HALVINGS: u32 = 31;

impl Memory {
    /// Runs Algorithm 2 once: at least one page leaves, where there is one.
    pub(crate) fn unpin_some(&mut self, pinner: PinnedIndex) {
        if self.pinned.slots.at(pinner.slot()).is_some_and(PinnedPool::proves) {
            return self.unpin_oldest(pinner);
        }
        self.balance(pinner);
        let window = self.window(pinner);
        let mut found = false;
        for _ in 0..window {
            let Some(index) = self.oldest_inactive(pinner) else {
                break;
            };
            if self.entries[index].marks.has(Marks::REFERENCED) {
                self.relink(index, Place::PinnedActive);
            } else {
                self.unpin(pinner, index, true);
                found = true;
            }
        }
        if !found && let Some(index) = self.oldest_inactive(pinner) {
            self.unpin(pinner, index, false);
        } else if !found && let Some(index) = self.oldest_active(pinner) {
            // The window was the whole list, and all of it is in use: the page that follows is the oldest active one.
            self.unpin(pinner, index, false);
        }
        if let Some(pool) = self.pinned.get_mut(pinner) {
            pool.halvings = if found {
                (pool.halvings + 1).min(MOST_HALVINGS)
            } else {
                pool.halvings.saturating_sub(1)
            };
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

    /// The balance scan: pages lose their reference bits, here their mappings, and have to prove their use, until the
    /// active list is at most γ times as long as the inactive one. At most a batch at a time, the rest next time.
    fn balance(&mut self, pinner: PinnedIndex) {
        for _ in 0..DEMOTION_BATCH {
            let Some(pool) = self.pinned.get_mut(pinner) else {
                return;
            };
            let (active, inactive) = (pool.active.len(), pool.inactive.len());
            let long = inactive == 0 || u64::from(active) > u64::from(inactive) * u64::from(pool.settings.gamma);
            if !long || self.pinned.balanced >= DEMOTION_BATCH {
                return;
            }
            let Some(index) = self.oldest_active(pinner) else {
                return;
            };
            self.pinned.balanced += 1;
            self.entries[index].marks.clear(Marks::REFERENCED);
            self.relink(index, Place::PinnedInactive);
            let page = self.entries[index].page;
            self.emit_unmap(page, Scope::Of(Holder::Pool), UnmapReason::Demotion);
        }
    }

    /// The length of the inactive list times ε, at least one page.
    fn window(&self, pinner: PinnedIndex) -> u32 {
        let pool = self.pinned.slots.at(pinner.slot());
        pool.map_or(1, |pool| (pool.inactive.len() >> pool.halvings).max(1))
    }

    fn oldest_inactive(&self, pinner: PinnedIndex) -> Option<EntryIndex> {
        self.pinned.slots.at(pinner.slot())?.inactive.first()
    }

    fn oldest_active(&self, pinner: PinnedIndex) -> Option<EntryIndex> {
        self.pinned.slots.at(pinner.slot())?.active.first()
    }

    /// Takes a page out of its pool. `cold`: it was found unreferenced.
    fn unpin(&mut self, pinner: PinnedIndex, index: EntryIndex, cold: bool) {
        let Some(pool) = self.pinned.get_mut(pinner) else {
            return;
        };
        pool.unpinned += 1;
        match (pool.settings.unpinned_go_to, cold) {
            (UnpinnedGoTo::Text, true) => self.make_next_victim(index),
            (UnpinnedGoTo::Text, false) => {
                self.unlink(index);
                self.link_oldest(index);
            }
            (UnpinnedGoTo::Listing, _) => self.relink(index, Place::InactiveMapped),
        }
        self.entries[index].marks.clear(Marks::REFERENCED);
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
