//! Pages that the mount holds itself, in exact order of use.
//!
//! Two lists, one for pages that were used at most once and one for the others, each in order of use; stamps tell
//! which of their ends is older. So the order over both is exact, and read-ahead can be kept from pages of the second.

use crate::page_index::PageIndex;
use freehold_linux::memory::SlabPage;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
const NONE: u32 = u32::MAX;

/// A page's content, in a page of the mount's slab.
pub(crate) type Bytes = SlabPage;

/// Which page of which file, as the mount numbers files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageKey {
    pub(crate) file: u64,
    pub(crate) page: u32,
}

#[derive(Debug)]
struct Slot {
    key: PageKey,
    bytes: Bytes,
    stamp: u64,
    uses: u8,
    previous: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
}

const EMPTY: List = List {
    oldest: NONE,
    newest: NONE,
};

/// A page that has left.
#[derive(Debug)]
pub(crate) struct Evicted {
    pub(crate) key: PageKey,
    pub(crate) bytes: Bytes,
}

/// The pages.
#[derive(Debug)]
pub(crate) struct OwnPages {
    slots: Vec<Option<Slot>>,
    vacant: Vec<u32>,
    index: PageIndex,
    /// Used at most once; used more often.
    lists: [List; 2],
}

impl Default for OwnPages {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
            index: PageIndex::default(),
            lists: [EMPTY; 2],
        }
    }
}

impl OwnPages {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// All of them.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> impl Iterator<Item = PageKey> {
        self.slots.iter().flatten().map(|slot| slot.key)
    }

    /// Whether a page is here.
    pub(crate) fn has(&self, key: PageKey) -> bool {
        self.index.get(key).is_some()
    }

    /// A page's content, used now, unless `again` says that this use is the last one going on.
    pub(crate) fn take_note(&mut self, key: PageKey, stamp: u64, again: bool) -> Option<&[u8; PAGE]> {
        let at = self.index.get(key)?;
        self.unlink(at);
        let slot = self.slot(at)?;
        slot.stamp = stamp;
        if !again {
            slot.uses = slot.uses.saturating_add(1);
        }
        self.link(at);
        self.slots.get(at as usize)?.as_ref().map(|slot| &*slot.bytes)
    }

    /// Takes a page; nothing happens where it is here already.
    pub(crate) fn insert(&mut self, key: PageKey, bytes: Bytes, stamp: u64, used: bool) {
        if self.has(key) {
            return;
        }
        let slot = Slot {
            key,
            bytes,
            stamp,
            uses: u8::from(used),
            previous: NONE,
            next: NONE,
        };
        let at = match self.vacant.pop() {
            Some(at) => at,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
            }
        };
        if let Some(place) = self.slots.get_mut(at as usize) {
            *place = Some(slot);
            self.index.insert(key, at);
            self.link(at);
        }
    }

    /// When the page that was used longest ago was used.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.ends().into_iter().flatten().map(|(stamp, _)| stamp).min()
    }

    /// Takes out the page that was used longest ago.
    pub(crate) fn evict(&mut self) -> Option<Evicted> {
        let (_, at) = self.ends().into_iter().flatten().min()?;
        self.remove(at)
    }

    /// Takes out the page used longest ago of those that were used at most once.
    pub(crate) fn evict_unused(&mut self) -> Option<Evicted> {
        let (_, at) = self.ends()[0]?;
        self.remove(at)
    }

    /// Drops all pages of a file.
    pub(crate) fn drop_file(&mut self, file: u64) {
        for at in self.index.of_file(file) {
            self.remove(at);
        }
    }

    fn ends(&self) -> [Option<(u64, u32)>; 2] {
        self.lists.map(|list| {
            let slot = self.slots.get(list.oldest as usize)?.as_ref()?;
            Some((slot.stamp, list.oldest))
        })
    }

    fn slot(&mut self, at: u32) -> Option<&mut Slot> {
        self.slots.get_mut(at as usize)?.as_mut()
    }

    fn remove(&mut self, at: u32) -> Option<Evicted> {
        self.unlink(at);
        let slot = self.slots.get_mut(at as usize)?.take()?;
        self.vacant.push(at);
        self.index.remove(slot.key);
        Some(Evicted {
            key: slot.key,
            bytes: slot.bytes,
        })
    }

    fn list_of(uses: u8) -> usize {
        usize::from(uses > 1)
    }

    /// Puts a slot at the newest end of its list.
    fn link(&mut self, at: u32) {
        let Some(list) = self.slot(at).map(|slot| Self::list_of(slot.uses)) else {
            return;
        };
        let newest = self.lists[list].newest;
        if let Some(slot) = self.slot(at) {
            (slot.previous, slot.next) = (newest, NONE);
        }
        match self.slot(newest) {
            Some(before) => before.next = at,
            None => self.lists[list].oldest = at,
        }
        self.lists[list].newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Some(slot) = self.slot(at) else { return };
        let (previous, next, list) = (slot.previous, slot.next, Self::list_of(slot.uses));
        match self.slot(previous) {
            Some(before) => before.next = next,
            None => self.lists[list].oldest = next,
        }
        match self.slot(next) {
            Some(after) => after.previous = previous,
            None => self.lists[list].newest = previous,
        }
    }
}

/// For tests: a page full of a byte.
#[cfg(test)]
pub(crate) fn page_of(byte: u8) -> Bytes {
    let slab = freehold_linux::memory::Slab::create(1).unwrap();
    let mut page = slab.take(1).unwrap().remove(0);
    page.fill(byte);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(page: u32) -> PageKey {
        PageKey { file: 1, page }
    }

    fn filled(pages: u32) -> OwnPages {
        let mut own = OwnPages::default();
        for page in 0..pages {
            own.insert(key(page), page_of(0), u64::from(page), true);
        }
        own
    }

    fn order(own: &mut OwnPages) -> Vec<u32> {
        std::iter::from_fn(|| own.evict())
            .map(|evicted| evicted.key.page)
            .collect()
    }

    #[test]
    fn the_page_used_longest_ago_goes_first_whichever_list_it_is_in() {
        let mut own = filled(4);
        assert!(own.take_note(key(1), 10, false).is_some());
        assert!(own.take_note(key(0), 11, true).is_some());
        assert!(own.take_note(key(9), 12, false).is_none());
        assert_eq!(order(&mut own), [2, 3, 1, 0]);
    }

    #[test]
    fn read_ahead_never_takes_the_place_of_a_page_used_more_often() {
        let mut own = filled(3);
        assert!(own.take_note(key(0), 10, false).is_some());
        assert!(own.take_note(key(1), 11, false).is_some());
        assert_eq!(own.evict_unused().map(|gone| gone.key.page), Some(2));
        assert!(own.evict_unused().is_none());
        assert_eq!(own.len(), 2);
    }

    #[test]
    fn the_pages_of_a_file_are_dropped_and_no_others() {
        let mut own = filled(3);
        own.insert(PageKey { file: 2, page: 0 }, page_of(7), 5, true);
        own.drop_file(1);
        assert_eq!(own.len(), 1);
        let other = own
            .take_note(PageKey { file: 2, page: 0 }, 6, false)
            .map(|bytes| bytes[0]);
        assert_eq!(other, Some(7));
    }

    /// Against a list that is searched.
    #[test]
    fn any_order_of_uses_is_kept_exactly() {
        let (mut own, mut naive, mut state) = (OwnPages::default(), Vec::new(), 7_u64);
        for stamp in 0..5000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let page = u32::try_from((state >> 33) % 40).unwrap();
            match (state >> 20) % 4 {
                0 => {
                    let gone = own.evict().map(|gone| gone.key.page);
                    assert_eq!(gone, (!naive.is_empty()).then(|| naive.remove(0)));
                }
                _ if own.take_note(key(page), stamp, false).is_some() => {
                    naive.retain(|other| *other != page);
                    naive.push(page);
                }
                _ => {
                    own.insert(key(page), page_of(0), stamp, true);
                    naive.push(page);
                }
            }
        }
        assert_eq!(order(&mut own), naive);
    }
}
