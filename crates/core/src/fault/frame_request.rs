//! A claim: a task's fault on a page that its holder has not got, and the frame it needs.

use crate::effect::{Effect, FaultFailure, Resolution, Source};
use crate::fact::{Access, PageRef};
use crate::index::{EntryIndex, HolderIndex, PageNumber, TaskIndex};
use crate::limits::ObjectKind;
use crate::memory::Memory;
use crate::pages::entry::{Marks, Place};
use crate::pages::page::PageMarks;
use crate::task::Waiting;
use crate::units::PageIndex;
use crate::view::PageState;

impl Memory {
    /// Enters a page on the holder's lists for a waiting task, and sees to a frame for it. The place on the active
    /// list is taken now, in the order of faults, whenever the page arrives.
    pub(crate) fn claim(&mut self, task: TaskIndex, holder: HolderIndex, page: PageNumber) {
        let Some(index) = self.entries.make(holder, page) else {
            debug_assert!(false, "more entries than the stated bound");
            self.refuse(task, FaultFailure::NoFrame);
            return;
        };
        let place = self.first_place(holder, page);
        self.append_sharer(index);
        self.link(index, place);
        if let Some(waiting) = self.tasks.at_mut(task.slot()).and_then(|task| task.waiting.as_mut()) {
            waiting.claim = index;
        }
        self.accounts[holder.slot()].claims.push(&mut self.tasks, task);
        self.make_room(holder, 0);
        self.call_for_service(holder);
    }

    /// Takes a task out of its holder's queue of claims, if it is in it. O(claims).
    pub(crate) fn unqueue_claim(&mut self, holder: HolderIndex, task: TaskIndex) {
        self.accounts[holder.slot()].claims.remove(&mut self.tasks, task);
    }

    /// Gives the holder's oldest claim one of its free frames.
    pub(crate) fn serve_first_claim(&mut self, holder: HolderIndex) {
        let Some(task) = self.account_of(holder).claims.first() else {
            return;
        };
        self.unqueue_claim(holder, task);
        let claim = self
            .tasks
            .at(task.slot())
            .and_then(|task| task.waiting)
            .map(|waiting| waiting.claim);
        if let Some(index) = claim {
            self.give_frame(index);
        }
    }

    /// Refuses the holder's oldest claim.
    pub(crate) fn refuse_first_claim(&mut self, holder: HolderIndex, failure: FaultFailure) {
        let Some(task) = self.account_of(holder).claims.first() else {
            return;
        };
        let page = self
            .tasks
            .at(task.slot())
            .and_then(|task| task.waiting)
            .map(|waiting| waiting.page);
        self.refuse(task, failure);
        if let Some(page) = page {
            // Others of the holder may have waited for the same page: let them try for themselves.
            self.wake(page);
        }
    }

    /// Ends a task's fault with an error, and withdraws the claim it made, if that has no frame yet.
    pub(crate) fn refuse(&mut self, task: TaskIndex, failure: FaultFailure) {
        self.withdraw_claim(task);
        if self.stop_waiting(task).is_some() {
            let task = self.task_id(task);
            self.step.effects.push(Effect::Fail { task, failure });
        }
    }

    /// Withdraws what a task claimed, if no frame is set aside for it yet.
    pub(crate) fn withdraw_claim(&mut self, task: TaskIndex) {
        let Some(found) = self.tasks.at(task.slot()).copied() else {
            return;
        };
        let Some(index) = found.waiting.and_then(|waiting| waiting.claim.some()) else {
            return;
        };
        self.unqueue_claim(found.holder, task);
        let entry = self.entries[index];
        let mine = entry.holder == found.holder && Some(entry.page) == found.waiting.map(|waiting| waiting.page);
        if mine
            && matches!(entry.place, Place::Active | Place::InactiveMapped)
            && !entry.marks.has(Marks::SETTLED)
            && !entry.marks.has(Marks::HAS_FRAME)
        {
            self.drop_entry(index);
            self.forget_own(entry.page);
        }
    }

    /// Withdraws an entry whose page its holder has got another way; a frame set aside for it is free again.
    pub(crate) fn withdraw_entry(&mut self, index: EntryIndex) {
        let entry = self.entries[index];
        if entry.marks.has(Marks::HAS_FRAME) {
            let account = self.account(entry.holder);
            let frame = account.held.in_flight.take_one();
            account.held.free.put(frame);
            self.call_for_service(entry.holder);
        } else if let Some(task) = self.waiter_of_claim(entry.page, index) {
            self.unqueue_claim(entry.holder, task);
        }
        self.drop_entry(index);
    }

    /// A copy-on-write page whose first copy nobody is waiting for any more is read through to its base again.
    pub(crate) fn forget_own(&mut self, page: PageNumber) {
        let found = &mut self.pages[page];
        if found.first_sharer().is_none() && found.state == PageState::Empty && !found.marks.has(PageMarks::STORED) {
            found.marks.clear(PageMarks::OWN);
        }
    }

    /// Sets one of the holder's free frames aside for an entry, and does with the page what can be done now.
    pub(crate) fn give_frame(&mut self, index: EntryIndex) {
        let entry = self.entries[index];
        let account = self.account(entry.holder);
        let frame = account.held.free.take_one();
        account.held.in_flight.put(frame);
        self.entries[index].marks.set(Marks::HAS_FRAME);
        match self.pages[entry.page].state {
            PageState::Empty | PageState::Stored => self.start_fill(index),
            PageState::Resident => {
                self.settle(index);
                self.wake(entry.page);
            }
            PageState::Filling | PageState::Leaving => {}
        }
    }

    /// Asks for the content of a page; the entry's holder will own it.
    pub(crate) fn start_fill(&mut self, index: EntryIndex) {
        let (page, holder) = (self.entries[index].page, self.entries[index].holder);
        self.put_first(index);
        self.set_state(page, PageState::Filling);
        let source = self.source(page);
        let resolution = match source {
            Source::Zero => Resolution::ZeroFill,
            Source::CopyOf(_) => Resolution::Copy,
            Source::Store if self.is_first_read(page) => Resolution::FileRead,
            Source::Store => Resolution::SwapIn {
                shared: self.recall_taken(page, holder),
            },
        };
        let urgent = self.waiter_of_claim(page, index);
        if let Some(waiting) = urgent.and_then(|task| self.tasks.at_mut(task.slot())?.waiting.as_mut()) {
            waiting.resolution = resolution;
        }
        let swapped_in = matches!(resolution, Resolution::SwapIn { .. });
        self.step.effects.push(Effect::Fill {
            page: self.page_ref(page),
            source,
            urgent: urgent.map(|task| self.task_id(task)),
        });
        match urgent.filter(|_| swapped_in) {
            Some(task) if self.policy(holder).uses_global_lists() => self.read_around(task, page),
            Some(task) => self.read_on(task, page),
            None => {}
        }
    }

    fn is_first_read(&self, page: PageNumber) -> bool {
        self.object_of(page).kind == ObjectKind::File && !self.pages[page].marks.has(PageMarks::SEEN)
    }

    pub(crate) fn source(&self, page: PageNumber) -> Source {
        let marks = self.pages[page].marks;
        if marks.has(PageMarks::STORED) {
            return Source::Store;
        }
        let object = self.object_of(page);
        match object.base.filter(|_| marks.has(PageMarks::OWN)) {
            Some(base) => {
                let generation = self.objects.generation(usize::from(base.object));
                let id = crate::id::ObjectId::new(base.object, generation);
                Source::CopyOf(PageRef::new(id, PageIndex::new(page.0 - object.first)))
            }
            None => Source::Zero,
        }
    }

    /// Notes that a task waits for a page.
    pub(crate) fn start_waiting(&mut self, task: TaskIndex, page: PageNumber, mapping: u16, access: Access) {
        let since = self.step.clock;
        self.pages[page].marks.set(PageMarks::WAITED);
        let bucket = self.bucket(page);
        let head = self.waiters[bucket];
        if let Some(found) = self.tasks.at_mut(task.slot()) {
            let (claim, resolution) = (EntryIndex::NONE, Resolution::Soft);
            found.waiting = Some(Waiting {
                page,
                mapping,
                access,
                since,
                claim,
                resolution,
            });
            found.next_waiter = head;
        }
        self.waiters[bucket] = task;
    }

    /// Ends a task's wait, and returns what it waited for. O(tasks waiting in the same bucket).
    pub(crate) fn stop_waiting(&mut self, task: TaskIndex) -> Option<Waiting> {
        let found = self.tasks.at_mut(task.slot())?;
        let waiting = found.waiting.take()?;
        let after = found.next_waiter;
        let bucket = self.bucket(waiting.page);
        if self.waiters[bucket] == task {
            self.waiters[bucket] = after;
            return Some(waiting);
        }
        let mut next = self.waiters[bucket];
        while let Some(found) = next.some().and_then(|found| self.tasks.at_mut(found.slot())) {
            if found.next_waiter == task {
                found.next_waiter = after;
                break;
            }
            next = found.next_waiter;
        }
        Some(waiting)
    }

    pub(crate) fn bucket(&self, page: PageNumber) -> usize {
        page.slot() & (self.waiters.len() - 1)
    }

    /// The task that waits with this claim.
    fn waiter_of_claim(&self, page: PageNumber, index: EntryIndex) -> Option<TaskIndex> {
        let mut next = self.waiters[self.bucket(page)];
        while let Some(task) = next.some() {
            let found = self.tasks.at(task.slot())?;
            if found
                .waiting
                .is_some_and(|waiting| waiting.page == page && waiting.claim == index)
            {
                return Some(task);
            }
            next = found.next_waiter;
        }
        None
    }
}
