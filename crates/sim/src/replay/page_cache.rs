//! The page cache of a replay. What it has and what it misses does not depend on what lies behind it, so it is gone
//! through once, whatever number of policies is replayed behind it.

use super::lru::{Lru, NONE};
use super::outcome::Bounds;
use super::run::{Deletes, Setup};
use super::trace::{Step, Trace};

/// What the page cache leaves to what lies behind it, in the trace's order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Left {
    /// So many uses of pages that it had, then one of a page that it had not.
    Miss {
        hits: u32,
        /// The page that is wanted.
        wanted: u32,
        /// The page that makes room for it, or [`NONE`].
        gone: u32,
        /// Whether the next use of that one is a hit if no device ever opens, and no deletion lies between.
        wanted_again: bool,
    },
    /// So many uses of pages that it had.
    Hits { hits: u32 },
    /// A page was deleted.
    Flush { page: u32 },
    /// Time passes, a group begins, a device opens or closes.
    Step(Step),
}

/// A trace, as its page cache leaves it.
#[derive(Debug, Default)]
pub(super) struct Remainder {
    pub(super) left: Vec<Left>,
    pub(super) accesses: u64,
    pub(super) bounds: Bounds,
}

impl Remainder {
    pub(super) fn of(trace: &Trace, setup: &Setup) -> Self {
        let frames = setup.page_cache.get() as usize;
        let all = frames + setup.cache.get() as usize;
        let mut cache = PageCache {
            lru: Lru::new(frames, trace.pages()),
            all: (!setup.devices.is_empty()).then(|| Lru::new(all, trace.pages())),
            departures: vec![NONE; trace.pages()],
            seen: vec![false; trace.pages()],
            hits: 0,
            remainder: Self::default(),
        };
        for step in trace.steps() {
            match *step {
                Step::Use { first, count } => (first..first + count).for_each(|page| cache.access(page)),
                Step::UseScattered { place } => trace.scattered(place).for_each(|page| cache.access(page)),
                Step::Delete { place } if setup.deletes == Deletes::Flush => {
                    trace.scattered(place).for_each(|page| cache.flush(page));
                }
                Step::Delete { .. } => {}
                Step::Time { .. } | Step::Mark { .. } | Step::Open { .. } | Step::Close { .. } => {
                    cache.leave(Left::Step(*step));
                }
            }
        }
        cache.pass_hits();
        cache.remainder
    }
}

struct PageCache {
    lru: Lru,
    /// One list of all frames. Without devices both tiers together are that list, and it is not kept.
    all: Option<Lru>,
    /// Where the last departure of each page stands among what is left, or [`NONE`].
    departures: Vec<u32>,
    /// Pages that an infinite cache has.
    seen: Vec<bool>,
    hits: u32,
    remainder: Remainder,
}

impl PageCache {
    fn access(&mut self, page: u32) {
        self.remainder.accesses += 1;
        let without_devices = self.all.as_mut().is_some_and(|all| {
            let had = all.touch(page);
            if !had {
                all.add(page);
                self.remainder.bounds.no_device_misses += 1;
            }
            had
        });
        if self.lru.touch(page) {
            self.hits += 1;
            if self.hits == u32::MAX {
                self.pass_hits();
            }
            return;
        }
        let at = page as usize;
        self.remainder.bounds.distinct += u64::from(!std::mem::replace(&mut self.seen[at], true));
        let before = std::mem::replace(&mut self.departures[at], NONE);
        if let Some(Left::Miss { wanted_again, .. }) = self.remainder.left.get_mut(before as usize) {
            *wanted_again = without_devices;
        }
        let gone = self.lru.add(page).unwrap_or(NONE);
        if gone != NONE {
            self.departures[gone as usize] = u32::try_from(self.remainder.left.len()).unwrap_or(NONE);
        }
        self.remainder.left.push(Left::Miss {
            hits: std::mem::take(&mut self.hits),
            wanted: page,
            gone,
            wanted_again: false,
        });
    }

    fn flush(&mut self, page: u32) {
        self.lru.remove(page);
        if let Some(all) = &mut self.all {
            all.remove(page);
        }
        self.seen[page as usize] = false;
        self.departures[page as usize] = NONE;
        self.leave(Left::Flush { page });
    }

    fn leave(&mut self, left: Left) {
        self.pass_hits();
        self.remainder.left.push(left);
    }

    fn pass_hits(&mut self) {
        let hits = std::mem::take(&mut self.hits);
        if hits > 0 {
            self.remainder.left.push(Left::Hits { hits });
        }
    }
}
