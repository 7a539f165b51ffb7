//! A queue of holders, each in it once at most: every operation but one O(1), no allocation.

use alloc::vec::Vec;

use crate::index::HolderIndex;

/// What follows a holder that is in no queue.
const ABSENT: HolderIndex = HolderIndex(u16::MAX - 1);

/// Holders in order of entry.
#[derive(Debug)]
pub(crate) struct HolderQueue {
    first: HolderIndex,
    last: HolderIndex,
    /// What follows each holder.
    next: Vec<HolderIndex>,
}

impl HolderQueue {
    /// An empty queue for so many holders; `None` where memory is not to be had.
    pub(crate) fn with_capacity(holders: usize) -> Option<Self> {
        let mut next = Vec::new();
        next.try_reserve_exact(holders).ok()?;
        next.resize(holders, ABSENT);
        Some(Self {
            first: HolderIndex::NONE,
            last: HolderIndex::NONE,
            next,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn contains(&self, holder: HolderIndex) -> bool {
        self.next[holder.slot()] != ABSENT
    }

    pub(crate) fn first(&self) -> Option<HolderIndex> {
        self.first.some()
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = HolderIndex> {
        core::iter::successors(self.first.some(), |holder| self.next[holder.slot()].some())
    }

    /// Appends a holder, if it is not in it.
    pub(crate) fn push(&mut self, holder: HolderIndex) {
        if self.contains(holder) {
            return;
        }
        self.next[holder.slot()] = HolderIndex::NONE;
        match self.last.some() {
            Some(last) => self.next[last.slot()] = holder,
            None => self.first = holder,
        }
        self.last = holder;
    }

    /// Takes the first out.
    pub(crate) fn pop(&mut self) -> Option<HolderIndex> {
        let first = self.first.some()?;
        self.first = core::mem::replace(&mut self.next[first.slot()], ABSENT);
        if self.first.is_none() {
            self.last = HolderIndex::NONE;
        }
        Some(first)
    }

    /// Takes a holder out, wherever it is. O(holders in it).
    pub(crate) fn remove(&mut self, holder: HolderIndex) {
        if !self.contains(holder) {
            return;
        }
        let before = self.iter().find(|other| self.next[other.slot()] == holder);
        let after = core::mem::replace(&mut self.next[holder.slot()], ABSENT);
        match before {
            Some(before) => self.next[before.slot()] = after,
            None => self.first = after,
        }
        if after.is_none() {
            self.last = before.unwrap_or(HolderIndex::NONE);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.next.capacity() * size_of::<HolderIndex>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [HolderIndex; 3] = [HolderIndex(0), HolderIndex(1), HolderIndex(2)];

    fn filled() -> HolderQueue {
        let mut queue = HolderQueue::with_capacity(ALL.len()).unwrap();
        for holder in [2, 0, 2, 1, 0] {
            queue.push(ALL[holder]);
        }
        queue
    }

    fn order(queue: &HolderQueue) -> Vec<u16> {
        queue.iter().map(|holder| holder.0).collect()
    }

    #[test]
    fn holders_come_out_in_the_order_of_their_first_entry() {
        let mut queue = filled();
        assert_eq!(order(&queue), [2, 0, 1]);
        assert_eq!(queue.pop(), Some(ALL[2]));
        queue.push(ALL[2]);
        assert_eq!(order(&queue), [0, 1, 2]);
        while queue.pop().is_some() {}
        assert!(queue.is_empty() && ALL.iter().all(|holder| !queue.contains(*holder)));
        queue.push(ALL[1]);
        assert_eq!(queue.first(), Some(ALL[1]));
    }

    #[test]
    fn a_holder_is_taken_out_of_any_place_and_comes_again_at_the_end() {
        for holder in ALL {
            let mut queue = filled();
            queue.remove(holder);
            queue.remove(holder);
            let mut expected: Vec<u16> = [2, 0, 1].into_iter().filter(|other| *other != holder.0).collect();
            assert_eq!(order(&queue), expected);
            queue.push(holder);
            expected.push(holder.0);
            assert_eq!(order(&queue), expected);
        }
    }
}
