//! Replacement: first in, first out, with a second chance (paper 000, section II.B, after Mach's lists).
//!
//! The paper reads reference bits; here a page's mappings are removed when it moves to the inactive list, and a fault
//! on it while it is there is its reference bit: it returns to the end of the active list. Pages that nobody touched
//! since they were demoted are evicted, oldest first. Nothing is scanned or unmapped before a fault finds no frame.

use crate::effect::{Scope, UnmapReason};
use crate::index::{EntryIndex, HolderIndex};
use crate::memory::{DEMOTION_BATCH, EVICTION_BATCH, Memory, POOL_EVICTION_BATCH};
use crate::pages::entry::{Marks, Place};

/// The share of a holder's pages that ought to be inactive: one quarter, the time in which a page can prove that it is
/// used.
const INACTIVE_SHARE: u32 = 4;
/// Holders of fewer frames evict fewer pages at a time, so that a batch never empties their lists.
const BATCH_SHARE: u32 = 32;

impl Memory {
    /// Frames freed together when this holder has none: few enough to cost little of a small reservation.
    pub(crate) fn eviction_batch(&self, holder: HolderIndex) -> u32 {
        if self.policy(holder).uses_global_lists() {
            // Its own pages, not all frames: reservations may have left it few.
            let account = self.account_of(holder);
            let pages = account.lists.active().len() + account.lists.unused();
            let batch = (pages / BATCH_SHARE).clamp(1, POOL_EVICTION_BATCH);
            return batch.max(self.read_ahead_batch(pages)).min(POOL_EVICTION_BATCH);
        }
        (self.account_of(holder).capacity / BATCH_SHARE).clamp(1, EVICTION_BATCH)
    }

    /// Moves pages from the front of the active list to the inactive list until that has its share, at most
    /// [`DEMOTION_BATCH`] of them. The pool's lists have rules of their own.
    pub(crate) fn demote(&mut self, holder: HolderIndex) {
        if self.policy(holder).uses_global_lists() {
            return self.scan_global_lists();
        }
        let name = self.holder_name(holder);
        let mut demoted = 0;
        while demoted < DEMOTION_BATCH {
            let account = self.account_of(holder);
            let pages = account.lists.active_pages() + account.lists.inactive().len();
            let wanted = (pages / INACTIVE_SHARE).max(self.eviction_batch(holder).min(pages));
            if account.lists.inactive().len() >= wanted || account.lists.active_pages() == 0 {
                break;
            }
            let Some(index) = account.lists.active().first() else {
                break;
            };
            if self.entries[index].marks.has(Marks::SETTLED) {
                demoted += 1;
                self.relink(index, Place::Inactive);
                self.emit_unmap(self.entries[index].page, Scope::Of(name), UnmapReason::Demotion);
            } else {
                // Still on its way in: as good as referenced. Not counted, or many of them would hide those behind.
                self.relink(index, Place::Active);
            }
        }
    }

    /// The page that has been inactive longest.
    pub(crate) fn victim(&self, holder: HolderIndex) -> Option<EntryIndex> {
        self.account_of(holder).lists.inactive().first()
    }

    /// A fault on an entry's page: it is referenced, so it is active again.
    pub(crate) fn reference(&mut self, index: EntryIndex) {
        match self.entries[index].place {
            Place::Inactive => {
                if self.policy(self.entries[index].holder).uses_global_lists() {
                    self.advance_age();
                }
                self.relink(index, Place::Active);
            }
            Place::PinnedInactive if self.tries(index) => self.end_trial(index),
            Place::PinnedInactive => self.entries[index].marks.set(Marks::REFERENCED),
            _ => {}
        }
    }
}
