//! The table of pages: where each page's content is, and which holders use the page. A page that no holder uses keeps
//! the age of the lists at its eviction.

use alloc::vec::Vec;

use crate::index::{EntryIndex, PageNumber};
use crate::replacement::Age;
use crate::view::PageState;

/// What is true of a page besides its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageMarks(u8);

impl PageMarks {
    pub(crate) const NONE: Self = Self(0);
    /// Written since its fill: the store's copy, where there is one, is old.
    pub(crate) const DIRTY: Self = Self(1);
    /// The store, or the object's file, holds content for it.
    pub(crate) const STORED: Self = Self(2);
    /// Its content has been read from the object's file, or written: the next read back is a swap-in.
    pub(crate) const SEEN: Self = Self(4);
    /// Tasks wait for it.
    pub(crate) const WAITED: Self = Self(8);
    /// A page of a copy-on-write view that has its own content.
    pub(crate) const OWN: Self = Self(16);
    /// On its way in or out, and what it holds is gone: empty once its request is answered.
    pub(crate) const FORGOTTEN: Self = Self(32);
    /// A job whose pool restores has faulted on it since it was last restored.
    pub(crate) const WANTED: Self = Self(64);
}

crate::pages::marks::marks!(PageMarks);

/// One page: 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// The first entry of its ownership list; of a page without one, when it was evicted, if that is known.
    link: u32,
    pub(crate) object: u16,
    pub(crate) state: PageState,
    pub(crate) marks: PageMarks,
}

const _: () = assert!(size_of::<Page>() == 8);

/// Marks a page's link as the age at which it was evicted; no entry has so high a number.
const EVICTED: u32 = 1 << 31;

impl Page {
    /// Entries have numbers below this.
    pub(crate) const ENTRIES: u32 = EVICTED;

    /// First entry of the ownership list. Of a resident page it is the owner's, of one being filled the filler's, of
    /// one leaving the evictor's; claims that wait for a frame come behind.
    pub(crate) const fn first_sharer(self) -> EntryIndex {
        if self.link & EVICTED == 0 {
            EntryIndex(self.link)
        } else {
            EntryIndex::NONE
        }
    }

    /// Forgets when the page was evicted.
    pub(crate) const fn set_first_sharer(&mut self, index: EntryIndex) {
        self.link = index.0;
    }

    /// When a page that nobody has was evicted, where that is known.
    pub(crate) fn evicted_at(self) -> Option<Age> {
        (self.link & EVICTED != 0 && self.link != EntryIndex::NONE.0).then(|| Age::from_bits(self.link))
    }

    /// Notes when a page that nobody has was evicted.
    pub(crate) const fn set_evicted_at(&mut self, age: Age) {
        self.link = EVICTED | age.bits();
    }

    /// Forgets when the page was evicted; its sharers, if it has any, stay.
    pub(crate) fn forget_eviction(&mut self) {
        self.link = self.first_sharer().0;
    }
}

const UNUSED: Page = Page {
    link: EntryIndex::NONE.0,
    object: u16::MAX,
    state: PageState::Empty,
    marks: PageMarks::NONE,
};

/// The pages of all objects.
#[derive(Debug)]
pub(crate) struct Pages {
    slots: Vec<Page>,
    /// For each page of an object under `none`, a bit for each reservation whose page another's eviction took. As long
    /// as such objects need it, up to the limit for which there is room.
    pub(crate) taken: Vec<u32>,
    /// Where the object made last ends.
    pub(crate) behind_last: u32,
}

impl Pages {
    /// `compared` of them may be of objects under `none`.
    pub(crate) fn with_capacity(count: u32, compared: u32) -> Option<Self> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(count as usize).ok()?;
        slots.resize(count as usize, UNUSED);
        let mut taken = Vec::new();
        taken.try_reserve_exact(compared as usize).ok()?;
        Some(Self {
            slots,
            taken,
            behind_last: 0,
        })
    }

    /// Gives `count` pages from `first` to `object`, all in the same first state.
    pub(crate) fn assign(&mut self, first: u32, count: u32, object: u16, state: PageState, marks: PageMarks) {
        let range = first as usize..first as usize + count as usize;
        self.slots[range].fill(Page {
            object,
            state,
            marks,
            ..UNUSED
        });
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Page>()
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }
}

impl core::ops::Index<PageNumber> for Pages {
    type Output = Page;

    fn index(&self, index: PageNumber) -> &Page {
        &self.slots[index.slot()]
    }
}

impl core::ops::IndexMut<PageNumber> for Pages {
    fn index_mut(&mut self, index: PageNumber) -> &mut Page {
        &mut self.slots[index.slot()]
    }
}
