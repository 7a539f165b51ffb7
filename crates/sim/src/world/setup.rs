//! Before time begins: objects, then one reservation after the other with its tasks, mappings and locks, then the tasks
//! without a reservation. So frames that a lock gives back are there for the next reservation. No virtual time passes;
//! pages that a lock brings in are there at time 0.

use freehold_core::limits::PageRange;
use freehold_driver::Batch;
use freehold_scenario::{ReservationIndex, Scenario, plan};

use super::{Names, StoreCounts, World};
use crate::device::DeviceMemory;
use crate::error::SimError;
use crate::event_log::EventLog;
use crate::laws::LawBook;
use crate::options::Options;
use crate::page_table::PageTables;
use crate::physical::Physical;
use crate::sequence::Sequences;
use crate::store::{Injector, Store};

/// Entries of the core's tables up to which every event is checked in debug builds; beyond, checks become rarer.
const CHECKED_CLOSELY: u64 = 1024;

impl<'a> World<'a> {
    /// Everything in place for time 0.
    pub(crate) fn new(scenario: &'a Scenario, options: &Options) -> Result<Self, SimError> {
        let actors = scenario.tasks.len() + plan::restorers(scenario).count();
        let injector = scenario.faults.map(|faults| Injector::new(faults, scenario.seed));
        let limits = plan::limits(scenario);
        let mut memory = limits.seal().map_err(SimError::Seal)?;
        let mut physical = Physical::new(scenario);
        let devices = DeviceMemory::new(scenario)?;
        let region = devices.as_ref().map(|devices| memory.set_aside(devices.region()));
        let region = region.transpose().map_err(|reason| SimError::Devices { reason })?;
        physical.set_aside(region.as_ref().map_or(0, |region| u64::from(region.count().get())));
        let holders = usize::from(limits.reservations) + 1;
        memory.set_read_ahead(scenario.store.read_ahead);
        let mut world = Self {
            scenario,
            memory,
            names: Names::default(),
            tables: PageTables::new(scenario),
            store: Store::new(&scenario.store, physical.pages(), holders, injector),
            physical,
            laws: LawBook::default(),
            sequences: Sequences::new(scenario.reservations.len(), options.sequences),
            log: EventLog::default(),
            counts: StoreCounts::default(),
            devices,
            _region: region,
            batch: Batch::default(),
            now: 0,
            pending: vec![None; actors],
            events: vec![None; actors],
            wakes: std::collections::VecDeque::new(),
            budgets: std::collections::VecDeque::new(),
            setting_up: true,
            cause: None,
            lock_failed: false,
            facts: 0,
            check_every: options.check_every.map_or_else(|| default_check(scenario), u64::from),
        };
        let takes_part = |reservation: Option<ReservationIndex>| options.only.is_none() || reservation == options.only;
        world.names.reservations = vec![None; scenario.reservations.len()];
        world.names.pools = vec![None; scenario.tasks.len()];
        world.names.tasks = vec![None; actors];
        world.names.mappings = vec![vec![None; scenario.regions.len()]; actors];
        world.create_objects()?;
        for position in 0..scenario.reservations.len() {
            let index = ReservationIndex::new(narrow(position));
            if takes_part(Some(index)) {
                world.admit(position)?;
                world.add_tasks(Some(index))?;
                world.keep_locked_regions_mapped(index)?;
                world.lock_of(index)?;
            }
        }
        if takes_part(None) {
            world.add_tasks(None)?;
        }
        world.setting_up = false;
        world.counts = StoreCounts::default();
        world.log = EventLog::new(scenario, options.recording);
        Ok(world)
    }

    fn admit(&mut self, position: usize) -> Result<(), SimError> {
        let reservation = &self.scenario.reservations[position];
        let spec = plan::reservation(reservation);
        let refused = |reason| SimError::Admission {
            reservation: reservation.name.clone(),
            reason,
        };
        let id = self.memory.admit(spec).map_err(refused)?;
        self.carry_out(0);
        enter(&mut self.names.reservation_of, id.index(), position);
        self.names.reservations[position] = Some(id);
        Ok(())
    }

    fn create_objects(&mut self) -> Result<(), SimError> {
        let regions = &self.scenario.regions;
        let mut ids = vec![None; regions.len()];
        let (bases, views): (Vec<usize>, Vec<usize>) =
            (0..regions.len()).partition(|region| regions[*region].copy_of.is_none());
        for position in bases.into_iter().chain(views) {
            let region = &regions[position];
            let base = region.copy_of.and_then(|base| ids.get(base.get()).copied().flatten());
            let made = match base {
                Some(base) => self.memory.create_view(base),
                None => self.memory.create_object(plan::object(region)),
            };
            let id = made.map_err(|reason| SimError::Region {
                region: region.name.clone(),
                reason,
            })?;
            self.carry_out(0);
            enter(&mut self.names.region_of, id.index(), position);
            ids[position] = Some(id);
        }
        self.names.objects = ids.into_iter().flatten().collect();
        Ok(())
    }

    /// The tasks of a reservation, or those without one, each with its mappings.
    fn add_tasks(&mut self, reservation: Option<ReservationIndex>) -> Result<(), SimError> {
        let id = reservation.and_then(|index| self.names.reservations[index.get()]);
        for (position, task) in self.scenario.tasks.iter().enumerate() {
            if task.reservation != reservation {
                continue;
            }
            let refused = |reason| SimError::Task {
                task: task.name.clone(),
                reason,
            };
            let id = match self.add_pinned_task(position)? {
                Some(id) => id,
                None => self.memory.add_task(id).map_err(refused)?,
            };
            enter(&mut self.names.task_of, id.index(), Some(position));
            self.names.tasks[position] = Some(id);
            for region in plan::mapped_regions(self.scenario, position) {
                let mapping = self.memory.map(id, self.names.objects[region]).map_err(refused)?;
                enter(&mut self.names.mapped_by, mapping.index(), Some((position, region)));
                self.names.mappings[position][region] = Some(mapping);
                self.tables.add(self.scenario, position, region);
            }
            self.carry_out(0);
            self.add_restorer(position)?;
        }
        Ok(())
    }

    /// A reservation can only lock what one of its tasks maps. Where none touches the region, one that never runs
    /// maps it.
    fn keep_locked_regions_mapped(&mut self, index: ReservationIndex) -> Result<(), SimError> {
        let reservation = &self.scenario.reservations[index.get()];
        let mut keeper = None;
        for region in plan::kept_regions(self.scenario, index) {
            let refused = |reason| SimError::Task {
                task: reservation.name.clone(),
                reason,
            };
            let id = match keeper {
                Some(id) => id,
                None => self
                    .memory
                    .add_task(self.names.reservations[index.get()])
                    .map_err(refused)?,
            };
            keeper = Some(id);
            self.memory.map(id, self.names.objects[region]).map_err(refused)?;
            self.carry_out(0);
        }
        Ok(())
    }

    fn lock_of(&mut self, index: ReservationIndex) -> Result<(), SimError> {
        let reservation = &self.scenario.reservations[index.get()];
        let Some(id) = self.names.reservations[index.get()] else {
            return Ok(());
        };
        for (region, used) in reservation.regions.iter().enumerate() {
            for range in &used.locks {
                let range = PageRange {
                    first: range.first,
                    count: range.pages,
                };
                let (reservation, region_name) = (&reservation.name, &self.scenario.regions[region].name);
                self.memory
                    .lock(id, self.names.objects[region], range)
                    .map_err(|reason| SimError::Lock {
                        reservation: reservation.clone(),
                        region: region_name.clone(),
                        reason,
                    })?;
                self.carry_out(0);
                if self.lock_failed {
                    let (reservation, region) = (reservation.clone(), region_name.clone());
                    return Err(SimError::LockFailed { reservation, region });
                }
            }
        }
        Ok(())
    }
}

fn default_check(scenario: &Scenario) -> u64 {
    let pages: u64 = scenario
        .regions
        .iter()
        .map(|region| u64::from(region.pages.get()))
        .sum();
    let entries = pages + u64::from(scenario.pool.get());
    if cfg!(debug_assertions) {
        entries.div_ceil(CHECKED_CLOSELY)
    } else {
        0
    }
}

fn narrow(position: usize) -> u16 {
    u16::try_from(position).unwrap_or(u16::MAX)
}

/// Writes to a row of a table indexed by one of the core's slots.
pub(super) fn enter<T: Clone + Default>(table: &mut Vec<T>, slot: usize, value: T) {
    if table.len() <= slot {
        table.resize(slot + 1, T::default());
    }
    table[slot] = value;
}

/// A page reference, which only a core can make.
#[cfg(test)]
pub(super) fn some_page() -> freehold_core::fact::PageRef {
    use freehold_core::effect::Effect;
    use freehold_core::fact::{Access, Fault};
    use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime};
    use freehold_core::units::{FrameCount, Instant, PageCount, PageIndex};

    let (frames, one) = (FrameCount::new(2), PageCount::new(1));
    let limits = Limits {
        frames,
        pages: one,
        reservations: 1,
        objects: 1,
        tasks: 1,
        mappings: 1,
        compared_pages: PageCount::ZERO,
        shared_locks: PageCount::ZERO,
    };
    let mut memory = limits.seal().unwrap();
    let spec = ObjectSpec {
        kind: ObjectKind::Shared,
        pages: one,
        regime: Regime::Conserve,
    };
    let object = memory.create_object(spec).unwrap();
    let task = memory.add_task(None).unwrap();
    let mapping = memory.map(task, object).unwrap();
    let fault = Fault {
        mapping,
        page: PageIndex::new(0),
        access: Access::Read,
    };
    memory.handle_fault(Instant::ZERO, fault).unwrap();
    match memory.poll_effect() {
        Some(Effect::Fill { page, .. }) => page,
        other => panic!("no fill but {other:?}"),
    }
}
