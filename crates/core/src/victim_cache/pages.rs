//! Pages in and out (paper 003, section 3.2).

use super::VictimCache;
use super::copies::Fate;
use super::error::{FactError, PutError};
use super::index::{page_hash, row_hash};
use super::node::Place;
use super::spec::{FileId, FrameIndex};
use super::view::{Got, Put};
use crate::units::PageIndex;

impl VictimCache {
    /// Takes a clean page that left the cache above: copy it into the frame, then report [`copied`](Self::copied) or
    /// [`copy_failed`](Self::copy_failed). `worth` counts under [`Policy::Worth`](super::Policy::Worth) only. A page
    /// that is here already is replaced. O(1) expected, amortised over pages that were discarded.
    ///
    /// # Errors
    /// See [`PutError`]; the page is not here then.
    pub fn put(&mut self, file: FileId, page: PageIndex, worth: u8) -> Result<Put, PutError> {
        self.flush_page(file, page);
        if self.copies.is_full() {
            return Err(PutError::Copies);
        }
        self.files.find_or_make(file).ok_or(PutError::Files)?;
        let frame = self.take_frame();
        // A page of the same file may have gone, and been its last.
        let row = self.files.find_or_make(file).ok_or(PutError::Files)?;
        let Some((frame, evicted)) = frame else {
            self.files.drop_empty(row);
            return Err(PutError::NoFrame);
        };
        let region = usize::from(self.nodes[frame].region);
        let node = &mut self.nodes[frame];
        (node.file, node.page, node.worth) = (row, page.get(), worth);
        node.generation = self.regions.rows()[region].generation;
        node.bucket = self.buckets.put(region);
        (node.place, node.linked) = (Place::Filling, true);
        self.order.push_back(&mut self.nodes, frame);
        self.files.link(&mut self.nodes, frame);
        self.index.insert(page_hash(row, page.get()), frame);
        let counted = self.regions.row(region);
        counted.live += 1;
        counted.worth += u64::from(worth);
        self.frames.filling += 1;
        self.copies.begin(frame);
        self.pages.puts += 1;
        Ok(Put {
            frame: FrameIndex(frame),
            evicted,
        })
    }

    /// Gives a page back to the cache above, if it is here. A page that is still copied in is not; it goes, since the
    /// cache above reads it now. O(1) expected.
    pub fn get(&mut self, file: FileId, page: PageIndex) -> Got {
        self.pages.gets += 1;
        let Some(frame) = self.find(file, page) else {
            return Got::Miss;
        };
        if self.nodes[frame].place == Place::Filling || self.copies.is_full() {
            self.flush_frame(frame);
            return Got::Miss;
        }
        self.unlink_live(frame);
        self.nodes[frame].place = Place::Leaving;
        self.frames.cached -= 1;
        self.frames.leaving += 1;
        self.copies.begin(frame);
        self.pages.hits += 1;
        Got::Hit(FrameIndex(frame))
    }

    /// The copy into or out of a frame has ended.
    ///
    /// # Errors
    /// [`FactError::NoCopy`].
    pub fn copied(&mut self, frame: FrameIndex) -> Result<(), FactError> {
        self.end_copy(frame, true)
    }

    /// The copy into or out of a frame has failed: what was copied in is not cached.
    ///
    /// # Errors
    /// [`FactError::NoCopy`].
    pub fn copy_failed(&mut self, frame: FrameIndex) -> Result<(), FactError> {
        self.end_copy(frame, false)
    }

    /// A page of a file has changed or gone. O(1) expected.
    pub fn flush_page(&mut self, file: FileId, page: PageIndex) {
        if let Some(frame) = self.find(file, page) {
            self.flush_frame(frame);
        }
    }

    /// A file has changed or gone. O(pages of it that are here).
    pub fn flush_file(&mut self, file: FileId) {
        while let Some(frame) = self.files.find(file).and_then(|row| self.files.first_frame(row)) {
            if self.regions.is_live(&self.nodes[frame]) {
                self.flush_frame(frame);
            } else {
                self.bury(frame);
            }
        }
    }

    /// Whether a page is here, to be looked at only: nothing changes. O(1) expected.
    #[must_use]
    pub fn has(&self, file: FileId, page: PageIndex) -> bool {
        let found = self.files.find(file).and_then(|row| self.row_of(row, page));
        found.is_some_and(|frame| self.regions.is_live(&self.nodes[frame]))
    }

    fn row_of(&self, row: u32, page: PageIndex) -> Option<u32> {
        self.index.find(page_hash(row, page.get()), |frame| {
            self.nodes[frame].file == row && self.nodes[frame].page == page.get()
        })
    }

    /// The frame of a live page. What is found dead is buried.
    fn find(&mut self, file: FileId, page: PageIndex) -> Option<u32> {
        let row = self.files.find(file)?;
        let frame = self.row_of(row, page)?;
        if self.regions.is_live(&self.nodes[frame]) {
            return Some(frame);
        }
        self.bury(frame);
        None
    }

    fn end_copy(&mut self, frame: FrameIndex, done: bool) -> Result<(), FactError> {
        let frame = frame.get();
        let fate = self.copies.end(frame).ok_or(FactError::NoCopy)?;
        let filling = self.nodes[frame].place == Place::Filling;
        if filling {
            self.frames.filling -= 1;
        } else {
            self.frames.leaving -= 1;
        }
        match fate {
            Fate::Usual if filling && done => {
                self.nodes[frame].place = Place::Cached;
                self.frames.cached += 1;
            }
            Fate::Usual if filling => {
                self.unlink_live(frame);
                self.pages.failed += 1;
                self.free(frame);
            }
            Fate::Usual | Fate::Free => self.free(frame),
            Fate::Lend => self.lend_late(frame),
        }
        Ok(())
    }

    /// The content of a live page is not wanted any more.
    fn flush_frame(&mut self, frame: u32) {
        self.unlink_live(frame);
        self.pages.flushed += 1;
        self.drop_content(frame);
    }

    /// A page that is linked no more leaves its frame, at once or when its copy has ended.
    fn drop_content(&mut self, frame: u32) {
        if self.nodes[frame].place == Place::Filling {
            self.copies.set_fate(frame, Fate::Free);
        } else {
            self.frames.cached -= 1;
            self.free(frame);
        }
    }

    /// A frame for a page: a free one, or that of the page that was put first, which it tells.
    fn take_frame(&mut self) -> Option<(u32, Option<(FileId, PageIndex)>)> {
        if let Some(frame) = self.regions.take_free(&mut self.nodes) {
            if self.nodes[frame].linked {
                self.bury(frame);
            }
            self.frames.free -= 1;
            return Some((frame, None));
        }
        let mut next = self.order.first();
        while let Some(frame) = next {
            let node = self.nodes[frame];
            next = Some(node.next).filter(|next| *next != super::node::NONE);
            if !self.regions.is_live(&node) {
                self.bury(frame);
            } else if node.place == Place::Cached {
                let page = self.files.id(node.file).map(|file| (file, PageIndex::new(node.page)));
                self.unlink_live(frame);
                self.frames.cached -= 1;
                self.pages.evicted += 1;
                return Some((frame, page));
            }
        }
        None
    }

    fn free(&mut self, frame: u32) {
        self.regions.free_one(&mut self.nodes, frame);
        self.frames.free += 1;
    }

    /// Takes a live page out of the index and all lists, and out of its base region's counts.
    pub(super) fn unlink_live(&mut self, frame: u32) {
        let node = self.nodes[frame];
        let region = usize::from(node.region);
        self.buckets.remove(node.bucket, region);
        let row = self.regions.row(region);
        row.live -= 1;
        row.worth -= u64::from(node.worth);
        self.bury(frame);
    }

    /// Takes a page out of the index and all lists.
    pub(super) fn bury(&mut self, frame: u32) {
        self.order.remove(&mut self.nodes, frame);
        let nodes = &self.nodes;
        self.index
            .remove(row_hash(nodes, frame), frame, |other| row_hash(nodes, other));
        self.files.unlink(&mut self.nodes, frame);
        self.nodes[frame].linked = false;
    }
}
