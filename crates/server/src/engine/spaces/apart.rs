//! Memory of a client that was given back to the kernel, and that a userfaultfd of the program's own may serve since.
//!
//! The kernel takes pages from this server there too: `UFFDIO_COPY` does not ask whose userfaultfd watches a range. So
//! nothing may be brought along into it. A message of this server's userfaultfd says that a page is the server's
//! again: the program has mapped other memory there.

use std::collections::BTreeMap;

use crate::engine::prefetch::Stretch;

/// Ranges of one client, at most: with more of them nothing is brought along any more.
const MOST: usize = 4_096;

/// The ranges: start and end. No two of them touch.
#[derive(Debug, Default)]
pub(in crate::engine) struct Apart {
    ranges: BTreeMap<u64, u64>,
    full: bool,
}

impl Apart {
    /// A range was given back.
    pub(in crate::engine) fn add(&mut self, (mut start, mut end): (u64, u64)) {
        while let Some((from, to)) = self.ranges.range(..=end).next_back().map(|(from, to)| (*from, *to))
            && to >= start
        {
            self.ranges.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.full |= self.ranges.len() >= MOST;
        if !self.full {
            self.ranges.insert(start, end);
        }
    }

    /// The server was asked for the page at an address.
    pub(in crate::engine) fn take_back(&mut self, address: u64) {
        let page = address - address % crate::PAGE;
        let Some((start, end)) = self.around(address) else {
            return;
        };
        self.ranges.remove(&start);
        let parts = [(start, page), (page + crate::PAGE, end)];
        self.ranges.extend(parts.into_iter().filter(|(from, to)| from < to));
    }

    /// What of a stretch of memory around an address may be brought along with its page.
    pub(in crate::engine) fn clip(&self, address: u64, mut stretch: Stretch) -> Stretch {
        let page = address - address % crate::PAGE;
        let before = self.ranges.range(..=page).next_back();
        let behind = self.ranges.range(page + 1..).next();
        stretch.low = before.map_or(stretch.low, |(_, end)| stretch.low.max(*end));
        stretch.high = behind.map_or(stretch.high, |(start, _)| stretch.high.min(*start));
        if self.full {
            stretch = Stretch {
                low: page,
                high: page + crate::PAGE,
            };
        }
        stretch
    }

    fn around(&self, address: u64) -> Option<(u64, u64)> {
        let (start, end) = self.ranges.range(..=address).next_back()?;
        (address < *end).then_some((*start, *end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Stretch = Stretch { low: 0, high: 1 << 30 };

    fn page(number: u64) -> u64 {
        number * crate::PAGE
    }

    /// What of pages 0 to 11 is apart.
    fn pages(apart: &Apart) -> Vec<u64> {
        (0..12).filter(|number| apart.around(page(*number)).is_some()).collect()
    }

    #[test]
    fn ranges_grow_together_and_pages_come_back() {
        let mut apart = Apart::default();
        for (start, end) in [(2, 4), (8, 10), (4, 5), (1, 2), (3, 9)] {
            apart.add((page(start), page(end)));
        }
        assert_eq!((pages(&apart), apart.ranges.len()), ((1..10).collect(), 1));
        for back in [1, 5, 9, 11] {
            apart.take_back(page(back) + 17);
        }
        assert_eq!(pages(&apart), [2, 3, 4, 6, 7, 8]);
        let stretch = apart.clip(page(5) + 3, ALL);
        assert_eq!((stretch.low, stretch.high), (page(5), page(6)));
        let stretch = apart.clip(page(0), ALL);
        assert_eq!((stretch.low, stretch.high), (0, page(2)));
        let stretch = apart.clip(page(9), ALL);
        assert_eq!((stretch.low, stretch.high), (page(9), ALL.high));
    }

    #[test]
    fn too_many_ranges_leave_nothing_to_bring_along() {
        let mut apart = Apart::default();
        for number in 0..=MOST as u64 {
            apart.add((page(2 * number), page(2 * number + 1)));
        }
        let far = page(3 * MOST as u64);
        let stretch = apart.clip(far, ALL);
        assert_eq!((stretch.low, stretch.high), (far, far + crate::PAGE));
    }
}
