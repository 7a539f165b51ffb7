//! Whose request the store serves first.
//!
//! A fill has the urgency of the most urgent task that waits for its page, a write-back that of the task whose fault
//! caused it. A task that comes to wait for what is already queued lifts it: the request for its page or, where its
//! own fill waits for a frame of its reservation, the reservation's write-backs.

use freehold_core::effect::Holder;
use freehold_core::fact::PageRef;
use freehold_driver::HolderRow;
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

    /// Its number.
    pub(crate) fn get(self) -> u8 {
        self.0
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
        if let Some(task) = self.told.cause {
            return self.urgency_of_task(task);
        }
        let reservation = self.reservation_of(holder);
        self.most_urgent(|task| self.faults.pending[task].is_some() && self.reservation_of_task(task) == reservation)
    }

    /// A task has begun to wait.
    pub(super) fn lift_what_it_waits_for(&mut self, task: usize) {
        let Some(pending) = self.faults.pending[task].filter(|_| !self.store.has_free_channel()) else {
            return;
        };
        let urgency = self.urgency_of_task(task);
        let regions = std::iter::once(pending.region).chain(self.base_of(pending.region));
        let mut is_under_way = false;
        for region in regions {
            let record = self.physical.number(region, pending.page);
            is_under_way |= self.store.lift(record, urgency);
        }
        if !is_under_way {
            self.store.lift_writes(self.holder_of_task(task), urgency);
        }
    }

    fn most_urgent(&self, chosen: impl Fn(usize) -> bool) -> Urgency {
        let tasks = self.scenario.tasks.iter().enumerate();
        let urgencies = tasks
            .filter(|(task, _)| chosen(*task))
            .map(|(_, task)| Urgency::of(task));
        urgencies.max().unwrap_or_default()
    }

    fn waits_for(&self, task: usize, region: usize, page: u32) -> bool {
        self.faults.pending[task].is_some_and(|pending| {
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

    fn holder_of_task(&self, task: usize) -> HolderRow {
        let reservation = self.reservation_of_task(task);
        let id = reservation.and_then(|position| self.names.reservations[position]);
        HolderRow::from(id.map_or(Holder::Pool, Holder::Reservation))
    }

    /// Who restores has no reservation.
    pub(super) fn reservation_of_task(&self, task: usize) -> Option<usize> {
        let task = self.scenario.tasks.get(task)?;
        task.reservation.map(ReservationIndex::get)
    }
}
