//! Pages that their holder leaves: the reservation ends, or none of its tasks maps the object any more.

use crate::frames::Frames;
use crate::index::{EntryIndex, HolderIndex};
use crate::limits::Regime;
use crate::memory::Memory;
use crate::pages::entry::{Marks, Place};

impl Memory {
    /// Takes an entry off its holder, whose reservation ends. Sharers keep the page; one that nobody shares belongs
    /// to the pool from now on. The holder's frame for it, where it keeps one, becomes free.
    pub(crate) fn depart(&mut self, index: EntryIndex) {
        let entry = self.entries[index];
        debug_assert!(entry.marks.has(Marks::SETTLED), "a page on its way cannot be left");
        if entry.marks.has(Marks::UNPAID) {
            self.account(entry.holder).unpaid -= 1;
            self.frames.unpaid -= 1;
            self.drop_entry(index);
        } else if entry.marks.has(Marks::CONSERVES) && !entry.is_shared_lock() {
            // A foreign page, the usual case: the conserved frame is free, and its owner keeps the page.
            let account = self.account(entry.holder);
            let frame = account.held.conserved.take_one();
            account.held.free.put(frame);
            self.drop_entry(index);
        } else if let Some(next) = self.other_sharer(index, Marks::NONE) {
            let frame = self.leave_to_sharers(index, next);
            self.account(entry.holder).held.free.put(frame);
            self.drop_entry(index);
        } else {
            self.leave_to_pool(index);
        }
    }

    /// The page's frame, and the page, go to the pool's inactive list.
    fn leave_to_pool(&mut self, index: EntryIndex) {
        let (holder, page) = (self.entries[index].holder, self.entries[index].page);
        if let Some(claim) = self.find_entry(HolderIndex::POOL, page) {
            // The pool waited for a frame to bring this page in; now it has the page itself.
            self.withdraw_entry(claim);
        }
        self.unlink(index);
        let frame = self.account(holder).held.owned.take_one();
        self.accounts[0].held.owned.put(frame);
        self.entries[index].holder = HolderIndex::POOL;
        self.link(index, Place::Inactive);
        self.wake(page);
    }

    /// Hands over what this entry bears for a page that others keep, and returns the frame that is free then, if any.
    /// `next` is the first of them.
    fn leave_to_sharers(&mut self, index: EntryIndex, next: EntryIndex) -> Frames {
        let entry = self.entries[index];
        let owns = self.owner(entry.page) == index;
        if self.regime(entry.page) == Regime::Unmanaged {
            return self.leave_unmanaged(index, owns);
        }
        let payer = entry.is_shared_lock() && !self.another_pays(index);
        let frame = if owns {
            let heir = if self.entries[next].marks.has(Marks::CONSERVES) {
                Some(next)
            } else {
                self.other_sharer(index, Marks::CONSERVES)
            };
            let Some(heir) = heir else {
                return self.bequeath_payment(index);
            };
            let holder = self.entries[heir].holder;
            self.pass_ownership(index, heir);
            self.entries[heir].marks.clear(Marks::CONSERVES);
            self.account(holder).held.conserved.take_one()
        } else {
            self.account(entry.holder).held.conserved.take_one()
        };
        // Other lockers who counted on this one's frame now get it: the payer's exit moves the payment (law 4).
        let counts_on_it = payer.then(|| self.other_sharer(index, Marks::UNPAID)).flatten();
        match counts_on_it {
            Some(heir) => {
                let holder = self.entries[heir].holder;
                self.account(holder).held.conserved.put(frame);
                self.entries[heir].marks.set(Marks::CONSERVES);
                self.mark_paid(heir);
                Frames::none()
            }
            None => frame,
        }
    }

    /// All other sharers lock the page and pay nothing: ownership, frame and payment go to the first of them.
    fn bequeath_payment(&mut self, index: EntryIndex) -> Frames {
        if let Some(heir) = self.other_sharer(index, Marks::UNPAID) {
            self.pass_ownership(index, heir);
            self.mark_paid(heir);
        }
        Frames::none()
    }

    fn leave_unmanaged(&mut self, index: EntryIndex, owns: bool) -> Frames {
        let holder = self.entries[index].holder;
        if owns {
            if let Some(heir) = self.other_sharer(index, Marks::RETURNED) {
                self.pass_ownership(index, heir);
                self.entries[heir].marks.clear(Marks::RETURNED);
                let heir = self.entries[heir].holder;
                self.account(heir).unmanaged.returned -= 1;
            }
        } else {
            self.account(holder).unmanaged.returned -= 1;
        }
        Frames::none()
    }
}
