//! Which pages of one private object are booked for addresses of its client.

use std::ops::Range;

/// Pages that are booked together where the tables have room. What is booked begins at a page that lies in its granule
/// as its address does in its own, so that neighbours of an object are neighbours in the program.
pub(in crate::engine) const GRANULE: u32 = 16;
/// Pages of the largest private object.
pub(super) const LARGEST: u32 = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Free,
    Booked,
    /// Booked no more; the core, or an order, may not be done with it.
    Stale,
}

/// The pages of one object.
#[derive(Debug)]
pub(crate) struct Booked {
    marks: Vec<Mark>,
    free: u32,
    stale: u32,
}

impl Booked {
    pub(super) fn new(pages: u32) -> Self {
        Self {
            marks: vec![Mark::Free; pages as usize],
            free: pages,
            stale: 0,
        }
    }

    /// Whether anything is, or may become, free.
    pub(super) fn has_room(&self) -> bool {
        self.free + self.stale > 0
    }

    /// Where so many pages are free, the first of them at `residue` in its granule; of less than a granule anywhere, if
    /// there is no such place. In the middle of the largest gap, so that what is booked before it and what is booked
    /// there can both grow.
    pub(super) fn find(&self, count: u32, residue: u32) -> Option<u32> {
        if self.free < count {
            return None;
        }
        let places = self
            .gaps()
            .filter_map(|gap| Some((gap.len(), place_in(&gap, count, residue)?)));
        places.max_by_key(|(length, _)| *length).map(|(_, first)| first)
    }

    /// Whether all of some pages are free.
    pub(super) fn is_free(&self, pages: Range<u32>) -> bool {
        let marks = self.marks.get(pages.start as usize..pages.end as usize);
        marks.is_some_and(|marks| marks.iter().all(|mark| *mark == Mark::Free))
    }

    /// Books pages, which are free.
    pub(super) fn book(&mut self, pages: Range<u32>) {
        for mark in self.marks_of(pages) {
            *mark = Mark::Booked;
        }
        self.count();
    }

    /// Pages are booked no more.
    pub(super) fn leave(&mut self, pages: Range<u32>) {
        for mark in self.marks_of(pages).iter_mut().filter(|mark| **mark == Mark::Booked) {
            *mark = Mark::Stale;
        }
        self.count();
    }

    /// Pages that were booked, and that somebody may not be done with.
    pub(super) fn stale(&self) -> Vec<u32> {
        if self.stale == 0 {
            return Vec::new();
        }
        let marks = (0..).zip(&self.marks).filter(|(_, mark)| **mark == Mark::Stale);
        marks.map(|(page, _)| page).collect()
    }

    /// Everybody is done with these.
    pub(super) fn free(&mut self, pages: impl IntoIterator<Item = u32>) {
        for page in pages {
            for mark in self.marks_of(page..page + 1) {
                *mark = Mark::Free;
            }
        }
        self.count();
    }

    fn marks_of(&mut self, pages: Range<u32>) -> &mut [Mark] {
        let all = pages.start as usize..pages.end as usize;
        self.marks.get_mut(all).unwrap_or_default()
    }

    fn count(&mut self) {
        let (mut free, mut stale) = (0, 0);
        for mark in &self.marks {
            free += u32::from(*mark == Mark::Free);
            stale += u32::from(*mark == Mark::Stale);
        }
        (self.free, self.stale) = (free, stale);
    }

    fn gaps(&self) -> impl Iterator<Item = Range<u32>> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let rest = self.marks.get(from..)?;
            let start = from + rest.iter().position(|mark| *mark == Mark::Free)?;
            let length = self
                .marks
                .get(start..)?
                .iter()
                .take_while(|mark| **mark == Mark::Free)
                .count();
            from = start + length;
            Some(u32::try_from(start).ok()?..u32::try_from(from).ok()?)
        })
    }
}

fn place_in(gap: &Range<u32>, count: u32, residue: u32) -> Option<u32> {
    let spare = (gap.end - gap.start).checked_sub(count)?;
    // Nobody can grow into what lies before all others.
    let middle = if gap.start == 0 { 0 } else { gap.start + spare / 2 };
    let fits = |from: u32| {
        let first = from + (residue + GRANULE - from % GRANULE) % GRANULE;
        (first + count <= gap.end).then_some(first)
    };
    let anywhere = (count < GRANULE).then_some(gap.start);
    fits(middle).or_else(|| fits(gap.start)).or(anywhere)
}

#[cfg(test)]
mod tests {
    use super::{Booked, GRANULE};

    #[test]
    fn what_is_booked_can_grow_until_all_is_taken() {
        let mut booked = Booked::new(256);
        let mut firsts = Vec::new();
        while let Some(first) = booked.find(GRANULE, 0) {
            assert_eq!(first % GRANULE, 0);
            booked.book(first..first + GRANULE);
            firsts.push(first);
        }
        assert_eq!(firsts.get(..2), Some(&[0, 128][..]));
        assert_eq!(firsts.len(), 16);
        assert!(!booked.has_room());
    }

    #[test]
    fn pages_lie_in_their_granule_as_their_addresses_do() {
        let mut booked = Booked::new(64);
        assert_eq!(booked.find(33, 3), Some(3));
        booked.book(3..36);
        assert_eq!(booked.find(20, 5), Some(37));
        assert_eq!(booked.find(20, 0), None, "48 to 68");
        assert_eq!(
            booked.find(3, 0),
            Some(48),
            "not in front, where only one place is left"
        );
        assert!(booked.is_free(36..64) && !booked.is_free(35..40) && !booked.is_free(60..65));
        booked.book(37..64);
        assert_eq!((booked.find(1, 5), booked.find(3, 5)), (Some(0), Some(0)), "anywhere");
    }

    #[test]
    fn what_is_left_is_free_when_all_are_done_with_it() {
        let mut booked = Booked::new(32);
        booked.book(0..32);
        booked.leave(8..24);
        assert_eq!((booked.find(1, 8), booked.stale().len()), (None, 16));
        booked.free((8..24).filter(|page| *page != 16));
        assert_eq!(booked.find(9, 0), None);
        assert_eq!(booked.find(8, 8), Some(8));
        assert_eq!(booked.stale(), [16]);
        assert!(booked.has_room());
    }
}
