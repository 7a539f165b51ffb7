//! Shared-Page Conservation (paper 000, section IV.A): a shared victim is not evicted but only unmapped from its
//! holder, which gets a frame without asking the pool.

use crate::effect::{Effect, Holder, Scope, UnmapReason};
use crate::index::EntryIndex;
use crate::memory::Memory;
use crate::pages::entry::Marks;

impl Memory {
    /// Whether another reservation has this page too.
    pub(crate) fn is_shared(&self, index: EntryIndex) -> bool {
        self.other_sharer(index, Marks::NONE).is_some()
    }

    /// Unmaps a shared page from its holder alone. The holder's free list gains one frame, at once: its own
    /// conserved frame, or, where it owned the page, that of the longest-sharing reservation that conserves one for
    /// it, which becomes the owner (Figure 4).
    pub(crate) fn unshare(&mut self, index: EntryIndex, reason: UnmapReason) {
        let entry = self.entries[index];
        let name: Holder = self.holder_name(entry.holder);
        self.emit_unmap(entry.page, Scope::Of(name), reason);
        let gained = if self.owner(entry.page) == index {
            self.succeed_owner(index)
        } else {
            debug_assert!(
                entry.marks.has(Marks::CONSERVES),
                "a foreign page without a conserved frame"
            );
            self.account(entry.holder).held.conserved.take_one()
        };
        self.account(entry.holder).held.free.put(gained);
        self.drop_entry(index);
    }

    /// Gives the page of an owner that leaves it to its heir, and returns the frame that the heir conserved for it.
    fn succeed_owner(&mut self, owner: EntryIndex) -> crate::frames::Frames {
        let Some(heir) = self.other_sharer(owner, Marks::CONSERVES) else {
            debug_assert!(false, "a shared page whose other sharers conserve nothing");
            return crate::frames::Frames::none();
        };
        #[cfg(feature = "canary")]
        if self.step.planted == Some(crate::canary::Planted::Ownership) {
            return self.planted_succession(owner, heir);
        }
        let holder = self.entries[heir].holder;
        self.record_transfer(owner, heir);
        self.pass_ownership(owner, heir);
        self.entries[heir].marks.clear(Marks::CONSERVES);
        self.account(holder).held.conserved.take_one()
    }

    /// An eviction passes a page on; departures, which may concern every page at once, are not recorded.
    fn record_transfer(&mut self, owner: EntryIndex, heir: EntryIndex) {
        let (from, to) = (self.entries[owner].holder, self.entries[heir].holder);
        if let (Some(from), Some(to)) = (self.account_of(from).id, self.account_of(to).id) {
            let page = self.page_ref(self.entries[heir].page);
            self.step.effects.push(Effect::Transfer { page, from, to });
        }
    }

    /// The planted bug of the `canary` feature: the heir becomes the owner, but the frame that it conserved stays
    /// with it and the evictor takes one from the pool, which only the physical law can tell.
    #[cfg(feature = "canary")]
    fn planted_succession(&mut self, owner: EntryIndex, heir: EntryIndex) -> crate::frames::Frames {
        self.pass_ownership(owner, heir);
        if self.pool().held.free.is_empty() {
            let holder = self.entries[heir].holder;
            return self.account(holder).held.conserved.take_one();
        }
        self.accounts[0].held.free.take_one()
    }
}
