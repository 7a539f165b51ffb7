//! Content that a program gives up: it unmapped the memory, or said that it needs the content no more.

use crate::error::ForgetError;
use crate::id::ObjectId;
use crate::index::PageNumber;
use crate::limits::{ObjectKind, PageRange, Regime};
use crate::memory::Memory;
use crate::pages::entry::Marks;
use crate::pages::page::PageMarks;
use crate::view::PageState;

impl Memory {
    /// Makes pages of a private object empty again: what they held, in frames or in the store, is gone, and their next
    /// fill is zeros. The frames are free for those who held them. A page on its way in or out is empty when its
    /// request has been answered, which the engine still does; whoever waits for it is told to look again. Unmapping,
    /// and dropping what is in frames and store, are the engine's business. O(pages of the range).
    ///
    /// # Errors
    /// See [`ForgetError`]; nothing has changed then.
    pub fn forget(&mut self, object: ObjectId, range: PageRange) -> Result<(), ForgetError> {
        let found = *self
            .objects
            .get(object.index(), object.generation())
            .ok_or(ForgetError::Stale)?;
        let private = found.kind == ObjectKind::Private && found.base.is_none() && found.regime == Regime::Conserve;
        if !private {
            return Err(ForgetError::NotPrivate);
        }
        let pages = Self::numbers(&found, range).ok_or(ForgetError::BadRange)?;
        let being_locked = self
            .accounts
            .iter()
            .any(|account| account.locks.last().is_some_and(|last| found.owns(last.0)));
        if being_locked || pages.clone().any(|page| self.is_locked(PageNumber(page))) {
            return Err(ForgetError::Locked);
        }
        if !self.room_for_fact() {
            return Err(ForgetError::Undrained);
        }
        self.begin(None);
        for page in pages {
            self.forget_content(PageNumber(page));
        }
        self.end();
        Ok(())
    }

    fn forget_content(&mut self, page: PageNumber) {
        match self.pages[page].state {
            PageState::Empty | PageState::Stored => self.empty(page),
            PageState::Filling | PageState::Leaving => self.pages[page].marks.set(PageMarks::FORGOTTEN),
            PageState::Resident => self.forget_resident(page),
        }
    }

    /// The page holds nothing any more, nowhere.
    pub(crate) fn empty(&mut self, page: PageNumber) {
        self.set_state(page, PageState::Empty);
        let found = &mut self.pages[page];
        found.forget_eviction();
        for mark in [
            PageMarks::DIRTY,
            PageMarks::STORED,
            PageMarks::SEEN,
            PageMarks::FORGOTTEN,
        ] {
            found.marks.clear(mark);
        }
    }

    /// Empties a page that is there. What each holder bears for it comes back to it; claims without a frame stay.
    pub(crate) fn forget_resident(&mut self, page: PageNumber) {
        let owner = self.owner(page);
        while let Some(index) = self.settled_sharer(page) {
            let entry = self.entries[index];
            self.free_entry(index, owner);
            if entry.is_shared_lock() {
                // It was locked while it was on its way out.
                self.fail_lock(entry.holder);
            }
        }
        self.count_resident(page, -1);
        self.empty(page);
        self.wake(page);
    }

    fn settled_sharer(&self, page: PageNumber) -> Option<crate::index::EntryIndex> {
        self.sharers(page)
            .find(|&index| self.entries[index].marks.has(Marks::SETTLED))
    }

    /// A fill has ended of a page that was forgotten meanwhile: frames set aside go back, who waits looks again.
    pub(crate) fn forget_filled(&mut self, page: PageNumber) {
        self.take_frames_back(page);
        self.empty(page);
        self.wake(page);
    }

    pub(crate) fn is_forgotten(&self, page: PageNumber) -> bool {
        self.pages[page].marks.has(PageMarks::FORGOTTEN)
    }
}
