//! What a replay counted.

use freehold_core::victim_cache::PageCounts;

/// One open of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The trace's row.
    pub row: u64,
    /// Its place among the devices.
    pub device: usize,
    /// The first frame that it got.
    pub first: u32,
    /// How many.
    pub pages: u32,
    /// Places that were possible.
    pub candidates: u32,
    /// Pages that were there.
    pub discarded: u32,
    /// What the place costs by the policy.
    pub cost: u64,
    /// How long the choice and the discard took, in nanoseconds.
    pub choose_ns: u64,
}

/// Of several times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

impl Times {
    pub(super) fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let at = |part: usize| {
            times
                .get((times.len() * part / 100).min(times.len().saturating_sub(1)))
                .copied()
        };
        Self {
            p50: at(50).unwrap_or(0),
            p99: at(99).unwrap_or(0),
            max: at(100).unwrap_or(0),
        }
    }
}

/// What was used for one group of accesses ([`Event::Mark`](super::Event::Mark)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// How often the group began.
    pub begun: u64,
    /// Pages used, each use counted.
    pub accesses: u64,
    /// Of those, read.
    pub misses: u64,
}

/// What the trace itself allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Pages that occur: what an infinite cache misses.
    pub distinct: u64,
    /// Misses if no device ever opened: those of one LRU list of all frames.
    pub no_device_misses: u64,
}

/// The mean part of the victim cache's frames that cache a page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Utilisation {
    /// Over accesses.
    pub by_access: f64,
    /// Over time, where rows have times.
    pub by_time: Option<f64>,
}

/// A replay's result. `accesses` = `page_cache_hits` + victim hits + `misses`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replayed {
    /// Rows of the trace.
    pub rows: u64,
    /// Pages used, each use counted.
    pub accesses: u64,
    /// Of those, found in the page cache.
    pub page_cache_hits: u64,
    /// Read.
    pub misses: u64,
    /// What the victim cache counted; its hits are the victim hits.
    pub pages: PageCounts,
    /// Of the misses, those of pages that a device had displaced.
    pub discarded_wanted: u64,
    /// Pages in the victim cache at the end.
    pub resident: u64,
    /// The mean part of its frames that cache a page.
    pub utilisation: Utilisation,
    /// Opens, in order.
    pub allocations: Vec<Allocation>,
    /// Opens that no place was found for.
    pub refused: u64,
    /// How long choices took.
    pub choose: Times,
    /// Of accesses after a mark, by the mark's group.
    pub groups: Vec<GroupCounts>,
    /// What the trace allows.
    pub bounds: Bounds,
    /// How long the replay took, without what the bounds and the future of the policy `optimal` need, in nanoseconds.
    pub wall_ns: u64,
    /// Of the static policy: devices in the order of address that misses least.
    pub order: Option<Vec<usize>>,
}
