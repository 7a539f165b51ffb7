//! The page lists of one holder, and how many of their entries have a page that is not there yet.

use crate::index::EntryIndex;
use crate::pages::entry::{Entries, Marks, Place};
use crate::pages::list::List;

/// A list of which some entries are not settled: their pages are on their way in.
#[derive(Debug)]
struct Counted {
    list: List,
    unsettled: u32,
}

impl Counted {
    const EMPTY: Self = Self {
        list: List::EMPTY,
        unsettled: 0,
    };

    const fn pages(&self) -> u32 {
        self.list.len() - self.unsettled
    }
}

/// All page lists of one holder. Pinned entries are on those of their pinned page pool.
#[derive(Debug)]
pub(crate) struct Lists {
    active: Counted,
    /// Of the pool: the half of its inactive list whose pages are mapped (see `reclaim::global_lists`).
    inactive_mapped: Counted,
    inactive: List,
    locked: Counted,
}

impl Lists {
    pub(crate) const EMPTY: Self = Self {
        active: Counted::EMPTY,
        inactive_mapped: Counted::EMPTY,
        inactive: List::EMPTY,
        locked: Counted::EMPTY,
    };

    pub(crate) const fn active(&self) -> List {
        self.active.list
    }

    pub(crate) const fn inactive_mapped(&self) -> List {
        self.inactive_mapped.list
    }

    pub(crate) const fn inactive(&self) -> List {
        self.inactive
    }

    pub(crate) const fn locked(&self) -> List {
        self.locked.list
    }

    /// Pages on the active list that are there.
    pub(crate) const fn active_pages(&self) -> u32 {
        self.active.pages()
    }

    /// Pages on the mapped half of the inactive list that are there.
    pub(crate) const fn inactive_mapped_pages(&self) -> u32 {
        self.inactive_mapped.pages()
    }

    /// Pages locked that are there.
    pub(crate) const fn locked_pages(&self) -> u32 {
        self.locked.pages()
    }

    /// Pages on the replacement lists that are there.
    pub(crate) const fn listed_pages(&self) -> u32 {
        self.active_pages() + self.inactive_mapped_pages() + self.inactive.len()
    }

    /// The whole inactive list, what is on its way in included.
    pub(crate) const fn unused(&self) -> u32 {
        self.inactive_mapped.list.len() + self.inactive.len()
    }

    /// Pages to be locked that are on their way in.
    pub(crate) const fn locked_coming(&self) -> u32 {
        self.locked.unsettled
    }

    /// Pages on their way in, of all lists.
    pub(crate) const fn coming(&self) -> u32 {
        self.active.unsettled + self.inactive_mapped.unsettled + self.locked.unsettled
    }

    /// Puts an entry, which is on no list, at the end of that of its place, if it is one of these.
    pub(crate) fn link(&mut self, entries: &mut Entries, index: EntryIndex) {
        let coming = u32::from(!entries[index].marks.has(Marks::SETTLED));
        match self.counted(entries[index].place) {
            Some(counted) => {
                counted.list.push_back(entries, index);
                counted.unsettled += coming;
            }
            None if entries[index].place == Place::Inactive => self.inactive.push_back(entries, index),
            None => {}
        }
    }

    /// Takes an entry off that of its place, if it is one of these.
    pub(crate) fn unlink(&mut self, entries: &mut Entries, index: EntryIndex) {
        let coming = u32::from(!entries[index].marks.has(Marks::SETTLED));
        match self.counted(entries[index].place) {
            Some(counted) => {
                counted.list.remove(entries, index);
                counted.unsettled -= coming;
            }
            None if entries[index].place == Place::Inactive => self.inactive.remove(entries, index),
            None => {}
        }
    }

    /// Puts an entry whose page is there, on no list, before all others of the active list.
    pub(crate) fn link_oldest(&mut self, entries: &mut Entries, index: EntryIndex) {
        entries[index].place = Place::Active;
        self.active.list.push_front(entries, index);
    }

    /// Puts an entry whose page is there, on no list, before all others of the inactive list.
    pub(crate) fn link_next_victim(&mut self, entries: &mut Entries, index: EntryIndex) {
        entries[index].place = Place::Inactive;
        self.inactive.push_front(entries, index);
    }

    /// The page of an entry on the list of this place has arrived.
    pub(crate) fn settle(&mut self, place: Place) {
        if let Some(counted) = self.counted(place) {
            counted.unsettled -= 1;
        }
    }

    fn counted(&mut self, place: Place) -> Option<&mut Counted> {
        match place {
            Place::Active => Some(&mut self.active),
            Place::InactiveMapped => Some(&mut self.inactive_mapped),
            Place::Locked => Some(&mut self.locked),
            _ => None,
        }
    }
}
