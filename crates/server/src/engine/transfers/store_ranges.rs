//! Which records of the store belong to which object: ranges, first fit.

use freehold_core::id::ObjectId;
use std::collections::BTreeMap;

/// Free ranges, by their first number, and whose the others are.
#[derive(Debug)]
pub(crate) struct StoreRanges {
    count: u32,
    free: BTreeMap<u32, u32>,
    /// Numbers in the free ranges.
    left: u32,
    /// By the first number of each range that is an object's.
    owners: BTreeMap<u32, ObjectId>,
    /// Numbers given back so far.
    given_back: u64,
}

impl StoreRanges {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            count,
            free: BTreeMap::from([(0, count)]),
            left: count,
            owners: BTreeMap::new(),
            given_back: 0,
        }
    }

    /// The first of `count` numbers; `None` where no range is long enough.
    pub(crate) fn take(&mut self, count: u32) -> Option<u32> {
        let (&first, &length) = self.free.iter().find(|(_, length)| **length >= count)?;
        self.free.remove(&first);
        if length > count {
            self.free.insert(first + count, length - count);
        }
        self.left -= count;
        Some(first)
    }

    /// How many numbers there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// A range that was taken is an object's.
    pub(crate) fn own(&mut self, first: u32, object: ObjectId) {
        self.owners.insert(first, object);
    }

    /// The last object whose range begins at or before a number, and where it begins.
    pub(crate) fn owner(&self, number: u32) -> Option<(u32, ObjectId)> {
        let (first, object) = self.owners.range(..=number).next_back()?;
        Some((*first, *object))
    }

    /// How many numbers are free.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// How many numbers have been given back so far.
    pub(crate) fn given_back(&self) -> u64 {
        self.given_back
    }

    /// Gives a range back.
    pub(crate) fn give_back(&mut self, first: u32, count: u32) {
        self.left += count;
        self.given_back += u64::from(count);
        self.owners.remove(&first);
        let (mut first, mut count) = (first, count);
        if let Some((&before, &length)) = self.free.range(..first).next_back()
            && before + length == first
        {
            self.free.remove(&before);
            first = before;
            count += length;
        }
        if let Some(length) = self.free.remove(&(first + count)) {
            count += length;
        }
        self.free.insert(first, count);
    }
}

#[cfg(test)]
mod tests {
    use super::StoreRanges;

    #[test]
    fn ranges_grow_together_again() {
        let mut store_ranges = StoreRanges::new(10);
        assert_eq!(
            [3, 3, 4].map(|count| store_ranges.take(count)),
            [Some(0), Some(3), Some(6)]
        );
        assert_eq!(store_ranges.take(1), None);
        store_ranges.give_back(0, 3);
        store_ranges.give_back(6, 4);
        assert_eq!(store_ranges.take(5), None);
        store_ranges.give_back(3, 3);
        assert_eq!(store_ranges.take(10), Some(0));
    }
}
