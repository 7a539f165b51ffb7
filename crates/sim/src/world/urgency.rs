//! Whose request the store serves first.
//!
//! A fill has the urgency of the most urgent task that waits for its page, a write-back that of the task whose fault
//! caused it. A task that comes to wait for what is already queued lifts it: the request for its page or, where its
//! own fill waits for a frame of its reservation, the reservation's write-backs.

use freehold_core::effect::Holder;
use freehold_core::fact::{PageRef, Request};
use freehold_scenario::{Class, RegionIndex, ReservationIndex, Task};

use super::World;

/// Deadline tasks are above fifo tasks, 1 to 99; those above all others. The larger, the more urgent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Urgency(u8);

impl Urgency {
    /// That of a task's requests.
    pub(crate) fn of(task: &Task) -> Self {
        match task.class {
            Class::Deadline => Self(100),
            Class::Fifo { priority } => Self(priority),
            Class::BestEffort => Self::default(),
        }
    }

    /// One told apart by its number.
    #[cfg(test)]
    pub(crate) fn for_test(urgency: u8) -> Self {
        Self(urgency)
    }
}

impl World<'_> {
    /// That of a fill about to be handed in.
    pub(super) fn urgency_of_fill(&self, page: PageRef) -> Urgency {
        if self.store.has_free_channel() {
            return Urgency::default();
        }
        let region = self.region_of(page);
        self.most_urgent(|task| self.waits_for(task, region, page.page().get()))
    }

    /// That of a write-back about to be handed in.
    pub(super) fn urgency_of_write_back(&self, holder: Holder) -> Urgency {
        if self.store.has_free_channel() {
            return Urgency::default();
        }
        if let Some(task) = self.cause {
            return self.urgency_of_task(task);
        }
        let reservation = self.reservation_of(holder);
        self.most_urgent(|task| self.pending[task].is_some() && self.reservation_of_task(task) == reservation)
    }

    /// A task has begun to wait.
    pub(super) fn lift_what_it_waits_for(&mut self, task: usize) {
        let Some(pending) = self.pending[task].filter(|_| !self.store.has_free_channel()) else {
            return;
        };
        let urgency = self.urgency_of_task(task);
        let (region, base) = (pending.region, self.base_of(pending.region));
        let of_page = |ticket: &super::Ticket| {
            ticket.page.page().get() == pending.page && (ticket.region == region || Some(ticket.region) == base)
        };
        if self.store.is_under_way(of_page) {
            self.store.lift(urgency, of_page);
            return;
        }
        let reservation = self.reservation_of_task(task);
        let of_holder = |ticket: &super::Ticket| ticket.request == Request::Evict && ticket.reservation == reservation;
        self.store.lift(urgency, of_holder);
    }

    fn most_urgent(&self, chosen: impl Fn(usize) -> bool) -> Urgency {
        let tasks = self.scenario.tasks.iter().enumerate();
        let urgencies = tasks
            .filter(|(task, _)| chosen(*task))
            .map(|(_, task)| Urgency::of(task));
        urgencies.max().unwrap_or_default()
    }

    fn waits_for(&self, task: usize, region: usize, page: u32) -> bool {
        self.pending[task].is_some_and(|pending| {
            pending.page == page && (pending.region == region || self.base_of(pending.region) == Some(region))
        })
    }

    fn base_of(&self, region: usize) -> Option<usize> {
        self.scenario.regions[region].copy_of.map(RegionIndex::get)
    }

    /// Who restores is the least urgent.
    fn urgency_of_task(&self, task: usize) -> Urgency {
        self.scenario.tasks.get(task).map(Urgency::of).unwrap_or_default()
    }

    /// Who restores has no reservation.
    pub(super) fn reservation_of_task(&self, task: usize) -> Option<usize> {
        let task = self.scenario.tasks.get(task)?;
        task.reservation.map(ReservationIndex::get)
    }
}
