//! Taking pages off a holder's lists, so that it has frames for the pages it faults on.

use crate::effect::{Effect, Holder, Scope, UnmapReason};
use crate::index::{EntryIndex, HolderIndex};
use crate::limits::Regime;
use crate::memory::Memory;
use crate::pages::entry::{Marks, Place};
use crate::pages::page::PageMarks;
use crate::view::PageState;

impl Memory {
    /// Sees to it that `wanted` more claims of this holder will get a frame: borrows one, takes back what the pool
    /// lent, or evicts a batch. Afterwards frames are free, or leaving, or nothing can be done.
    ///
    /// A reservation's victims depend only on its own lists: not on when a write-back ends (frames leaving count as
    /// there) and not on whether a neighbour keeps the page (a shared victim costs the lists the same), which is law 0.
    pub(crate) fn make_room(&mut self, holder: HolderIndex, wanted: i64) {
        let (supply, policy) = (self.account_of(holder).uncommitted_supply(), self.policy(holder));
        if supply >= wanted {
            if policy.uses_global_lists() {
                self.clear_before_need(supply);
            }
            return;
        }
        if policy.lends() && (self.admission_reclaim.frames > 0 || self.take_back(1) > 0) {
            return;
        }
        if policy.borrows() && self.borrow(holder) {
            return;
        }
        if !self.room_for_batch() {
            return;
        }
        self.evict_batch(holder);
    }

    /// Demotes and evicts one batch.
    pub(crate) fn evict_batch(&mut self, holder: HolderIndex) {
        self.demote(holder);
        for _ in 0..self.victims_now(holder) {
            let Some(index) = self.victim(holder) else { break };
            self.count_eviction(holder);
            self.evict(index, UnmapReason::Eviction);
        }
    }

    /// Counts an eviction to the task for whose fault it is: the one whose fault is handled, or the oldest that waits
    /// and for which no frame is coming yet. O(claims).
    fn count_eviction(&mut self, holder: HolderIndex) {
        let account = self.account_of(holder);
        let provided = account.held.free.len() + account.leaving;
        let mut oldest = account.claims.first();
        for _ in 0..provided {
            let next = oldest.and_then(|task| self.tasks.at(task.slot())?.next_claim.some());
            if next.is_none() {
                break;
            }
            oldest = next;
        }
        let acting = self.step.acting.some().filter(|task| self.task_holder(*task) == holder);
        let task = acting.or(oldest);
        if let Some(task) = task.and_then(|task| self.tasks.at_mut(task.slot())) {
            task.counts.evictions += 1;
        }
    }

    /// Takes a settled page off its holder. Only private pages leave memory (law 2); under `none` a shared page leaves
    /// it for all.
    pub(crate) fn evict(&mut self, index: EntryIndex, reason: UnmapReason) {
        let page = self.entries[index].page;
        if self.is_shared(index) {
            if self.regime(page) == Regime::Conserve {
                self.unshare(index, reason);
                return;
            }
            self.take_from_all(index);
        }
        self.expel(index, reason);
    }

    /// Sends a page that only this entry's holder has out of memory. Its mappings go first, all of them, even those
    /// that a demotion removed before: the engine may not have carried that out yet (law 5).
    fn expel(&mut self, index: EntryIndex, reason: UnmapReason) {
        let entry = self.entries[index];
        self.unlink(index);
        self.link(index, Place::Leaving);
        self.entries[index].marks.clear(Marks::SETTLED);
        if self.policy(entry.holder).uses_global_lists() {
            // When it was decided, not when it is gone: that must not depend on how fast its store is.
            self.entries[index].set_evicted_at(self.reclaim.refaults.age);
            self.advance_age();
            self.note_left(entry.page);
        }
        let account = self.account(entry.holder);
        let frame = account.held.owned.take_one();
        account.held.in_flight.put(frame);
        account.leaving += 1;
        self.set_state(entry.page, PageState::Leaving);
        self.count_resident(entry.page, -1);
        let page = self.emit_unmap(entry.page, Scope::Everyone, reason);
        // What is taken back is the pool's, and so is the request: its ends are nobody's business but the pool's.
        let holder = match reason {
            UnmapReason::TakenBack => Holder::Pool,
            _ => self.holder_name(entry.holder),
        };
        let dirty = self.pages[entry.page].marks.has(PageMarks::DIRTY);
        self.step.effects.push(if dirty {
            Effect::WriteBack { page, holder }
        } else {
            Effect::Discard { page, holder }
        });
    }
}
