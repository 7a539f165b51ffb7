//! A list of entries, linked through the entries themselves: no allocation, every operation O(1).

use crate::index::EntryIndex;
use crate::pages::entry::Entries;

/// One list: oldest entry first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: EntryIndex,
    last: EntryIndex,
    len: u32,
}

impl List {
    pub(crate) const EMPTY: Self = Self {
        first: EntryIndex::NONE,
        last: EntryIndex::NONE,
        len: 0,
    };

    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn first(&self) -> Option<EntryIndex> {
        self.first.some()
    }

    pub(crate) fn last(&self) -> Option<EntryIndex> {
        self.last.some()
    }

    /// Appends `index`, which is on no list.
    pub(crate) fn push_back(&mut self, entries: &mut Entries, index: EntryIndex) {
        entries[index].previous = self.last;
        entries[index].next = EntryIndex::NONE;
        match self.last.some() {
            Some(last) => entries[last].next = index,
            None => self.first = index,
        }
        self.last = index;
        self.len += 1;
    }

    /// Puts `index`, which is on no list, before all others.
    pub(crate) fn push_front(&mut self, entries: &mut Entries, index: EntryIndex) {
        entries[index].previous = EntryIndex::NONE;
        entries[index].next = self.first;
        match self.first.some() {
            Some(first) => entries[first].previous = index,
            None => self.last = index,
        }
        self.first = index;
        self.len += 1;
    }

    /// Takes `index`, which is on this list, out of it. Its links mean nothing until it is on a list again.
    pub(crate) fn remove(&mut self, entries: &mut Entries, index: EntryIndex) {
        let (previous, next) = (entries[index].previous, entries[index].next);
        match previous.some() {
            Some(previous) => entries[previous].next = next,
            None => self.first = next,
        }
        match next.some() {
            Some(next) => entries[next].previous = previous,
            None => self.last = previous,
        }
        self.len -= 1;
    }
}
