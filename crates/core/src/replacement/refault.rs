//! How soon an evicted page of the pool comes back, as Linux tells it (`workingset.c`; anonymous pages since 5.9).
//!
//! The pool's lists have an age: it advances by one for each page evicted from them and for each that becomes active.
//! An evicted page carries the age of its eviction until somebody wants it again. The difference is its *refault
//! distance*: about so many more inactive pages would have kept it. Where that is no more than there are active pages,
//! it would have stayed if it had competed with those, so it is active at once.
//!
//! The age is kept in 30 bits, in the page's own row, which a page without sharers has no other use for. Ages are
//! compared around the wrap. An eviction so long ago that it could be taken for a recent one is forgotten before: with
//! each advance one row of the page table is looked at.

use crate::index::{EntryIndex, HolderIndex, PageNumber};
use crate::memory::Memory;
use crate::pages::entry::{Entry, Place};

const BITS: u32 = 30;
/// Evictions longer ago than this are forgotten; no active list is longer on a machine with less than 2 TiB.
const REMEMBERED: u32 = 1 << (BITS - 1);

/// An age of the pool's lists, around the wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age(u32);

impl Age {
    const MASK: u32 = (1 << BITS) - 1;

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits & Self::MASK)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    const fn next(self) -> Self {
        Self::from_bits(self.0.wrapping_add(1))
    }

    /// How often the age has advanced since `earlier`, up to all its values but one.
    pub(crate) const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0) & Self::MASK
    }
}

/// The age of the pool's lists.
#[derive(Debug)]
pub(crate) struct Refaults {
    pub(crate) age: Age,
    /// The row of the page table that is looked at next for an eviction to forget.
    next: u32,
    /// Since the last scan of the lists a page came back soon.
    pub(crate) activated: bool,
}

impl Refaults {
    pub(crate) const NEW: Self = Self {
        age: Age(0),
        next: 0,
        activated: false,
    };
}

impl Entry {
    /// Notes when this entry of the pool is evicted: it is on no list, so its links are free.
    pub(crate) fn set_evicted_at(&mut self, age: Age) {
        self.previous = EntryIndex(age.bits());
    }
}

impl Memory {
    /// When this entry, leaving the pool, was evicted.
    pub(crate) fn evicted_at(&self, entry: &Entry) -> Option<Age> {
        let leaves = entry.place == Place::Leaving && self.policy(entry.holder).uses_global_lists();
        leaves.then(|| Age::from_bits(entry.previous.0))
    }

    /// A page leaves the pool's lists, or becomes active there. O(1).
    pub(crate) fn advance_age(&mut self) {
        self.reclaim.refaults.age = self.reclaim.refaults.age.next();
        let rows = self.pages.len();
        // So many that all are seen in time.
        for _ in 0..=rows / REMEMBERED {
            let row = PageNumber(self.reclaim.refaults.next);
            self.reclaim.refaults.next = if row.0 + 1 < rows { row.0 + 1 } else { 0 };
            if row.0 < rows
                && let Some(then) = self.pages[row].evicted_at()
                && self.reclaim.refaults.age.since(then) > REMEMBERED
            {
                self.pages[row].forget_eviction();
            }
        }
    }

    /// How far the age has advanced since a page of the pool was evicted; `None` where it is in memory, never was, or
    /// was evicted too long ago.
    pub(crate) fn refault_distance(&self, page: PageNumber) -> Option<u32> {
        let found = self.pages[page];
        let leaving = || self.evicted_at(&self.entries[found.first_sharer().some()?]);
        let then = found.evicted_at().or_else(leaving)?;
        Some(self.reclaim.refaults.age.since(then))
    }

    /// Where the entry of a page that a holder is about to want begins. Of the pool: a page that comes back soon after
    /// its eviction on the active list, every other on the inactive one.
    pub(crate) fn first_place(&mut self, holder: HolderIndex, page: PageNumber) -> Place {
        if !self.policy(holder).uses_global_lists() {
            return Place::Active;
        }
        let active = self.pool().lists.active().len();
        let Some(distance) = self.refault_distance(page) else {
            return Place::InactiveMapped;
        };
        if distance <= active + self.pinned.proving {
            self.advance_age();
            self.reclaim.refaults.activated |= distance <= active;
            Place::Active
        } else {
            Place::InactiveMapped
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::pages::entry::Marks;
    use crate::units::{FrameCount, PageCount};

    const PAGES: u32 = 40;

    /// Tables of pages that nobody has, and an active list of the pool of this length.
    fn with_active(pages: u32) -> Memory {
        let limits = Limits {
            frames: FrameCount::new(PAGES),
            pages: PageCount::new(PAGES),
            reservations: 1,
            objects: 1,
            tasks: 1,
            mappings: 1,
            compared_pages: PageCount::ZERO,
            shared_locks: PageCount::ZERO,
        };
        let mut memory = limits.seal().expect("sound limits");
        for page in 0..pages {
            let index = memory.entries.make(HolderIndex::POOL, PageNumber(PAGES - 1 - page));
            let index = index.expect("room for an entry");
            memory.entries[index].marks.set(Marks::SETTLED);
            memory.link(index, Place::Active);
        }
        memory
    }

    #[test]
    fn ages_are_compared_around_the_wrap() {
        let last = Age::from_bits(Age::MASK);
        assert_eq!(last.next(), Age(0));
        assert_eq!(last.next().since(last), 1);
        assert_eq!(last.since(last), 0);
        assert_eq!(Age(5).since(Age::from_bits(Age::MASK - 4)), 10);
        assert_eq!(last.since(last.next()), Age::MASK);
    }

    #[test]
    fn only_what_comes_back_within_the_active_lists_length_is_active() {
        let page = PageNumber(0);
        // At the beginning, and around the wrap.
        for age in [0, Age::MASK - 3] {
            for distance in 0..20 {
                let mut memory = with_active(7);
                memory.reclaim.refaults.age = Age(age);
                let evicted = memory.reclaim.refaults.age;
                memory.pages[page].set_evicted_at(evicted);
                for _ in 0..distance {
                    memory.advance_age();
                }
                assert_eq!(memory.refault_distance(page), Some(distance));
                let place = if distance <= 7 {
                    Place::Active
                } else {
                    Place::InactiveMapped
                };
                assert_eq!(memory.first_place(HolderIndex::POOL, page), place, "{distance}");
                // An activation is an event itself.
                let after = distance + u32::from(place == Place::Active);
                assert_eq!(memory.reclaim.refaults.age.since(evicted), after);
            }
        }
    }

    #[test]
    fn what_was_never_evicted_is_not_active() {
        let mut memory = with_active(7);
        assert_eq!(
            memory.first_place(HolderIndex::POOL, PageNumber(0)),
            Place::InactiveMapped
        );
        assert_eq!(memory.refault_distance(PageNumber(0)), None);
        assert_eq!(
            memory.first_place(HolderIndex::reservation(0), PageNumber(0)),
            Place::Active
        );
    }

    #[test]
    fn an_eviction_is_forgotten_before_it_could_look_recent() {
        let mut memory = with_active(7);
        let (old, recent) = (PageNumber(0), PageNumber(1));
        memory.pages[old].set_evicted_at(memory.reclaim.refaults.age);
        memory.reclaim.refaults.age = Age(REMEMBERED - 1);
        memory.pages[recent].set_evicted_at(memory.reclaim.refaults.age);
        // One is remembered still, the next is one too many; its row is looked at within as many as there are rows.
        memory.advance_age();
        assert_eq!(memory.refault_distance(old), Some(REMEMBERED));
        for _ in 0..=PAGES {
            memory.advance_age();
        }
        assert_eq!(memory.refault_distance(old), None);
        assert_eq!(memory.refault_distance(recent), Some(PAGES + 2));
    }
}

/// `make verify`: gone through in full with optimisation, in steps without.
#[cfg(test)]
mod verify {
    use super::*;

    #[test]
    fn ages_count_around_the_wrap() {
        let step = if cfg!(debug_assertions) { 4_099 } else { 1 };
        for bits in (0..=Age::MASK).step_by(step) {
            let age = Age::from_bits(bits);
            assert_eq!(age.bits(), bits);
            assert_eq!(age.next().since(age), 1);
            assert_eq!(age.since(age), 0);
            // As many steps on as the first age has to the last, whatever the first is.
            for earlier in [0, 1, REMEMBERED, Age::MASK] {
                let advanced = Age::from_bits(earlier.wrapping_add(bits));
                assert_eq!(advanced.since(Age::from_bits(earlier)), bits);
            }
        }
    }
}
