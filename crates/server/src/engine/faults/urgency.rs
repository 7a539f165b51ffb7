//! Somebody more urgent waits for what is under way already: it is lifted, in whichever queue it waits.
//!
//! A transfer is as urgent as whoever it was begun for. A task that is more urgent may come to wait for it later: for
//! the same page, or for the frame of a page that leaves for its holder. Claims of a holder are served in order, so
//! then all evictions for that holder are lifted. What is at the device already is at most as much as the device
//! serves at a time.

use crate::engine::Engine;
use crate::engine::keys::TaskKey;
use freehold_core::effect::Holder;
use freehold_core::id::ObjectId;
use freehold_core::units::PageIndex;
use freehold_core::view::PageState;
use freehold_store::{Slot, Urgency};

impl Engine {
    /// A thread of a task has begun to wait for a page. Costs a look-up, and O(evictions for the task's holder that
    /// are less urgent): each is lifted at most once to each urgency.
    pub(in crate::engine) fn boost(&mut self, task: TaskKey, object: ObjectId, page: PageIndex) {
        let Some(task) = self.tasks.at(task.index()).filter(|task| task.urgency > 0) else {
            return;
        };
        let holder = task.reservation.map_or(Holder::Pool, Holder::Reservation);
        let urgency = task.urgency;
        let record = self.object(object).map(|row| row.record + page.get());
        if record.is_some_and(|record| self.lift(record, urgency)) {
            return;
        }
        match self.core.page(object, page).map(|page| page.state) {
            // Not in the store: it is read from a file, or its request is not carried out yet.
            Some(PageState::Filling | PageState::Leaving) => self.io.readers.lift(object, page, urgency),
            // It waits for a frame.
            Some(PageState::Empty | PageState::Stored) => self.lift_evictions(holder, urgency),
            Some(PageState::Resident) | None => {}
        }
    }

    fn lift_evictions(&mut self, holder: Holder, urgency: u8) {
        while let Some(record) = self.transfers.eviction_below(holder, urgency) {
            self.lift(record, urgency);
        }
    }

    /// Makes a transfer of the store as urgent as this at least; whether one of this record is under way.
    fn lift(&mut self, record: u32, urgency: u8) -> bool {
        let Some(raised) = self.transfers.raise(record, urgency) else {
            return false;
        };
        if raised {
            self.journal.tally.lifted += 1;
            if let Some(due) = self
                .io
                .store
                .raise(self.step.now, Slot::new(record), Urgency::new(urgency))
            {
                self.wait_until(due, record);
            }
        }
        true
    }
}
