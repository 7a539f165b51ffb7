//! The cost of each base region, by distance from the least recently put page, without a walk through all pages.
//!
//! Puts are numbered by *buckets* of equally many puts. A bucket counts its live pages in each base region. All its
//! pages count as if they lay in its middle, so a page's distance is wrong by at most half a bucket. Nearly empty
//! buckets are merged with their neighbours, so there are never more than a few hundred.

use alloc::vec::Vec;

/// A bucket holds at most one in so many of the region's frames.
const SHARE: u32 = 256;
/// Once there are so many buckets, neighbours are merged.
const MOST: usize = 4 * SHARE as usize;

/// The buckets, oldest first.
#[derive(Debug)]
pub(super) struct Buckets {
    /// The number of each bucket's first put, counted in buckets.
    firsts: Vec<u32>,
    /// Live pages of each.
    totals: Vec<u32>,
    /// Live pages of each, for each base region.
    counts: Vec<u32>,
    regions: usize,
    /// Pages that a bucket holds at most.
    capacity: u32,
    /// Puts into the newest bucket.
    puts: u32,
}

impl Buckets {
    pub(super) fn new(frames: u32, regions: usize) -> Option<Self> {
        let (mut firsts, mut totals, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        firsts.try_reserve_exact(MOST).ok()?;
        totals.try_reserve_exact(MOST).ok()?;
        counts.try_reserve_exact(MOST * regions).ok()?;
        let mut buckets = Self {
            firsts,
            totals,
            counts,
            regions,
            capacity: (frames / SHARE).max(1),
            puts: 0,
        };
        buckets.open(0);
        Some(buckets)
    }

    /// Pages that a bucket holds at most: a page's distance is known to within half of it.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    fn open(&mut self, first: u32) {
        self.firsts.push(first);
        self.totals.push(0);
        self.counts.resize(self.firsts.len() * self.regions, 0);
        self.puts = 0;
    }

    /// Counts a put into a base region; returns the bucket's number. O(1) amortised.
    pub(super) fn put(&mut self, region: usize) -> u32 {
        if self.puts >= self.capacity {
            let newest = self.firsts.last().copied().unwrap_or(0);
            if self.firsts.len() == MOST {
                self.merge();
            }
            self.open(newest.saturating_add(1));
        }
        self.puts += 1;
        let newest = self.firsts.len() - 1;
        self.totals[newest] += 1;
        self.counts[newest * self.regions + region] += 1;
        self.firsts[newest]
    }

    /// A live page of this bucket and base region is none any more. O(log of the buckets).
    pub(super) fn remove(&mut self, bucket: u32, region: usize) {
        let at = self.firsts.partition_point(|first| *first <= bucket).saturating_sub(1);
        self.totals[at] -= 1;
        self.counts[at * self.regions + region] -= 1;
    }

    /// All live pages of a base region are none any more. O(buckets).
    pub(super) fn clear(&mut self, region: usize) {
        for at in 0..self.firsts.len() {
            let count = core::mem::take(&mut self.counts[at * self.regions + region]);
            self.totals[at] -= count;
        }
    }

    /// Twice the sum of the distances of each base region's pages, into `costs`. O(buckets × base regions).
    pub(super) fn costs(&self, costs: &mut [u64]) {
        costs.fill(0);
        let mut older = 0_u64;
        for (at, total) in self.totals.iter().enumerate() {
            let middle = 2 * older + u64::from(*total);
            let counts = &self.counts[at * self.regions..][..self.regions];
            for (cost, count) in costs.iter_mut().zip(counts) {
                *cost += middle * u64::from(*count);
            }
            older += u64::from(*total);
        }
    }

    /// Merges each bucket with the one before it where both together hold no more than one may: at most half of the
    /// most buckets are left, and no two neighbours that could be merged.
    fn merge(&mut self) {
        let mut kept = 0;
        for at in 1..self.firsts.len() {
            if self.totals[kept] + self.totals[at] <= self.capacity {
                self.totals[kept] += self.totals[at];
                for region in 0..self.regions {
                    self.counts[kept * self.regions + region] += self.counts[at * self.regions + region];
                }
                continue;
            }
            kept += 1;
            self.firsts[kept] = self.firsts[at];
            self.totals[kept] = self.totals[at];
            self.counts
                .copy_within(at * self.regions..(at + 1) * self.regions, kept * self.regions);
        }
        self.firsts.truncate(kept + 1);
        self.totals.truncate(kept + 1);
        self.counts.truncate((kept + 1) * self.regions);
    }
}
