//! The paper's No-SP-Mgmt, `none`: shared pages are managed as private ones are, and any sharer may evict a page for
//! all. It exists to show what Shared-Page Conservation prevents; laws 0 and 2 do not hold here and are counted.

use crate::index::{EntryIndex, HolderIndex, PageNumber};
use crate::memory::{COMPARED_SLOTS, Memory};
use crate::pages::entry::Marks;

impl Memory {
    /// Takes a page that `evictor` is about to evict from all its other sharers. The page's own frame ends up in the
    /// evictor's `owned`; every other sharer is owed a frame.
    pub(crate) fn take_from_all(&mut self, evictor: EntryIndex) {
        let page = self.entries[evictor].page;
        let holder = self.entries[evictor].holder;
        let owner = self.owner(page);
        if owner != evictor {
            self.pass_ownership(owner, evictor);
            self.entries[evictor].marks.clear(Marks::RETURNED);
            self.account(holder).unmanaged.returned -= 1;
            // What the former owner lost is made up for below, as for every other sharer.
            let former = self.entries[owner].holder;
            self.entries[owner].marks.set(Marks::RETURNED);
            self.account(former).unmanaged.returned += 1;
        }
        while let Some(other) = self.other_sharer(evictor, Marks::NONE) {
            let loser = self.entries[other].holder;
            self.remember_taken(page, loser);
            self.account(loser).unmanaged.returned -= 1;
            self.drop_entry(other);
            self.owe(loser, 1);
        }
    }

    fn taken_row(&self, page: PageNumber) -> Option<usize> {
        let object = self.object_of(page);
        (object.regime == crate::limits::Regime::Unmanaged)
            .then(|| (object.first_taken + (page.0 - object.first)) as usize)
    }

    fn remember_taken(&mut self, page: PageNumber, loser: HolderIndex) {
        if let Some(row) = self.taken_row(page) {
            self.pages.taken[row] |= 1 << (loser.0 - 1);
        }
    }

    /// A reservation that has ended leaves no trace to the next one in its slot. O(pages under `none`).
    pub(crate) fn forget_taken(&mut self, holder: HolderIndex) {
        if u32::from(holder.0) <= COMPARED_SLOTS {
            let bit = 1u32 << (holder.0 - 1);
            self.pages.taken.iter_mut().for_each(|row| *row &= !bit);
        }
    }

    /// Whether another's eviction took this page from `holder`; forgets it.
    pub(crate) fn recall_taken(&mut self, page: PageNumber, holder: HolderIndex) -> bool {
        let Some(row) = self.taken_row(page).filter(|_| self.policy(holder).is_promised()) else {
            return false;
        };
        let bit = 1u32 << (holder.0 - 1);
        let taken = self.pages.taken[row] & bit != 0;
        self.pages.taken[row] &= !bit;
        taken
    }
}
