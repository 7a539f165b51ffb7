//! The ownership list of a page: the owner's entry first, then the other sharers in the order in which they came.

use crate::index::{EntryIndex, HolderIndex, PageNumber};
use crate::memory::Memory;
use crate::pages::entry::{Marks, Place};

impl Memory {
    /// The sharers of a page, first the owner.
    pub(crate) fn sharers(&self, page: PageNumber) -> impl Iterator<Item = EntryIndex> + '_ {
        let mut next = self.pages[page].first_sharer();
        core::iter::from_fn(move || {
            let index = next.some()?;
            next = self.entries[index].next_sharer;
            Some(index)
        })
    }

    /// The entry through which `holder` has the page on its lists or on the way there. O(sharers).
    pub(crate) fn find_entry(&self, holder: HolderIndex, page: PageNumber) -> Option<EntryIndex> {
        self.sharers(page).find(|&index| {
            let entry = &self.entries[index];
            entry.holder == holder && entry.place != Place::Leaving
        })
    }

    /// Adds an entry behind the other sharers.
    pub(crate) fn append_sharer(&mut self, index: EntryIndex) {
        let page = self.entries[index].page;
        self.entries[index].next_sharer = EntryIndex::NONE;
        match self.sharers(page).last() {
            Some(last) => self.entries[last].next_sharer = index,
            None => self.pages[page].set_first_sharer(index),
        }
    }

    /// Takes an entry out of the ownership list. O(sharers).
    pub(crate) fn remove_sharer(&mut self, index: EntryIndex) {
        let page = self.entries[index].page;
        let next = self.entries[index].next_sharer;
        let first = self.pages[page].first_sharer();
        if first == index {
            self.pages[page].set_first_sharer(next);
        } else {
            let mut before = first;
            while let Some(other) = before.some() {
                before = self.entries[other].next_sharer;
                if before == index {
                    self.entries[other].next_sharer = next;
                    break;
                }
            }
        }
        self.entries[index].next_sharer = EntryIndex::NONE;
    }

    /// Makes an entry of the ownership list its first: the owner's.
    pub(crate) fn put_first(&mut self, index: EntryIndex) {
        let page = self.entries[index].page;
        if self.pages[page].first_sharer() == index {
            return;
        }
        self.remove_sharer(index);
        self.entries[index].next_sharer = self.pages[page].first_sharer();
        self.pages[page].set_first_sharer(index);
    }

    /// Puts an entry that is about to share the page behind those that share it already: it may have waited for its
    /// frame while later ones were served, and the longest-sharing reservation is the heir (law 2). O(sharers).
    pub(crate) fn put_behind_sharers(&mut self, index: EntryIndex) {
        self.remove_sharer(index);
        let page = self.entries[index].page;
        let settled = |other: &EntryIndex| self.entries[*other].marks.has(Marks::SETTLED);
        let Some(last) = self.sharers(page).filter(settled).last() else {
            return self.append_sharer(index);
        };
        self.entries[index].next_sharer = self.entries[last].next_sharer;
        self.entries[last].next_sharer = index;
    }

    /// The owner's entry of a resident page.
    pub(crate) fn owner(&self, page: PageNumber) -> EntryIndex {
        self.pages[page].first_sharer()
    }

    /// The first other sharer that has the page and bears `marks`, in order of sharing.
    pub(crate) fn other_sharer(&self, index: EntryIndex, marks: Marks) -> Option<EntryIndex> {
        let page = self.entries[index].page;
        self.sharers(page).find(|&other| {
            let found = self.entries[other].marks;
            other != index && found.has(Marks::SETTLED) && found.has(marks)
        })
    }

    /// Passes the page's own frame from its owner to `heir`, another sharer, and makes that the owner.
    pub(crate) fn pass_ownership(&mut self, owner: EntryIndex, heir: EntryIndex) {
        let (from, to) = (self.entries[owner].holder, self.entries[heir].holder);
        let frame = self.account(from).held.owned.take_one();
        self.account(to).held.owned.put(frame);
        // Mostly the heir is the next, and the first once the owner has left.
        if self.entries[owner].next_sharer != heir {
            self.put_first(heir);
        } else {
            self.swap_first(owner, heir);
        }
    }

    /// Swaps the first of the ownership list and the one behind it. O(1).
    fn swap_first(&mut self, first: EntryIndex, second: EntryIndex) {
        let page = self.entries[first].page;
        debug_assert!(self.pages[page].first_sharer() == first && self.entries[first].next_sharer == second);
        self.entries[first].next_sharer = self.entries[second].next_sharer;
        self.entries[second].next_sharer = first;
        self.pages[page].set_first_sharer(second);
    }

    /// Takes an entry, which holds no frame any more, off everything and gives it back.
    pub(crate) fn drop_entry(&mut self, index: EntryIndex) {
        self.unlink(index);
        self.remove_sharer(index);
        self.entries.discard(index);
    }
}
