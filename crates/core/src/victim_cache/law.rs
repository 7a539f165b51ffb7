//! Laws 1 and 6, as far as they are the cache's: every frame has one use, and every page is where the index says.

use super::VictimCache;
use super::node::Place;
use crate::law::Violation;

fn check(law: u8, what: &'static str, place: u32, left: u64, right: u64) -> Result<(), Violation> {
    let side = |number| i64::try_from(number).unwrap_or(i64::MAX);
    if left == right {
        return Ok(());
    }
    Err(Violation {
        law,
        what,
        place,
        sides: (side(left), side(right)),
    })
}

impl VictimCache {
    /// Compares the counters with each other. O(1).
    ///
    /// # Errors
    /// The first law that does not hold.
    pub fn check_counts(&self) -> Result<(), Violation> {
        let frames = self.frames;
        let sum = [
            frames.free,
            frames.filling,
            frames.cached,
            frames.leaving,
            frames.device,
            frames.retired,
        ];
        let sum = sum.iter().map(|count| u64::from(*count)).sum();
        check(
            1,
            "uses of frames add up to the region",
            0,
            sum,
            u64::from(self.nodes.len()),
        )?;
        let pages = self.pages;
        let gone = pages.hits + pages.evicted + pages.flushed + pages.discarded + pages.failed;
        let live: u64 = self.regions.rows().iter().map(|row| u64::from(row.live)).sum();
        check(6, "pages put are here or have left", 0, pages.puts, gone + live)
    }

    /// Recounts everything from the rows. O(frames × devices).
    ///
    /// # Errors
    /// The first law that does not hold.
    pub fn check_laws(&self) -> Result<(), Violation> {
        self.check_counts()?;
        for region in 0..self.regions.rows().len() {
            self.check_region(region)?;
        }
        let (mut cached, mut listed) = (0, 0);
        for frame in 0..self.nodes.len() {
            let node = &self.nodes[frame];
            if self.regions.is_live(node) {
                cached += u64::from(node.place == Place::Cached);
                let found = self
                    .index
                    .find(super::index::row_hash(&self.nodes, frame), |other| other == frame);
                check(6, "a page is in the index", frame, u64::from(found.is_some()), 1)?;
                let lent = self.devices.iter().any(|row| !row.is_idle() && row.used.has(frame));
                check(6, "no frame of a device holds a page", frame, u64::from(lent), 0)?;
            }
        }
        for frame in self.order.iter(&self.nodes) {
            check(
                6,
                "a page in order of puts is linked",
                frame,
                u64::from(self.nodes[frame].linked),
                1,
            )?;
            listed += u64::from(self.regions.is_live(&self.nodes[frame]));
        }
        let live: u64 = self.regions.rows().iter().map(|row| u64::from(row.live)).sum();
        check(6, "pages in order of puts", 0, listed, live)?;
        check(1, "frames with a page", 0, cached, u64::from(self.frames.cached))?;
        self.check_places()
    }

    fn check_region(&self, region: usize) -> Result<(), Violation> {
        let row = &self.regions.rows()[region];
        let nodes = (row.range.first..row.range.end()).map(|frame| &self.nodes[frame]);
        let live = nodes.filter(|node| self.regions.is_live(node));
        let (count, worth) = live.fold((0, 0), |(count, worth), node| {
            (count + 1, worth + u64::from(node.worth))
        });
        let place = u32::try_from(region).unwrap_or(u32::MAX);
        check(6, "live pages of a base region", place, u64::from(row.live), count)?;
        check(6, "the worth of a base region", place, row.worth, worth)
    }

    /// Open devices do not overlap, and with safe placement the closed ones can be packed between them.
    fn check_places(&self) -> Result<(), Violation> {
        let (open, count, closed) = self.occupied();
        let apart = open[..count].windows(2).all(|pair| pair[0].end() <= pair[1].first);
        check(1, "a frame has one device", 0, u64::from(apart), 1)?;
        let safe = !self.chooser.places_safely() || self.layout.is_safe(closed, &open[..count]);
        check(6, "closed devices can be packed", 0, u64::from(safe), 1)
    }
}
