//! What a scenario is set up in at a server: its objects, reservations, tasks and locks, made through one connection.

use freehold_scenario::{self as scenario, ReservationIndex, Scenario, Site, setup};

use crate::error::LiveError;
use crate::placement::server::setup::{ServedTask, ServerPlacement, asked};
use crate::store;

/// A machine while a scenario is set up in it.
#[derive(Debug)]
pub(super) struct Placing<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) machine: &'a mut ServerPlacement,
    pub(super) tasks: Vec<Option<ServedTask>>,
}

impl Site for Placing<'_> {
    type Error = LiveError;

    fn make_object(&mut self, region: usize) -> Result<(), LiveError> {
        self.machine.open(&self.scenario.regions[region])
    }

    fn admit(&mut self, reservation: ReservationIndex) -> Result<(), LiveError> {
        self.machine.reserve(self.scenario, reservation.get())
    }

    fn add_task(&mut self, position: usize) -> Result<(), LiveError> {
        let (task, machine) = (&self.scenario.tasks[position], &*self.machine);
        let pool = machine.open_pool(self.scenario, position)?;
        let joined = match &pool {
            Some(pool) => Some(
                pool.join(&machine.connection)
                    .map_err(asked(&format!("task {}", task.name)))?,
            ),
            None => None,
        };
        let held = task.reservation.map(|index| &machine.reservations[index.get()]);
        let urgency = store::urgency(task.class).get();
        let regions = setup::mapped_regions(self.scenario, position);
        let mut made = machine.add_task(&task.name, urgency, held.or(joined.as_ref()), regions)?;
        made.pool = pool;
        made.signals = machine.devices.signals_of(self.scenario, position);
        self.tasks[position] = Some(made);
        Ok(())
    }

    fn keep(&mut self, index: ReservationIndex, regions: &[usize]) -> Result<(), LiveError> {
        let name = format!("keeper of {}", self.scenario.reservations[index.get()].name);
        let held = &self.machine.reservations[index.get()];
        let keeper = self.machine.add_task(&name, 0, Some(held), regions.iter().copied())?;
        self.machine._keepers.push(keeper);
        Ok(())
    }

    fn lock(&mut self, index: ReservationIndex, region: usize, range: scenario::PageRange) -> Result<(), LiveError> {
        let (reservation, named) = (&self.scenario.reservations[index.get()], &self.scenario.regions[region]);
        let what = format!("reservation {}, region {}: not locked", reservation.name, named.name);
        let held = &self.machine.reservations[index.get()];
        held.lock(&self.machine.regions[region], range.first.get(), range.pages.get())
            .map_err(asked(&what))?;
        Ok(())
    }
}
