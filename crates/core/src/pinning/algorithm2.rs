//! Algorithm 2 of paper 001 (section III.D): window-based unpinning, which takes pages out of a pinned page pool.
//!
//! ```text
//!  1  while the inactive list is empty, or the active one is over gamma times as long     (balance scan)
//!  2      P = the oldest of the active list
//!  3      clear P's reference bit
//!  4      put P at the new end of the inactive list
//!  5  found = false                                                                        (unpin scan)
//!  6  window = length of the inactive list * epsilon
//!  7  window times
//!  8      P = the oldest of the inactive list
//!  9      if P's reference bit is clear
//! 10          put P on the global inactive list
//! 11          found = true
//! 12      else
//! 13          put P at the new end of the active list
//! 14  if not found
//! 15      P = the oldest of the inactive list
//! 16      put P on a global list
//! 17      epsilon = min(1, epsilon * 2)
//! 18  else
//! 19      epsilon = epsilon / 2
//! ```
//!
//! Here a page has no reference bit but a mapping: it loses that, and the next touch is a fault. The text and the
//! listing differ in lines 10 and 16 (see [`UnpinnedGoTo`]). A window has at least one page, and a balance scan at most
//! a batch: the rest comes with the next.

use crate::effect::{Holder, Scope, UnmapReason};
use crate::index::{EntryIndex, PinnedIndex};
use crate::memory::{DEMOTION_BATCH, Memory};
use crate::pages::entry::{Marks, Place};
use crate::pinning::settings::UnpinnedGoTo;

/// `ε` never gets smaller than one half to this power: windows are then one page however long the list is.
const MOST_HALVINGS: u32 = 31;

impl Memory {
    /// Runs the algorithm once: at least one page leaves, where there is one.
    pub(crate) fn algorithm2(&mut self, pinner: PinnedIndex) {
        self.balance_scan(pinner); // 1 to 4
        let mut found = false; // 5
        let window = self.window(pinner); // 6
        // 7
        for _ in 0..window {
            // 8
            let Some(index) = self.oldest_inactive(pinner) else {
                break;
            };
            // 9
            if !self.entries[index].marks.has(Marks::REFERENCED) {
                self.unpin(pinner, index, true); // 10
                found = true; // 11
            // 12
            } else {
                self.relink(index, Place::PinnedActive); // 13
            }
        }
        // 14 to 16
        if !found && let Some(index) = self.oldest_inactive(pinner) {
            self.unpin(pinner, index, false);
        } else if !found && let Some(index) = self.oldest_active(pinner) {
            // The window was the whole list, and all of it is in use: the page that follows is the oldest active one.
            self.unpin(pinner, index, false);
        }
        if let Some(pool) = self.pinned.get_mut(pinner) {
            pool.halvings = if found {
                (pool.halvings + 1).min(MOST_HALVINGS) // 19
            } else {
                pool.halvings.saturating_sub(1) // 17
            };
        }
    }

    /// The balance scan: pages lose their reference bits, here their mappings, and have to prove their use, until the
    /// active list is at most γ times as long as the inactive one. At most a batch at a time, the rest next time.
    fn balance_scan(&mut self, pinner: PinnedIndex) {
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

    pub(crate) fn oldest_inactive(&self, pinner: PinnedIndex) -> Option<EntryIndex> {
        self.pinned.slots.at(pinner.slot())?.inactive.first()
    }

    pub(crate) fn oldest_active(&self, pinner: PinnedIndex) -> Option<EntryIndex> {
        self.pinned.slots.at(pinner.slot())?.active.first()
    }

    /// Takes a page out of its pool. `cold`: it was found unreferenced.
    pub(crate) fn unpin(&mut self, pinner: PinnedIndex, index: EntryIndex, cold: bool) {
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
}
