//! Runs: a task that reads pages back in the order of their addresses gets the next pages with each one.
//!
//! A *run* is a sequence of swap-ins of one object, each just behind the pages that the one before brought in. The
//! swap-ins may be of several threads. From its second swap-in on, the pages behind the wanted page come along, while
//! they are in the store, no holder has them, and the reservation has a free frame for each. During a run the
//! reservation evicts a batch ahead, so that frames are there. A task that touches pages at random pays nothing.
//!
//! The ends of write-backs decide when frames are free, and so which pages the reservation faults on. Law 0 therefore
//! does not hold during runs. Runs are for a program that is alone in its memory, and off unless
//! [`Memory::set_reads_on`] is called.

use crate::index::{HolderIndex, PageNumber, TaskIndex};
use crate::limits::ObjectKind;
use crate::memory::Memory;
use crate::pages::page::PageMarks;
use crate::view::PageState;

/// Pages that come along with one at most, as many as a batch of evictions leaves.
const MOST: u32 = 16;
/// So many pages may be passed over in a run: they were resident, or are on their way.
const GAP: u32 = 4;

/// Where an object's swap-ins have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// The page behind the last that came; 0 before the first.
    next: u32,
    /// It went on at least once.
    goes_on: bool,
}

impl Run {
    /// After a swap-in of this page.
    fn then(self, page: PageNumber) -> Self {
        Self {
            next: page.0 + 1,
            goes_on: self.next != 0 && (self.next..=self.next + GAP).contains(&page.0),
        }
    }
}

impl Memory {
    /// Whether reservations read on, from now on. Not where several share the pool: law 0 does not hold with it.
    pub fn set_reads_on(&mut self, reads_on: bool) {
        self.reclaim.reading.on = reads_on;
    }

    /// Whether they do.
    #[must_use]
    pub fn reads_on(&self) -> bool {
        self.reclaim.reading.on
    }

    /// The most pages that come along with one that is wanted.
    #[must_use]
    pub const fn most_read_on() -> u32 {
        MOST
    }

    /// The task of a reservation waits for this page to be read back: the next ones come along, if it is in a run.
    /// O(pages that come along × sharers).
    pub(crate) fn read_on(&mut self, task: TaskIndex, page: PageNumber) {
        if !self.reclaim.reading.on {
            return;
        }
        let holder = self.task_holder(task);
        let slot = usize::from(self.pages[page].object);
        let Some(object) = self
            .objects
            .at_mut(slot)
            .filter(|object| object.kind != ObjectKind::File)
        else {
            return;
        };
        object.run = object.run.then(page);
        if !object.run.goes_on {
            return;
        }
        let behind = object.first + object.pages;
        let end = (page.0 + 1).saturating_add(MOST).min(behind);
        let mut next = page.0 + 1;
        let mut taken = 0;
        while next < end && self.has_idle_frame(holder) && self.read_along(holder, PageNumber(next)) {
            (next, taken) = (next + 1, taken + 1);
        }
        self.make_room_to_go_on(holder);
        if let Some(object) = self.objects.at_mut(slot) {
            object.run.next = next;
        }
        if let Some(task) = self.tasks.at_mut(task.slot()) {
            task.counts.read_ahead += taken;
        }
    }

    /// Frames for what comes along the next time: those that only begin to leave when they are wanted come one by one.
    pub(crate) fn make_room_to_go_on(&mut self, holder: HolderIndex) {
        if self.reclaim.reading.on {
            self.make_room(holder, i64::from(MOST));
        }
    }

    /// Whether the holder has a frame free that nobody waits for.
    pub(crate) fn has_idle_frame(&self, holder: HolderIndex) -> bool {
        let account = self.account_of(holder);
        !account.has_ended() && account.held.free.len() > account.claims.count()
    }

    /// Reads a page back for which nobody waits, if it is in the store and nobody has it. Whether it comes.
    pub(crate) fn read_along(&mut self, holder: HolderIndex, page: PageNumber) -> bool {
        let found = self.pages[page];
        let away = found.state == PageState::Stored && found.marks.has(PageMarks::STORED);
        away && found.first_sharer().some().is_none() && self.enter_ahead(holder, page)
    }
}
