//! The price of a page that is there: the holder's frame becomes the page's, is conserved, or returns to the pool.

use crate::index::{EntryIndex, PageNumber};
use crate::limits::Regime;
use crate::memory::Memory;
use crate::pages::entry::{Marks, Place};

impl Memory {
    /// Settles an entry whose page is resident: the frame set aside for it becomes the page's own, is conserved, or
    /// goes back to the pool.
    pub(crate) fn settle(&mut self, index: EntryIndex) {
        let entry = self.entries[index];
        debug_assert!(entry.marks.has(Marks::HAS_FRAME) && !entry.marks.has(Marks::SETTLED));
        let owner = self.owner(entry.page);
        let frame = self.account(entry.holder).held.in_flight.take_one();
        if owner == index {
            self.account(entry.holder).held.owned.put(frame);
        } else if !self.policy(entry.holder).is_promised() {
            // A reservation was faster: the pool needs no frame for its page, and its tasks share it there.
            self.give_pool(frame);
            self.entries[index].marks.clear(Marks::HAS_FRAME);
            self.drop_entry(index);
            return;
        } else if !self.policy(self.entries[owner].holder).is_promised() {
            self.adopt(owner, index);
            self.give_pool(frame);
        } else if self.regime(entry.page) == Regime::Unmanaged {
            self.entries[index].marks.set(Marks::RETURNED);
            self.account(entry.holder).unmanaged.returned += 1;
            self.give_pool(frame);
        } else {
            self.account(entry.holder).held.conserved.put(frame);
            self.entries[index].marks.set(Marks::CONSERVES);
        }
        if self.owner(entry.page) != index {
            self.put_behind_sharers(index);
        }
        self.mark_settled(index);
        if entry.place == Place::Locked {
            self.settle_payment(entry.page);
        }
        if self.account_of(entry.holder).has_ended() {
            self.depart(index);
            // It may have been the last: the page is no longer this holder's, and nothing else calls it.
            self.call_for_service(entry.holder);
        }
    }

    fn mark_settled(&mut self, index: EntryIndex) {
        let entry = &mut self.entries[index];
        entry.marks.clear(Marks::HAS_FRAME);
        entry.marks.set(Marks::SETTLED);
        let place = entry.place;
        let account = &mut self.accounts[entry.holder.slot()];
        account.lists.settle(place);
        if account.policy.uses_global_lists() {
            self.pin_on_arrival(index);
        }
    }

    /// Adoption (law 2): a page that only the pool has becomes the reservation's own.
    fn adopt(&mut self, pooled: EntryIndex, index: EntryIndex) {
        let holder = self.entries[index].holder;
        let frame = self.accounts[0].held.owned.take_one();
        self.account(holder).held.owned.put(frame);
        self.drop_entry(pooled);
        self.put_first(index);
    }

    /// Settles every entry of a page, just resident, that has its frame; the first is the owner's.
    pub(crate) fn settle_all(&mut self, page: PageNumber) {
        while let Some(index) = self.sharer_with_frame(page) {
            self.settle(index);
        }
    }

    /// The first sharer that has a frame set aside for the page but not the page yet.
    pub(crate) fn sharer_with_frame(&self, page: PageNumber) -> Option<EntryIndex> {
        self.sharers(page)
            .find(|&index| self.entries[index].marks.has(Marks::HAS_FRAME))
    }
}
