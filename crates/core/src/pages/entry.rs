//! List entries: one page on the lists of one holder. The paper's `mem_reserve_page` (section V): a link in the local
//! list, a link in the page's ownership list, and the page.

use alloc::vec::Vec;

use crate::index::{EntryIndex, HolderIndex, PageNumber};

/// Where an entry is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Place {
    /// Unused.
    Vacant,
    /// On the holder's active list.
    Active,
    /// On the holder's inactive list: its mappings are gone, and a fault proves that it is still referenced.
    Inactive,
    /// Of the pool: on the half of the inactive list whose pages are still mapped.
    InactiveMapped,
    /// Pinned, on the active list of a pinned page pool.
    PinnedActive,
    /// Pinned, on the inactive list of a pinned page pool: unmapped since it was put there, unless referenced.
    PinnedInactive,
    /// Locked by the holder, on no replacement list.
    Locked,
    /// Evicted by the holder; the frame is not free yet.
    Leaving,
}

/// What is true of an entry besides its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks(u8);

impl Marks {
    pub(crate) const NONE: Self = Self(0);
    /// The page is there for this holder.
    pub(crate) const SETTLED: Self = Self(1);
    /// Not settled yet, but a frame of the holder is set aside for it (in flight).
    pub(crate) const HAS_FRAME: Self = Self(2);
    /// Not the owner: the holder conserves one frame for it (Shared-Page Conservation).
    pub(crate) const CONSERVES: Self = Self(4);
    /// Locked, and another locker pays the frame (Shared-Page Eviction Lock).
    pub(crate) const UNPAID: Self = Self(8);
    /// Not the owner, under `none`: the holder returned one frame to the pool.
    pub(crate) const RETURNED: Self = Self(16);
    /// Leaving, and its frame goes back to the pool that lent it.
    pub(crate) const TAKEN_BACK: Self = Self(32);

    /// Pinned and inactive, and touched since: its reference bit.
    pub(crate) const REFERENCED: Self = Self(64);
    /// Of a locked entry: by a program for itself, so the holder pays the frame, whoever else locks the page.
    pub(crate) const SELF_PAID: Self = Self(128);

    /// Of a pinned entry on the inactive list: on trial, by the preset `freehold`, since a round with an odd number.
    /// The same bit: an entry is never locked and pinned, and what takes it off either list clears the mark.
    pub(crate) const ODD_ROUND: Self = Self(128);
}

crate::pages::marks::marks!(Marks);

/// One entry: 20 bytes (the paper's take 56).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) previous: EntryIndex,
    pub(crate) next: EntryIndex,
    /// The next entry of the page's ownership list, in order of sharing; the first is the owner's.
    pub(crate) next_sharer: EntryIndex,
    pub(crate) page: PageNumber,
    pub(crate) holder: HolderIndex,
    pub(crate) place: Place,
    pub(crate) marks: Marks,
}

impl Entry {
    /// Whether the page is locked by the eviction lock, whose lockers share the payment.
    pub(crate) const fn is_shared_lock(&self) -> bool {
        matches!(self.place, Place::Locked) && !self.marks.has(Marks::SELF_PAID)
    }

    /// Whether its place lets its page be mapped for the holder's tasks.
    pub(crate) const fn is_mapped_place(&self) -> bool {
        match self.place {
            Place::Active | Place::InactiveMapped | Place::PinnedActive | Place::Locked => true,
            Place::PinnedInactive => self.marks.has(Marks::REFERENCED),
            Place::Inactive | Place::Leaving | Place::Vacant => false,
        }
    }
}

const _: () = assert!(size_of::<Entry>() == 20);

const VACANT: Entry = Entry {
    previous: EntryIndex::NONE,
    next: EntryIndex::NONE,
    next_sharer: EntryIndex::NONE,
    page: PageNumber::NONE,
    holder: HolderIndex::NONE,
    place: Place::Vacant,
    marks: Marks::NONE,
};

/// All entries, the vacant ones chained through `next`. Behind them is room for more, whose memory nobody has touched.
#[derive(Debug)]
pub(crate) struct Entries {
    slots: Vec<Entry>,
    /// How many there can be.
    limit: usize,
    vacant: EntryIndex,
}

impl Entries {
    /// A table of `ready` vacant entries with room for `more`; `None` where memory is not to be had.
    pub(crate) fn with_capacity(ready: u32, more: u32) -> Option<Self> {
        let limit = ready.checked_add(more)? as usize;
        let mut slots = Vec::new();
        slots.try_reserve_exact(limit).ok()?;
        for raw in 0..ready {
            let next = if raw + 1 == ready {
                EntryIndex::NONE
            } else {
                EntryIndex(raw + 1)
            };
            slots.push(Entry { next, ..VACANT });
        }
        let vacant = if ready == 0 { EntryIndex::NONE } else { EntryIndex(0) };
        Some(Self { slots, limit, vacant })
    }

    /// A new entry, on no list.
    pub(crate) fn make(&mut self, holder: HolderIndex, page: PageNumber) -> Option<EntryIndex> {
        let Some(index) = self.vacant.some() else {
            return self.begin(Entry { page, holder, ..VACANT });
        };
        self.vacant = self[index].next;
        self[index] = Entry { page, holder, ..VACANT };
        Some(index)
    }

    /// Takes the first of the room behind the entries. It never allocates: the room is there.
    fn begin(&mut self, entry: Entry) -> Option<EntryIndex> {
        if self.slots.len() >= self.limit {
            return None;
        }
        let index = EntryIndex(u32::try_from(self.slots.len()).ok()?);
        self.slots.push(entry);
        Some(index)
    }

    /// Gives an entry back. It is on no list and no ownership list.
    pub(crate) fn discard(&mut self, index: EntryIndex) {
        let next = self.vacant;
        self[index] = Entry { next, ..VACANT };
        self.vacant = index;
    }

    /// The entries in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EntryIndex, &Entry)> {
        (0u32..)
            .map(EntryIndex)
            .zip(&self.slots)
            .filter(|(_, entry)| entry.place != Place::Vacant)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Entry>()
    }
}

impl core::ops::Index<EntryIndex> for Entries {
    type Output = Entry;

    fn index(&self, index: EntryIndex) -> &Entry {
        &self.slots[index.slot()]
    }
}

impl core::ops::IndexMut<EntryIndex> for Entries {
    fn index_mut(&mut self, index: EntryIndex) -> &mut Entry {
        &mut self.slots[index.slot()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_behind_those_at_hand_are_taken_when_needed_and_no_more() {
        let mut entries = Entries::with_capacity(2, 1).unwrap();
        let bytes = entries.bytes();
        let mut make = || entries.make(HolderIndex::NONE, PageNumber::NONE).map(|index| index.0);
        assert_eq!([make(), make(), make(), make()], [Some(0), Some(1), Some(2), None]);
        entries.discard(EntryIndex(1));
        let again = entries.make(HolderIndex::NONE, PageNumber::NONE);
        assert_eq!(again, Some(EntryIndex(1)), "what was given back comes first");
        assert_eq!(entries.bytes(), bytes, "nothing was allocated");
        let mut none = Entries::with_capacity(0, 1).unwrap();
        assert!(none.make(HolderIndex::NONE, PageNumber::NONE).is_some());
        assert!(none.make(HolderIndex::NONE, PageNumber::NONE).is_none());
    }
}
