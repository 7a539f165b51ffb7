//! Tasks and mappings come and go.

use core::ops::Range;

use crate::effect::Effect;
use crate::error::{CreateError, RemoveError};
use crate::id::{MappingId, ObjectId, ReservationId, TaskId};
use crate::index::{EntryIndex, HolderIndex, PageNumber, PinnedIndex, TaskIndex};
use crate::limits::Regime;
use crate::memory::{COMPARED_SLOTS, Memory};
use crate::pages::entry::Marks;
use crate::task::{Mapping, Task};
use crate::units::PageCount;
use crate::view::TaskCounts;

impl Memory {
    /// Makes a task, in a reservation or without one. O(tasks).
    ///
    /// # Errors
    /// [`CreateError::TableFull`], or [`CreateError::Stale`] where the reservation is gone.
    pub fn add_task(&mut self, reservation: Option<ReservationId>) -> Result<TaskId, CreateError> {
        let holder = match reservation {
            Some(id) => self.holder_of_reservation(id).ok_or(CreateError::Stale)?,
            None => HolderIndex::POOL,
        };
        if !self.account_of(holder).has_frames_for_a_task() {
            return Err(CreateError::FramesOutside);
        }
        let task = Task {
            holder,
            waiting: None,
            next_claim: TaskIndex::NONE,
            next_waiter: TaskIndex::NONE,
            mappings: 0,
            pinner: PinnedIndex::NONE,
            restores: false,
            counts: TaskCounts::default(),
        };
        let (slot, generation) = self.tasks.insert(task).ok_or(CreateError::TableFull)?;
        self.account(holder).tasks += 1;
        Ok(TaskId::new(slot, generation))
    }

    /// Removes a task, wherever it is: a fault it waits with is forgotten, its mappings go. O(mappings + pages of the
    /// objects that it alone of its reservation mapped and that are not left yet).
    ///
    /// # Errors
    /// [`RemoveError::Stale`], [`RemoveError::Undrained`]. A task that is removed is gone: where it was the last of its
    /// reservation to map locked pages, these stay locked until they are unlocked or the reservation ends.
    pub fn remove_task(&mut self, task: TaskId) -> Result<(), RemoveError> {
        let index = self.removable_task(task)?;
        self.begin(None);
        self.withdraw_claim(index);
        if let Some(waiting) = self.stop_waiting(index) {
            self.wake(waiting.page);
        }
        let last = self.is_last(index);
        while let Some(mapping) = self.first_mapping(index) {
            self.drop_mapping(mapping, last);
        }
        if let Some(found) = self.tasks.remove(task.index()) {
            self.account(found.holder).tasks -= 1;
            self.leave_pinned_pool(found.pinner);
        }
        self.end();
        Ok(())
    }

    /// A part of what [`remove_task`](Self::remove_task) does: of the objects that the task alone of its reservation
    /// maps, at most `most` pages are left. Returns whether nothing of that remains, so that the rest is O(mappings).
    /// The task is still there: its engine sees to it that it does not fault any more. O(mappings² + `most`).
    ///
    /// # Errors
    /// As for that.
    pub fn remove_task_partly(&mut self, task: TaskId, most: PageCount) -> Result<bool, RemoveError> {
        let index = self.removable_task(task)?;
        self.begin(None);
        let last = self.is_last(index);
        let (mut left, mut over) = (most.get(), true);
        for slot in 0..self.mappings.len() {
            let own = self.mappings.at(slot).is_some_and(|mapping| mapping.task == index);
            over = over && (!own || self.leave_partly(slot, last, &mut left));
        }
        self.end();
        Ok(over)
    }

    fn removable_task(&self, task: TaskId) -> Result<TaskIndex, RemoveError> {
        let found = self.tasks.get(task.index(), task.generation());
        found.ok_or(RemoveError::Stale)?;
        if !self.room_for_fact() {
            return Err(RemoveError::Undrained);
        }
        Ok(TaskIndex(u16::try_from(task.index()).unwrap_or(u16::MAX)))
    }

    /// Whether a task is the last of its holder.
    fn is_last(&self, index: TaskIndex) -> bool {
        let holder = self.task_holder(index);
        let other = |(slot, task): (usize, &Task)| slot != index.slot() && task.holder == holder;
        !self.tasks.iter().any(other)
    }

    fn first_mapping(&self, task: TaskIndex) -> Option<usize> {
        self.mappings
            .iter()
            .find(|(_, found)| found.task == task)
            .map(|(slot, _)| slot)
    }

    /// Lets a task use an object. O(mappings), and O(1) of an object that nobody uses yet.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn map(&mut self, task: TaskId, object: ObjectId) -> Result<MappingId, CreateError> {
        let found = *self
            .tasks
            .get(task.index(), task.generation())
            .ok_or(CreateError::Stale)?;
        let used = self.objects.get(object.index(), object.generation());
        let used = *used.filter(|object| object.removed == 0).ok_or(CreateError::Stale)?;
        if used.regime == Regime::Unmanaged && u32::from(found.holder.0) > COMPARED_SLOTS {
            return Err(CreateError::TooManySharers);
        }
        let task_index = TaskIndex(u16::try_from(task.index()).unwrap_or(u16::MAX));
        let slot = u16::try_from(object.index()).unwrap_or(u16::MAX);
        let mapping = Mapping {
            task: task_index,
            object: slot,
            unleft: used.pages,
        };
        if self.mappings_of(slot).any(|other| other.task == task_index) {
            return Err(CreateError::AlreadyMapped);
        }
        let (slot, generation) = self.mappings.insert(mapping).ok_or(CreateError::TableFull)?;
        if let Some(object) = self.objects.at_mut(object.index()) {
            object.mappings += 1;
        }
        if let Some(task) = self.tasks.at_mut(task.index()) {
            task.mappings += 1;
        }
        if !found.pinner.is_none() {
            self.join_object(found.pinner, object.index());
        }
        Ok(MappingId::new(slot, generation))
    }

    /// Ends a task's use of an object. Where it was the last of its reservation, the object's pages are the next that
    /// the reservation evicts. They stay on its lists until then: to give them away at once would take a frame of the
    /// pool for each that nobody shares, and what is evicted next would depend on whether the pool has it (law 0).
    /// Under `none` they are given away as far as the pool has frames. O(mappings + pages of the object that are not
    /// left yet).
    ///
    /// # Errors
    /// [`RemoveError::Busy`] while the task waits for a page, or where it was the last and the reservation locks pages
    /// of the object or is about to; [`RemoveError::Stale`], [`RemoveError::Undrained`]. Another task that waits
    /// through this mapping is told to look again.
    pub fn unmap(&mut self, mapping: MappingId) -> Result<(), RemoveError> {
        self.check_unmap(mapping)?;
        self.begin(None);
        self.drop_mapping(mapping.index(), false);
        self.end();
        Ok(())
    }

    /// A part of what [`unmap`](Self::unmap) does: at most `most` pages are left, the last of the object first. Returns
    /// whether nothing of that remains, so that the rest is O(mappings). The mapping is still there: its engine sees to
    /// it that nobody faults through it any more. O(mappings + `most`).
    ///
    /// # Errors
    /// As for that.
    pub fn unmap_partly(&mut self, mapping: MappingId, most: PageCount) -> Result<bool, RemoveError> {
        self.check_unmap(mapping)?;
        self.begin(None);
        let mut most = most.get();
        let over = self.leave_partly(mapping.index(), false, &mut most);
        self.end();
        Ok(over)
    }

    fn check_unmap(&self, mapping: MappingId) -> Result<(), RemoveError> {
        let found = *self
            .mappings
            .get(mapping.index(), mapping.generation())
            .ok_or(RemoveError::Stale)?;
        let task = self.tasks.at(found.task.slot()).ok_or(RemoveError::Stale)?;
        if task.waiting.is_some() {
            return Err(RemoveError::Busy);
        }
        let holder = task.holder;
        if self.maps(holder, found.object) == 1 && self.locks_object(holder, found.object) {
            return Err(RemoveError::Busy);
        }
        if self.room_for_fact() {
            Ok(())
        } else {
            Err(RemoveError::Undrained)
        }
    }

    /// `last`: with the last task of its holder.
    fn drop_mapping(&mut self, slot: usize, last: bool) {
        self.stop_waits_through(slot);
        let mut all = u32::MAX;
        self.leave_partly(slot, last, &mut all);
        let Some(mapping) = self.mappings.remove(slot) else {
            return;
        };
        let holder = self.task_holder(mapping.task);
        let mut pinner = PinnedIndex::NONE;
        if let Some(task) = self.tasks.at_mut(mapping.task.slot()) {
            task.mappings -= 1;
            pinner = task.pinner;
        }
        let Some(object) = self.objects.at_mut(usize::from(mapping.object)) else {
            return;
        };
        object.mappings -= 1;
        if self.policy(holder).uses_global_lists() && !pinner.is_none() {
            self.leave_if_last(pinner, mapping.object);
        }
    }

    /// Of the pages that nobody of its holder will map when this mapping has ended, leaves at most `most`, which counts
    /// down; whether none remains. `last` as above.
    fn leave_partly(&mut self, slot: usize, last: bool, most: &mut u32) -> bool {
        let Some(mapping) = self.mappings.at(slot).copied().filter(|mapping| mapping.unleft > 0) else {
            return true;
        };
        let Some(object) = self.objects.at(usize::from(mapping.object)).copied() else {
            return true;
        };
        let holder = self.task_holder(mapping.task);
        // With its last task all it has is left, and stays in the order in which it leaves anyway.
        let stays = !self.policy(holder).is_promised() || last && object.regime != Regime::Unmanaged;
        let only = |object: u16| self.reads(holder, object) == 1;
        let own = (!stays && object.resident > 0 && only(mapping.object)).then_some(object.first);
        let read = object.base.filter(|base| !stays && only(base.object));
        if own.is_none() && read.is_none() {
            return true;
        }
        let from = mapping.unleft.saturating_sub(*most);
        *most -= mapping.unleft - from;
        for first in own.into_iter().chain(read.map(|base| base.first)) {
            self.leave_pages(holder, object.regime, first, from..mapping.unleft);
        }
        if let Some(mapping) = self.mappings.at_mut(slot) {
            mapping.unleft = from;
        }
        from == 0
    }

    /// Tasks that wait for a page through this mapping, which goes, are told to look again. O(tasks).
    fn stop_waits_through(&mut self, slot: usize) {
        while let Some(index) = self.waits_through(slot) {
            let index = TaskIndex(u16::try_from(index).unwrap_or(u16::MAX));
            self.withdraw_claim(index);
            if let Some(waiting) = self.stop_waiting(index) {
                self.step.effects.push(Effect::Retry {
                    task: self.task_id(index),
                });
                self.wake(waiting.page);
            }
        }
    }

    fn waits_through(&self, slot: usize) -> Option<usize> {
        let through = |task: &Task| task.waiting.map(|waiting| usize::from(waiting.mapping)) == Some(slot);
        self.tasks
            .iter()
            .find(|(_, task)| through(task))
            .map(|(index, _)| index)
    }

    /// Mappings of an object. No row past the last of them is looked at.
    fn mappings_of(&self, object: u16) -> impl Iterator<Item = &Mapping> {
        let count = self.objects.at(usize::from(object)).map_or(0, |found| found.mappings);
        let mappings = self.mappings.iter().map(|(_, mapping)| mapping);
        mappings
            .filter(move |mapping| mapping.object == object)
            .take(count as usize)
    }

    /// Mappings of an object by the tasks of one holder.
    fn maps(&self, holder: HolderIndex, object: u16) -> usize {
        let held = |mapping: &&Mapping| self.task_holder(mapping.task) == holder;
        self.mappings_of(object).filter(held).count()
    }

    /// Mappings of an object, or of views of it, by the tasks of one holder.
    fn reads(&self, holder: HolderIndex, object: u16) -> usize {
        if self
            .objects
            .at(usize::from(object))
            .is_none_or(|found| found.views == 0)
        {
            return self.maps(holder, object);
        }
        let reads = |slot: u16| {
            let base = self.objects.at(usize::from(slot)).and_then(|found| found.base);
            slot == object || base.is_some_and(|base| base.object == object)
        };
        self.mappings
            .iter()
            .filter(|(_, mapping)| reads(mapping.object) && self.task_holder(mapping.task) == holder)
            .count()
    }

    pub(crate) fn maps_object(&self, holder: HolderIndex, object: usize) -> bool {
        u16::try_from(object).is_ok_and(|object| self.maps(holder, object) > 0)
    }

    /// Whether the reservation locks pages of an object, or a lock of it is still bringing some in. O(pages of the
    /// object, or pages locked, where these are fewer).
    fn locks_object(&self, holder: HolderIndex, object: u16) -> bool {
        let account = self.account_of(holder);
        if account
            .locks
            .last()
            .is_some_and(|last| self.pages[last].object == object)
        {
            return true;
        }
        let found = self.objects.at(usize::from(object));
        if let Some(found) = found.filter(|found| found.pages < account.lists.locked().len()) {
            let locked = |index: EntryIndex| self.entries[index].is_shared_lock();
            let pages = (found.first..found.first + found.pages).map(PageNumber);
            return pages.filter_map(|page| self.find_entry(holder, page)).any(locked);
        }
        let mut next = account.lists.locked().first();
        while let Some(index) = next {
            let entry = self.entries[index];
            if entry.is_shared_lock() && self.pages[entry.page].object == object {
                return true;
            }
            next = entry.next.some();
        }
        false
    }

    /// What the holder has of an object, or of its base, which none of its tasks will map any more: `pages` of it,
    /// which begins at `first`. They are its next victims.
    fn leave_pages(&mut self, holder: HolderIndex, regime: Regime, first: u32, pages: Range<u32>) {
        // Backwards, so that the first page is the first victim.
        for page in pages.rev().map(|page| PageNumber(first + page)) {
            let Some(index) = self.find_entry(holder, page) else {
                continue;
            };
            let entry = self.entries[index];
            if !entry.marks.has(Marks::SETTLED) || entry.is_shared_lock() {
                continue;
            }
            if regime == Regime::Unmanaged && !self.pool().held.free.is_empty() && self.room_for_batch() {
                // What the holder has no frame for any more the pool makes up for.
                self.depart(index);
                let frame = self.accounts[0].held.free.take_one();
                self.account(holder).held.free.put(frame);
                self.call_for_service(holder);
            } else {
                self.make_next_victim(index);
            }
        }
    }
}
