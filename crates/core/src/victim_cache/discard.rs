//! Making room for a device: pages that lie where it goes are dropped. Nothing is copied or written, since all are
//! clean.

use super::VictimCache;
use super::copies::Fate;
use super::node::Place;
use super::spec::FrameRange;

/// What a discard did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Discarded {
    /// Pages dropped.
    pub(super) pages: u32,
    /// Frames in which a copy is under way: they are the device's when it has ended.
    pub(super) waiting: u32,
}

impl VictimCache {
    /// Frees a range, which is no device's, of its pages, and lends it. Base regions that lie in it whole cost
    /// O(buckets) each, whatever is cached there; of one that it cuts, each frame is visited.
    pub(super) fn discard(&mut self, range: FrameRange) -> Discarded {
        let mut pages = 0;
        for region in 0..self.regions.rows().len() {
            let whole = self.regions.rows()[region].range;
            if range.contains(whole) {
                pages += self.discard_whole(region);
            } else if range.overlaps(whole) {
                pages += self.discard_part(region, range.meet(whole));
            }
        }
        let waiting = self.copies.set_fates(range, Fate::Lend);
        self.frames.device += range.count - waiting;
        self.pages.discarded += u64::from(pages);
        Discarded { pages, waiting }
    }

    fn discard_whole(&mut self, region: usize) -> u32 {
        let row = self.regions.rows()[region];
        let filling = self.copies.rows().iter().map(|copy| &self.nodes[copy.frame]);
        let filling = filling.filter(|node| usize::from(node.region) == region && self.regions.is_live(node));
        let filling = u32::try_from(filling.count()).unwrap_or(u32::MAX);
        self.frames.cached -= row.live - filling;
        self.frames.free -= row.free;
        self.buckets.clear(region);
        self.regions.lend_whole(region);
        row.live
    }

    fn discard_part(&mut self, region: usize, range: FrameRange) -> u32 {
        self.settle_region(region);
        let mut pages = 0;
        for frame in range.first..range.end() {
            if self.nodes[frame].linked {
                self.unlink_live(frame);
                pages += 1;
            }
            match self.nodes[frame].place {
                Place::Vacant => {
                    self.regions.take_this(&mut self.nodes, frame);
                    self.frames.free -= 1;
                    self.nodes[frame].place = Place::Lent;
                }
                Place::Cached => {
                    self.frames.cached -= 1;
                    self.nodes[frame].place = Place::Lent;
                }
                // Lent when the copy has ended.
                Place::Filling | Place::Leaving => {}
                Place::Lent | Place::Retired => debug_assert!(false, "what is discarded is no device's"),
            }
        }
        pages
    }

    /// From now on the rows of a base region say themselves what its frames are. O(frames of the region).
    pub(super) fn settle_region(&mut self, region: usize) {
        let range = self.regions.rows()[region].range;
        for frame in range.first..range.end() {
            if self.nodes[frame].linked && !self.regions.is_live(&self.nodes[frame]) {
                self.bury(frame);
            }
        }
        self.regions.settle(&mut self.nodes, region);
    }
}
