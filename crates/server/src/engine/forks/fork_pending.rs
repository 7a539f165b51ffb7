//! What a child is yet to be given of its parent's private memory.
//!
//! A fork copies what is in the parent's page table. What is elsewhere has to be found, page by page, and copied by the
//! server: to do that at once for gigabytes would hold up everybody. So a step looks at so many pages, and copies a
//! few. Until a page has been looked at it must stay what it was at the fork: whoever is about to map it for the
//! parent, or to forget it, looks at it first.

use crate::engine::spaces::Segment;
use freehold_core::id::ObjectId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A page that a child is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkCopy {
    pub(crate) object: ObjectId,
    pub(crate) page: u32,
    /// Where the child has it.
    pub(crate) address: u64,
    /// It is being read from the store.
    pub(crate) reading: bool,
}

/// Pages of one object, one behind the other, as the parent had them mapped at the fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    object: ObjectId,
    first: u32,
    pages: u32,
    address: u64,
}

impl Part {
    /// What a segment that begins at `start` has in a range inside of it.
    pub(crate) fn within(start: u64, segment: &Segment, (from, to): (u64, u64)) -> Self {
        Self {
            object: segment.object,
            first: segment.page_at(start, from),
            pages: segment.page_at(start, to) - segment.page_at(start, from),
            address: from,
        }
    }

    /// Its pages.
    pub(crate) fn fork_copies(self) -> impl Iterator<Item = ForkCopy> {
        (0..self.pages).map(move |at| ForkCopy {
            object: self.object,
            page: self.first + at,
            address: self.address + u64::from(at) * crate::PAGE,
            reading: false,
        })
    }

    /// What of it is before `page`, and what is from there on.
    fn split(self, page: u32) -> (Option<Self>, Option<Self>) {
        let before = page.saturating_sub(self.first).min(self.pages);
        let (head, tail) = (
            Self { pages: before, ..self },
            Self {
                first: self.first + before,
                pages: self.pages - before,
                address: self.address + u64::from(before) * crate::PAGE,
                ..self
            },
        );
        let some = |part: Self| (part.pages > 0).then_some(part);
        (some(head), some(tail))
    }
}

/// Pages, and where the child has each.
type Pages = BTreeMap<(ObjectId, u32), u64>;

/// What one child is yet to be given.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForkPending {
    /// Nobody has looked at these yet.
    unseen: Vec<Part>,
    /// To be given next.
    due: Pages,
    /// Not to be had yet when that was tried.
    late: Pages,
    /// Being read from the store.
    reading: Pages,
}

impl ForkPending {
    /// Whether the child has everything.
    pub(crate) fn is_over(&self) -> bool {
        !self.has_more() && self.late.is_empty() && self.reading.is_empty()
    }

    /// Whether there is something that can be looked at or given at once.
    pub(crate) fn has_more(&self) -> bool {
        !self.unseen.is_empty() || !self.due.is_empty()
    }

    /// The same for a child of the child; what is being read is read for it too.
    pub(crate) fn for_its_child(&self) -> Self {
        let mut pending = self.clone();
        pending.due.append(&mut pending.reading);
        pending
    }

    /// More that is to be looked at.
    pub(crate) fn extend(&mut self, parts: impl IntoIterator<Item = Part>) {
        self.unseen.extend(parts);
    }

    /// At most so many pages that nobody has looked at; the caller looks at them now.
    pub(crate) fn take_unseen(&mut self, most: u32) -> Vec<Part> {
        let (mut taken, mut left) = (Vec::new(), most);
        while left > 0
            && let Some(part) = self.unseen.pop()
        {
            let (head, tail) = part.split(part.first.saturating_add(left));
            self.unseen.extend(tail);
            left -= head.map_or(0, |head| head.pages);
            taken.extend(head);
        }
        taken
    }

    /// As [`take_unseen`](Self::take_unseen), of one object's pages from `first` on.
    pub(crate) fn take_unseen_of(&mut self, object: ObjectId, first: u32, count: u32) -> Vec<Part> {
        let (mut taken, mut left) = (Vec::new(), Vec::with_capacity(self.unseen.len()));
        for part in self.unseen.drain(..) {
            if part.object != object {
                left.push(part);
                continue;
            }
            let (before, rest) = part.split(first);
            let (inside, behind) = rest.map_or((None, None), |rest| rest.split(first.saturating_add(count)));
            left.extend(before.into_iter().chain(behind));
            taken.extend(inside);
        }
        self.unseen = left;
        taken
    }

    /// A page to be given next; those that were not to be had are tried again when nothing else is left.
    pub(crate) fn next(&mut self) -> Option<ForkCopy> {
        let ((object, page), address) = self.due.pop_last()?;
        Some(ForkCopy {
            object,
            page,
            address,
            reading: false,
        })
    }

    /// Has the pages that were not to be had tried again, where nothing else is left.
    pub(crate) fn retry(&mut self) {
        if !self.has_more() {
            std::mem::swap(&mut self.due, &mut self.late);
        }
    }

    /// Takes one page out, wherever it is.
    pub(crate) fn take(&mut self, object: ObjectId, page: u32) -> Option<ForkCopy> {
        let key = (object, page);
        let found = |address: u64, reading: bool| ForkCopy {
            object,
            page,
            address,
            reading,
        };
        if let Some(address) = self.reading.remove(&key) {
            return Some(found(address, true));
        }
        let address = self.due.remove(&key).or_else(|| self.late.remove(&key))?;
        Some(found(address, false))
    }

    /// Whether a page that was looked at is still to be given.
    pub(crate) fn has(&self, object: ObjectId, page: u32) -> bool {
        let key = (object, page);
        [&self.due, &self.late, &self.reading]
            .into_iter()
            .any(|pages| pages.contains_key(&key))
    }

    /// A page that is to be given.
    pub(crate) fn put(&mut self, fork_copy: &ForkCopy) {
        self.due.insert((fork_copy.object, fork_copy.page), fork_copy.address);
    }

    /// A page that could not be given when that was tried.
    pub(crate) fn put_off(&mut self, fork_copy: &ForkCopy) {
        let pages = if fork_copy.reading {
            &mut self.reading
        } else {
            &mut self.late
        };
        pages.insert((fork_copy.object, fork_copy.page), fork_copy.address);
    }

    /// The objects of which the child may want pages. O(objects), however many pages.
    pub(crate) fn objects(&self) -> BTreeSet<ObjectId> {
        let mut objects: BTreeSet<ObjectId> = self.unseen.iter().map(|part| part.object).collect();
        for pages in [&self.due, &self.late, &self.reading] {
            let mut from = Bound::Unbounded;
            while let Some(((object, _), _)) = pages.range((from, Bound::Unbounded)).next() {
                objects.insert(*object);
                from = Bound::Excluded((*object, u32::MAX));
            }
        }
        objects
    }

    /// The child has dropped what it had in a range of addresses. Nothing may be unseen.
    pub(crate) fn cut(&mut self, start: u64, end: u64) {
        for pages in [&mut self.due, &mut self.late, &mut self.reading] {
            pages.retain(|_, address| !(start..end).contains(address));
        }
    }

    /// The child has moved a range of addresses. Nothing may be unseen.
    pub(crate) fn shift(&mut self, from: u64, end: u64, to: u64) {
        let all = [&mut self.due, &mut self.late, &mut self.reading];
        for address in all.into_iter().flat_map(Pages::values_mut) {
            if (from..end).contains(address) {
                *address = *address - from + to;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::objects::some_objects as objects;
    use std::iter;

    fn part(object: ObjectId, first: u32, pages: u32, address: u64) -> Part {
        Part {
            object,
            first,
            pages,
            address,
        }
    }

    fn pages(parts: Vec<Part>) -> Vec<(ObjectId, u32, u64)> {
        let pages = parts.into_iter().flat_map(Part::fork_copies);
        pages.map(|page| (page.object, page.page, page.address)).collect()
    }

    fn some([one, two, _]: [ObjectId; 3]) -> ForkPending {
        let mut pending = ForkPending::default();
        pending.extend([
            part(one, 0, 1000, 0x10_0000),
            part(two, 24, 1000, 0x80_0000),
            part(one, 2000, 500, 0x200_0000),
        ]);
        pending
    }

    #[test]
    fn every_page_is_looked_at_once_and_no_more_than_asked_for_at_a_time() {
        let objects = objects();
        let all = pages(some(objects).unseen);
        for most in [1, 7, 999, 1000, 2048, u32::MAX] {
            let mut pending = some(objects);
            let mut seen: Vec<_> = iter::from_fn(|| {
                let taken = pages(pending.take_unseen(most));
                assert!(taken.len() <= most as usize);
                (!taken.is_empty()).then_some(taken)
            })
            .flatten()
            .collect();
            assert!(pending.is_over());
            seen.sort_unstable();
            let mut all = all.clone();
            all.sort_unstable();
            assert_eq!(seen, all, "{most} at a time");
        }
    }

    #[test]
    fn pages_looked_at_before_their_turn_are_not_met_again() {
        let objects = objects();
        let [one, _, three] = objects;
        let mut pending = some(objects);
        let mapped = |page: u32, first: u32, start: u64| (one, page, start + u64::from(page - first) * crate::PAGE);
        let behind = (990..1000).map(|page| mapped(page, 0, 0x10_0000));
        let ahead = (2000..2010).map(|page| mapped(page, 2000, 0x200_0000));
        let asked_for: Vec<_> = behind.chain(ahead).collect();
        assert_eq!(pages(pending.take_unseen_of(one, 990, 1020)), asked_for);
        assert!(pending.take_unseen_of(one, 990, 1020).is_empty());
        assert!(pending.take_unseen_of(three, 0, u32::MAX).is_empty());
        assert_eq!(pages(pending.take_unseen(u32::MAX)).len(), 2500 - 20);
    }

    #[test]
    fn objects_are_told_wherever_their_pages_are() {
        let [one, two, three] = objects();
        let mut pending = ForkPending::default();
        assert!(pending.objects().is_empty());
        pending.extend([part(three, 0, 10, 0x1000)]);
        for fork_copy in part(one, 0, 10, 0x10_0000).fork_copies() {
            pending.put(&fork_copy);
        }
        for mut fork_copy in part(two, 5, 2, 0x20_0000).fork_copies() {
            fork_copy.reading = fork_copy.page == 6;
            pending.put_off(&fork_copy);
        }
        assert_eq!(pending.objects(), [one, two, three].into());
        while pending.next().is_some() {}
        assert_eq!(pending.objects(), [two, three].into());
    }

    #[test]
    fn a_page_is_given_tried_again_or_awaited() {
        let [object] = objects();
        let mut pending = ForkPending::default();
        for fork_copy in part(object, 0, 3, 0x1000).fork_copies() {
            pending.put(&fork_copy);
        }
        let late = pending.next().unwrap();
        pending.put_off(&late);
        let mut read = pending.next().unwrap();
        read.reading = true;
        pending.put_off(&read);
        pending.retry();
        let given = pending.next().unwrap();
        assert_eq!(given.page, 0, "what is new comes before what was not to be had");
        assert!(pending.next().is_none() && !pending.has_more() && !pending.is_over());
        let has = |page: u32| pending.has(object, page);
        assert!(has(late.page) && has(read.page) && !has(given.page));
        pending.retry();
        assert_eq!(pending.next().map(|fork_copy| fork_copy.page), Some(late.page));
        assert!(
            pending
                .take(object, read.page)
                .is_some_and(|fork_copy| fork_copy.reading)
        );
        assert!(pending.is_over());
    }

    #[test]
    fn addresses_follow_what_the_child_does() {
        let [object] = objects();
        let mut pending = ForkPending::default();
        for fork_copy in part(object, 0, 4, 0x1000).fork_copies() {
            pending.put(&fork_copy);
        }
        pending.cut(0x2000, 0x3000);
        pending.shift(0x3000, 0x4000, 0x9000);
        let left: Vec<_> = iter::from_fn(|| pending.next())
            .map(|fork_copy| (fork_copy.page, fork_copy.address))
            .collect();
        assert_eq!(left, [(3, 0x4000), (2, 0x9000), (0, 0x1000)]);
    }
}
