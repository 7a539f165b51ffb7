//! Base regions BR(d): the region cut at every address where a device can begin or end (paper 003, section 3.3).
//!
//! A base region that is discarded whole gets a new generation: rows of frames that were put under an older one are
//! dead, and removed when they are met. So a discard costs the same however many pages there are.

use super::lru::FrameList;
use super::node::{Node, Nodes, Place};
use super::spec::FrameRange;
use alloc::vec::Vec;

/// The most base regions: between the sums of all subsets of eight sizes.
pub(super) const MOST_REGIONS: usize = 255;

/// A base region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) range: FrameRange,
    pub(super) generation: u32,
    /// Frames with a page of this generation, copies into them included.
    pub(super) live: u32,
    /// The sum of what those are worth.
    pub(super) worth: u64,
    /// All of it is a device's, whatever the rows say.
    pub(super) lent: bool,
    /// Frames that are free.
    pub(super) free: u32,
    /// Of those, the ones that have not been used since the region was last free as a whole.
    fresh: FrameRange,
    /// And the others.
    freed: FrameList,
}

/// All base regions, in order of address.
#[derive(Debug)]
pub(super) struct Regions {
    rows: Vec<Region>,
    /// Which have a free frame.
    with_free: [u64; 4],
}

impl Regions {
    /// Regions between cuts, which begin with 0 and end with the number of frames.
    pub(super) fn new(cuts: &[u32]) -> Option<Self> {
        let mut rows = Vec::new();
        rows.try_reserve_exact(cuts.len().saturating_sub(1)).ok()?;
        rows.extend(cuts.windows(2).map(|cut| {
            let range = FrameRange {
                first: cut[0],
                count: cut[1] - cut[0],
            };
            Region {
                range,
                generation: 0,
                live: 0,
                worth: 0,
                lent: false,
                free: 0,
                fresh: FrameRange::default(),
                freed: FrameList::EMPTY,
            }
        }));
        let mut regions = Self {
            rows,
            with_free: [0; 4],
        };
        for region in 0..regions.rows.len() {
            regions.free_whole(region);
        }
        Some(regions)
    }

    pub(super) fn rows(&self) -> &[Region] {
        &self.rows
    }

    pub(super) fn row(&mut self, region: usize) -> &mut Region {
        &mut self.rows[region]
    }

    /// Whether a frame has a page that counts.
    pub(super) fn is_live(&self, node: &Node) -> bool {
        let region = &self.rows[usize::from(node.region)];
        let page = matches!(node.place, Place::Cached | Place::Filling);
        node.linked && page && !region.lent && node.generation == region.generation
    }

    /// All of a region is free: whatever its rows say is of an older generation.
    pub(super) fn free_whole(&mut self, region: usize) {
        let row = &mut self.rows[region];
        row.generation = row.generation.wrapping_add(1);
        (row.live, row.worth, row.lent) = (0, 0, false);
        row.free = row.range.count;
        row.fresh = row.range;
        row.freed = FrameList::EMPTY;
        self.note(region);
    }

    /// All of a region becomes a device's.
    pub(super) fn lend_whole(&mut self, region: usize) {
        let row = &mut self.rows[region];
        row.generation = row.generation.wrapping_add(1);
        (row.live, row.worth, row.lent, row.free) = (0, 0, true, 0);
        row.fresh = FrameRange::default();
        row.freed = FrameList::EMPTY;
        self.note(region);
    }

    /// A frame is free; its row must be off all lists.
    pub(super) fn free_one(&mut self, nodes: &mut Nodes, frame: u32) {
        nodes[frame].place = Place::Vacant;
        let region = usize::from(nodes[frame].region);
        let row = &mut self.rows[region];
        row.freed.push_back(nodes, frame);
        row.free += 1;
        self.note(region);
    }

    /// The free frame of the lowest base region. Its row may still be linked as it was before the region was lent.
    pub(super) fn take_free(&mut self, nodes: &mut Nodes) -> Option<u32> {
        let word = self.with_free.iter().position(|word| *word != 0)?;
        let region = word * 64 + self.with_free[word].trailing_zeros() as usize;
        let row = &mut self.rows[region];
        let frame = match row.freed.first() {
            Some(frame) => {
                row.freed.remove(nodes, frame);
                frame
            }
            None => {
                let frame = row.fresh.first;
                row.fresh.first += 1;
                row.fresh.count -= 1;
                frame
            }
        };
        row.free -= 1;
        self.note(region);
        Some(frame)
    }

    /// Takes one free frame away. The region is settled, and the frame is free.
    pub(super) fn take_this(&mut self, nodes: &mut Nodes, frame: u32) {
        let region = usize::from(nodes[frame].region);
        let row = &mut self.rows[region];
        row.freed.remove(nodes, frame);
        row.free -= 1;
        self.note(region);
    }

    /// From now on each row of a region says itself what its frame is. No row of a dead page is linked any more.
    /// O(frames of the region).
    pub(super) fn settle(&mut self, nodes: &mut Nodes, region: usize) {
        let row = &mut self.rows[region];
        let fresh = core::mem::take(&mut row.fresh);
        for frame in fresh.first..fresh.end() {
            nodes[frame].place = Place::Vacant;
            row.freed.push_back(nodes, frame);
        }
        if core::mem::take(&mut row.lent) {
            for frame in row.range.first..row.range.end() {
                if !matches!(nodes[frame].place, Place::Filling | Place::Leaving) {
                    nodes[frame].place = Place::Lent;
                }
            }
        }
    }

    fn note(&mut self, region: usize) {
        let bit = 1 << (region % 64);
        if self.rows[region].free > 0 {
            self.with_free[region / 64] |= bit;
        } else {
            self.with_free[region / 64] &= !bit;
        }
    }
}
