//! Pages that the kernel holds for mappings and running programs: an upper bound, in order of fill.
//!
//! A page is counted before the kernel gets it. It is counted no more when an invalidation that began after the fill
//! has ended, or when the kernel has forgotten the inode.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A page of an inode, as the kernel numbers inodes.
type Place = (u64, u64);

/// Pages of one inode that lie behind one another, to be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) inode: u64,
    pub(crate) pages: Range<u64>,
}

impl Run {
    /// Whether one of these pages is among them.
    pub(crate) fn meets(&self, inode: u64, pages: &Range<u64>) -> bool {
        self.inode == inode && self.pages.start < pages.end && pages.start < self.pages.end
    }
}

/// The pages.
#[derive(Debug, Default)]
pub(crate) struct KernelPages {
    filled: BTreeMap<Place, u64>,
    order: BTreeMap<u64, Place>,
    /// Those of files that may change at any time: to be taken back at once.
    urgent: BTreeSet<Place>,
    /// What is being taken back now.
    going: Option<Run>,
}

impl KernelPages {
    /// How many there are at most.
    pub(crate) fn len(&self) -> usize {
        self.filled.len()
    }

    /// How many of these are not counted yet.
    pub(crate) fn missing(&self, inode: u64, pages: &Range<u64>) -> usize {
        let here = self.filled.range((inode, pages.start)..(inode, pages.end)).count();
        usize::try_from(pages.end - pages.start)
            .unwrap_or(usize::MAX)
            .saturating_sub(here)
    }

    /// Counts these pages, filled now; stamps are from `stamp` on, and nobody else uses them.
    pub(crate) fn fill(&mut self, inode: u64, pages: Range<u64>, stamp: u64, urgent: bool) {
        for (page, stamp) in pages.zip(stamp..) {
            let place = (inode, page);
            if let Some(before) = self.filled.insert(place, stamp) {
                self.order.remove(&before);
            }
            self.order.insert(stamp, place);
            if urgent {
                self.urgent.insert(place);
            } else {
                self.urgent.remove(&place);
            }
        }
    }

    /// When the oldest page was filled.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.order.first_key_value().map(|(stamp, _)| *stamp)
    }

    /// Whether pages are to be taken back at once.
    pub(crate) fn is_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Whether the kernel holds any page of this inode.
    pub(crate) fn has_inode(&self, inode: u64) -> bool {
        self.filled.range((inode, 0)..=(inode, u64::MAX)).next().is_some()
    }

    /// Whether one of these pages is being taken back.
    pub(crate) fn is_going(&self, inode: u64, pages: &Range<u64>) -> bool {
        self.going.as_ref().is_some_and(|run| run.meets(inode, pages))
    }

    /// The pages to take back next, at most so many, as runs: urgent ones where there are any, else the oldest.
    pub(crate) fn batch(&self, most: usize) -> Vec<Run> {
        let mut places: Vec<Place> = if self.urgent.is_empty() {
            self.order.values().take(most).copied().collect()
        } else {
            self.urgent.iter().take(most).copied().collect()
        };
        places.sort_unstable();
        let mut runs: Vec<Run> = Vec::new();
        for (inode, page) in places {
            match runs.last_mut() {
                Some(run) if run.inode == inode && run.pages.end == page => run.pages.end += 1,
                _ => runs.push(Run {
                    inode,
                    pages: page..page + 1,
                }),
            }
        }
        runs
    }

    /// A run is about to be taken back.
    pub(crate) fn begin(&mut self, run: Run) {
        self.going = Some(run);
    }

    /// It has been: its pages that were filled before `stamp` are gone.
    pub(crate) fn end(&mut self, stamp: u64) {
        if let Some(run) = self.going.take() {
            self.drop_before(run.inode, run.pages, stamp);
        }
    }

    /// Pages of an inode that were filled before `stamp` are gone.
    pub(crate) fn drop_before(&mut self, inode: u64, pages: Range<u64>, stamp: u64) {
        let range = (inode, pages.start)..(inode, pages.end);
        let gone: Vec<(Place, u64)> = self.filled.range(range).map(|(place, at)| (*place, *at)).collect();
        for (place, at) in gone.into_iter().filter(|(_, at)| *at < stamp) {
            self.filled.remove(&place);
            self.order.remove(&at);
            self.urgent.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_in_runs_and_what_is_filled_again_stays() {
        let mut pages = KernelPages::default();
        pages.fill(5, 0..4, 0, false);
        pages.fill(6, 8..10, 4, false);
        pages.fill(5, 1..2, 6, false);
        let runs = pages.batch(4);
        let run = |inode, pages| Run { inode, pages };
        assert_eq!(runs, [run(5, 0..1), run(5, 2..4), run(6, 8..9)]);
        pages.begin(run(5, 2..4));
        assert!(pages.is_going(5, &(3..9)) && !pages.is_going(5, &(4..9)) && !pages.is_going(6, &(2..4)));
        pages.fill(5, 3..4, 7, false);
        pages.end(7);
        assert_eq!((pages.len(), pages.missing(5, &(0..4))), (5, 1));
    }

    #[test]
    fn urgent_pages_go_before_older_ones() {
        let mut pages = KernelPages::default();
        pages.fill(5, 0..4, 0, false);
        pages.fill(9, 2..3, 4, true);
        assert!(pages.is_urgent());
        assert_eq!(pages.batch(8), [Run { inode: 9, pages: 2..3 }]);
        pages.drop_before(9, 0..u64::MAX, 5);
        assert!(!pages.is_urgent() && !pages.has_inode(9) && pages.has_inode(5));
        assert_eq!(pages.len(), 4);
    }
}
