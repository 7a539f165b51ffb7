//! Memory objects go, at once or piece by piece.

use core::ops::Range;

use crate::error::RemoveError;
use crate::frames::account::Account;
use crate::id::ObjectId;
use crate::index::{EntryIndex, PageNumber};
use crate::limits::Regime;
use crate::memory::Memory;
use crate::pages::object::Object;
use crate::units::PageCount;
use crate::view::PageState;

impl Memory {
    /// Forgets an object that nobody maps, and its pages; their frames are free for who held them. The engine drops the
    /// memory itself. O(pages of the object that are not removed yet).
    ///
    /// # Errors
    /// [`RemoveError::Busy`] while it is mapped, locked, has views, or a page is on its way; [`RemoveError::Stale`].
    pub fn remove_object(&mut self, object: ObjectId) -> Result<(), RemoveError> {
        let found = self.removable(object)?;
        self.remove_pages(object, Self::unremoved(&found, u32::MAX))?;
        if let Some(base) = found
            .base
            .and_then(|base| self.objects.at_mut(usize::from(base.object)))
        {
            base.views -= 1;
        }
        self.objects.remove(object.index());
        Ok(())
    }

    /// A part of what [`remove_object`](Self::remove_object) does: forgets at most `most` pages. Returns whether
    /// nothing of it is left, so that the rest is O(1). From the first call on nobody can map the object any more.
    /// O(`most`).
    ///
    /// # Errors
    /// As for that; of pages on their way, those of this part count.
    pub fn remove_object_partly(&mut self, object: ObjectId, most: PageCount) -> Result<bool, RemoveError> {
        let found = self.removable(object)?;
        let pages = Self::unremoved(&found, most.get());
        let last = pages.end == found.first + found.pages;
        self.remove_pages(object, pages)?;
        Ok(last)
    }

    /// Whether an object is mapped, locked, or has views, so that it cannot be removed. O(holders).
    #[must_use]
    pub fn is_in_use(&self, object: ObjectId) -> bool {
        matches!(self.removable(object), Err(RemoveError::Busy))
    }

    fn removable(&self, object: ObjectId) -> Result<Object, RemoveError> {
        let found = self.objects.get(object.index(), object.generation());
        let found = *found.ok_or(RemoveError::Stale)?;
        let being_locked = |account: &Account| account.locks.last().is_some_and(|last| found.owns(last.0));
        let used = found.mappings > 0 || found.views > 0 || self.accounts.iter().any(being_locked);
        if used { Err(RemoveError::Busy) } else { Ok(found) }
    }

    /// The next pages of an object that is being removed, at most `most`.
    fn unremoved(object: &Object, most: u32) -> Range<u32> {
        let (first, end) = (object.first + object.removed, object.first + object.pages);
        first..first.saturating_add(most).min(end)
    }

    /// Forgets pages of an object that nobody maps, all or none.
    fn remove_pages(&mut self, object: ObjectId, pages: Range<u32>) -> Result<(), RemoveError> {
        let moving = |page: PageNumber| matches!(self.pages[page].state, PageState::Filling | PageState::Leaving);
        if pages
            .clone()
            .map(PageNumber)
            .any(|page| moving(page) || self.is_locked(page))
        {
            return Err(RemoveError::Busy);
        }
        self.begin(None);
        for page in pages.clone().map(PageNumber) {
            self.remove_page(page);
        }
        if let Some(found) = self.objects.at_mut(object.index()) {
            found.removed = pages.end - found.first;
        }
        self.end();
        Ok(())
    }

    /// Drops a page that nobody maps. What a holder bears for a resident one comes back to it as a free frame, or as a
    /// debt under `none`.
    fn remove_page(&mut self, page: PageNumber) {
        let owner = self.owner(page);
        if self.pages[page].state != PageState::Resident {
            return self.empty(page);
        }
        if self.regime(page) == Regime::Unmanaged {
            self.take_from_all(owner);
        }
        while let Some(index) = self.pages[page].first_sharer().some() {
            self.free_entry(index, owner);
        }
        self.count_resident(page, -1);
        self.empty(page);
    }

    /// Drops a settled entry of a page that goes: what its holder bears for it is free there.
    pub(crate) fn free_entry(&mut self, index: EntryIndex, owner: EntryIndex) {
        let holder = self.entries[index].holder;
        let account = self.account(holder);
        let frame = if index == owner {
            account.held.owned.take_one()
        } else {
            account.held.conserved.take_one()
        };
        account.held.free.put(frame);
        self.drop_entry(index);
        self.call_for_service(holder);
    }

    /// Whether a holder keeps the page resident. What a program locks for itself goes with it.
    pub(crate) fn is_locked(&self, page: PageNumber) -> bool {
        self.sharers(page).any(|index| self.entries[index].is_shared_lock())
    }
}
