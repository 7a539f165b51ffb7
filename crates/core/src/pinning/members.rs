//! Pinned page pools and their tasks come and go.

use crate::error::{CreateError, PinningError, RemoveError};
use crate::id::{PinnedPoolId, TaskId};
use crate::index::{HolderIndex, PageNumber, PinnedIndex};
use crate::memory::Memory;
use crate::pages::entry::Place;
use crate::pinning::pool::PinnedPool;
use crate::pinning::settings::PinningSettings;

impl Memory {
    /// Opens a pinned page pool for one soft-real-time task, or for the threads of one program. O(pools).
    ///
    /// # Errors
    /// See [`PinningError`].
    pub fn open_pinned_pool(&mut self, settings: PinningSettings) -> Result<PinnedPoolId, PinningError> {
        settings.check()?;
        let opened = self.pinned.slots.insert(PinnedPool::new(settings));
        let (slot, generation) = opened.ok_or(PinningError::TableFull)?;
        self.pinned.restoring += u16::from(settings.clears_early());
        Ok(PinnedPoolId::new(slot, generation))
    }

    /// Closes a pool that has no tasks any more. What it pinned is on the global lists again. O(pages of its objects).
    ///
    /// # Errors
    /// [`RemoveError::Stale`]; [`RemoveError::Busy`] while it has tasks.
    pub fn close_pinned_pool(&mut self, id: PinnedPoolId) -> Result<(), RemoveError> {
        let found = self.pinned.slots.get(id.index(), id.generation());
        let found = found.ok_or(RemoveError::Stale)?;
        if found.tasks > 0 {
            return Err(RemoveError::Busy);
        }
        let restores = found.settings.clears_early();
        let pinner = PinnedIndex(u16::try_from(id.index()).unwrap_or(u16::MAX));
        self.begin(None);
        for slot in 0..self.objects.len() {
            self.leave_object(pinner, slot);
        }
        self.pinned.restoring -= u16::from(restores);
        self.pinned.slots.remove(id.index());
        self.call_for_service(HolderIndex::POOL);
        self.end();
        Ok(())
    }

    /// Makes a task of the pool without a reservation whose pages this pinned page pool may pin. O(tasks).
    ///
    /// # Errors
    /// [`CreateError::Stale`], [`CreateError::TableFull`].
    pub fn add_pinned_task(&mut self, pool: PinnedPoolId) -> Result<TaskId, CreateError> {
        self.add_member(pool, false)
    }

    /// Makes a task that brings pages back for the others of this pool: what it touches is not taken for theirs.
    ///
    /// # Errors
    /// As [`add_pinned_task`](Self::add_pinned_task).
    pub fn add_restorer(&mut self, pool: PinnedPoolId) -> Result<TaskId, CreateError> {
        self.add_member(pool, true)
    }

    fn add_member(&mut self, id: PinnedPoolId, restores: bool) -> Result<TaskId, CreateError> {
        let found = self.pinned.slots.get(id.index(), id.generation());
        found.ok_or(CreateError::Stale)?;
        let task = self.add_task(None)?;
        if let Some(found) = self.tasks.at_mut(task.index()) {
            found.pinner = PinnedIndex(u16::try_from(id.index()).unwrap_or(u16::MAX));
            found.restores = restores;
        }
        if let Some(pool) = self.pinned.slots.at_mut(id.index()) {
            pool.tasks += 1;
        }
        Ok(task)
    }

    /// A task is gone: its pool has one less.
    pub(crate) fn leave_pinned_pool(&mut self, pinner: PinnedIndex) {
        if let Some(pool) = self.pinned.get_mut(pinner) {
            pool.tasks -= 1;
        }
    }

    /// A pool's task uses an object: unless another pool's does already, its pages are this one's to pin.
    pub(crate) fn join_object(&mut self, pinner: PinnedIndex, slot: usize) {
        if let Some(object) = self.objects.at_mut(slot)
            && object.pinner.is_none()
        {
            object.pinner = pinner;
        }
    }

    /// A pool's task does not use an object any more. Where it was the last of its pool, the pages are unpinned, and
    /// the next pool that uses the object may pin them. O(mappings + pages of the object).
    pub(crate) fn leave_if_last(&mut self, pinner: PinnedIndex, slot: u16) {
        let user = |mapping: &crate::task::Mapping| {
            let task = self.tasks.at(mapping.task.slot()).filter(|_| mapping.object == slot)?;
            task.pinner.some()
        };
        let users = || self.mappings.iter().filter_map(|(_, mapping)| user(mapping));
        if users().any(|other| other == pinner) {
            return;
        }
        let heir = users().next();
        self.leave_object(pinner, usize::from(slot));
        if let Some(heir) = heir {
            self.join_object(heir, usize::from(slot));
        }
    }

    /// Unpins every page of an object that this pool pins.
    fn leave_object(&mut self, pinner: PinnedIndex, slot: usize) {
        let Some(object) = self.objects.at(slot).copied().filter(|object| object.pinner == pinner) else {
            return;
        };
        for page in (object.first..object.first + object.pages).map(PageNumber) {
            let Some(index) = self.find_entry(HolderIndex::POOL, page) else {
                continue;
            };
            match self.entries[index].place {
                Place::PinnedActive => self.relink(index, Place::Active),
                Place::PinnedInactive => self.relink(index, Place::Inactive),
                _ => {}
            }
        }
        if let Some(object) = self.objects.at_mut(slot) {
            object.pinner = PinnedIndex::NONE;
        }
    }
}
