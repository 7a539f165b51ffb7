//! The fault path, from a touch of an absent page to its mapping. ARCHITECTURE.md has its seven steps.

pub(super) mod claim_queue;
mod completion;
mod frame_request;
mod given_up_records;
pub(crate) mod neighbours;
pub(crate) mod read_ahead;
pub(crate) mod runs;
mod service;
mod unseen_writes;

use crate::effect::{Effect, Protection, Resolution};
use crate::error::FaultError;
use crate::fact::{Access, Fault};
use crate::id::TaskId;
use crate::index::{EntryIndex, HolderIndex, PageNumber, TaskIndex};
use crate::memory::Memory;
use crate::pages::entry::Marks;
use crate::pages::page::PageMarks;
use crate::task::Waiting;
use crate::units::Instant;
use crate::view::PageState;

impl Memory {
    /// A task touched a page that is not mapped for it, or not for writing. Ends, now or after later completions, with
    /// one `Map`, `Retry` or `Fail` for the task.
    ///
    /// Cost: O(sharers of the page + tasks that wait in the same bucket), plus at most one batch of 64 demotions and 16
    /// evictions when no frame is free, which passes over the pages of the holder that are still on their way in, one
    /// for each of its waiting tasks; amortised O(sharers + waiting tasks), since every page demoted or evicted was
    /// brought in by an earlier fault.
    ///
    /// # Errors
    /// See [`FaultError`]; nothing has changed then.
    pub fn handle_fault(&mut self, now: Instant, fault: Fault) -> Result<(), FaultError> {
        let (mapping, _) = self.look_up(fault.mapping)?;
        self.fault_of(now, fault, mapping.task)
    }

    /// As [`handle_fault`](Self::handle_fault), but another task of the same holder waits and is named in what ends the
    /// fault: a process whose threads fault at once has one mapping and several tasks.
    ///
    /// # Errors
    /// See [`FaultError`]; [`FaultError::Stale`] also where `waiter` is gone or of another holder. Nothing has changed
    /// then.
    pub fn handle_fault_for(&mut self, now: Instant, fault: Fault, waiter: TaskId) -> Result<(), FaultError> {
        let (mapping, _) = self.look_up(fault.mapping)?;
        self.tasks
            .get(waiter.index(), waiter.generation())
            .filter(|task| task.holder == self.task_holder(mapping.task))
            .ok_or(FaultError::Stale)?;
        self.fault_of(now, fault, TaskIndex(u16::try_from(waiter.index()).unwrap_or(u16::MAX)))
    }

    fn fault_of(&mut self, now: Instant, fault: Fault, waiter: TaskIndex) -> Result<(), FaultError> {
        let (_, object) = self.look_up(fault.mapping)?;
        if fault.page.get() >= object.pages {
            return Err(FaultError::OutOfRange);
        }
        let task = self.tasks.at(waiter.slot()).ok_or(FaultError::Stale)?;
        if task.waiting.is_some() {
            return Err(FaultError::AlreadyWaiting);
        }
        if object.views > 0 && fault.access != Access::Read {
            return Err(FaultError::Frozen);
        }
        if !self.room_for_fact() {
            return Err(FaultError::Undrained);
        }
        self.begin(Some(now));
        self.step.acting = waiter;
        let slot = u16::try_from(fault.mapping.index()).unwrap_or(u16::MAX);
        let page = PageNumber(object.first + fault.page.get());
        match object.base.filter(|_| !self.pages[page].marks.has(PageMarks::OWN)) {
            Some(base) => {
                let below = PageNumber(base.first + fault.page.get());
                self.fault_on_view(waiter, slot, page, below, fault.access);
            }
            None => self.fault_on(waiter, slot, page, fault.access),
        }
        self.end();
        Ok(())
    }

    /// A fault on a page whose content is its own.
    pub(crate) fn fault_on(&mut self, task: TaskIndex, mapping: u16, page: PageNumber, access: Access) {
        let holder = self.task_holder(task);
        match self.find_entry(holder, page) {
            Some(index) if self.entries[index].marks.has(Marks::SETTLED) => {
                let upgrade = access == Access::Upgrade && self.entries[index].is_mapped_place();
                self.remember(task, page);
                self.reference(index);
                let resolution = if upgrade { Resolution::Upgrade } else { Resolution::Soft };
                self.grant_at_once(task, mapping, page, access, resolution);
            }
            Some(_) => self.start_waiting(task, page, mapping, access),
            None if !self.policy(holder).is_promised() && self.share_unreserved(task, mapping, page, access) => {}
            None => {
                self.remember(task, page);
                self.start_waiting(task, page, mapping, access);
                self.claim(task, holder, page);
            }
        }
    }

    /// A task without a reservation needs no frame of the pool for a page that a reservation has, or that is just
    /// leaving: it uses the page as long as that stays (law 2), or looks again when it has gone.
    fn share_unreserved(&mut self, task: TaskIndex, mapping: u16, page: PageNumber, access: Access) -> bool {
        match self.pages[page].state {
            PageState::Resident => self.grant_at_once(task, mapping, page, access, Resolution::Soft),
            PageState::Filling | PageState::Leaving => self.start_waiting(task, page, mapping, access),
            PageState::Empty | PageState::Stored => return false,
        }
        true
    }

    fn grant_at_once(
        &mut self,
        task: TaskIndex,
        mapping: u16,
        page: PageNumber,
        access: Access,
        resolution: Resolution,
    ) {
        let (since, claim) = (self.step.clock, EntryIndex::NONE);
        let waiting = Waiting {
            page,
            mapping,
            access,
            since,
            claim,
            resolution,
        };
        self.grant(task, &waiting);
    }

    /// Ends a task's fault: the page is resident and on its holder's lists, or the task has no reservation and shares
    /// it.
    pub(crate) fn grant(&mut self, task: TaskIndex, waiting: &Waiting) {
        let &Waiting {
            page, mapping, access, ..
        } = waiting;
        let through_view =
            self.mappings.at(usize::from(mapping)).map(|found| found.object) != Some(self.pages[page].object);
        if access != Access::Read && !through_view {
            self.pages[page].marks.set(PageMarks::DIRTY);
        }
        let writable = self.pages[page].marks.has(PageMarks::DIRTY) && !through_view && self.object_of(page).views == 0;
        let protection = if writable {
            Protection::Writable
        } else {
            Protection::ReadOnly
        };
        let now = self.step.clock;
        if let Some(found) = self.tasks.at_mut(task.slot()) {
            found
                .counts
                .add(waiting.resolution, now.saturating_since(waiting.since));
        }
        if waiting.resolution == Resolution::Soft {
            let holder = self.task_holder(task);
            self.recall_taken(page, holder);
        }
        let effect = Effect::Map {
            task: self.task_id(task),
            mapping: self.mapping_id(mapping),
            page: self.page_ref(page),
            protection,
            resolution: waiting.resolution,
        };
        self.step.effects.push(effect);
    }

    /// Looks at every task that waits for this page: those for whom it is ready go on. O(tasks waiting in the bucket).
    pub(crate) fn wake(&mut self, page: PageNumber) {
        if !self.pages[page].marks.has(PageMarks::WAITED) {
            return;
        }
        self.pages[page].marks.clear(PageMarks::WAITED);
        let mut next = self.waiters[self.bucket(page)];
        while let Some(task) = next.some() {
            let Some(found) = self.tasks.at(task.slot()) else {
                return;
            };
            next = found.next_waiter;
            let Some(waiting) = found.waiting.as_ref().filter(|waiting| waiting.page == page) else {
                continue;
            };
            match self.readiness(found.holder, waiting) {
                Readiness::Ready => {
                    if let Some(waiting) = self.stop_waiting(task) {
                        self.grant(task, &waiting);
                    }
                }
                Readiness::LookAgain => {
                    self.stop_waiting(task);
                    let task = self.task_id(task);
                    self.step.effects.push(Effect::Retry { task });
                }
                Readiness::NotYet => self.pages[page].marks.set(PageMarks::WAITED),
            }
        }
    }

    fn readiness(&self, holder: HolderIndex, waiting: &Waiting) -> Readiness {
        let page = waiting.page;
        let through_view =
            self.mappings.at(usize::from(waiting.mapping)).map(|found| found.object) != Some(self.pages[page].object);
        // A write through a view needs the view's own page by now; one to the base itself may have been overtaken by
        // the making of a view, which froze it.
        let unwritable = waiting.access != Access::Read && (through_view || self.object_of(page).views > 0);
        match self.find_entry(holder, page) {
            Some(index) if self.entries[index].marks.has(Marks::SETTLED) => {
                if unwritable {
                    Readiness::LookAgain
                } else {
                    Readiness::Ready
                }
            }
            Some(_) => Readiness::NotYet,
            None if self.policy(holder).is_promised() => Readiness::LookAgain,
            None => match self.pages[page].state {
                PageState::Resident if unwritable => Readiness::LookAgain,
                PageState::Resident => Readiness::Ready,
                PageState::Filling | PageState::Leaving => Readiness::NotYet,
                PageState::Empty | PageState::Stored => Readiness::LookAgain,
            },
        }
    }
}

/// What a waiting task can do now.
enum Readiness {
    /// The page is there for it.
    Ready,
    /// What it waited for is over; it faults afresh.
    LookAgain,
    /// It waits on.
    NotYet,
}
