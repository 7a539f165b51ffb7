//! Before time begins: everything of a scenario is set up. No virtual time passes; pages that a lock brings in are
//! there at time 0.

use freehold_core::id::ObjectId;
use freehold_core::limits::PageRange;
use freehold_scenario::{ReservationIndex, Scenario, Site, set_up, setup};

use super::{Faults, Names, StoreCounts, Told, Work, World};
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
        let actors = scenario.tasks.len() + setup::restorers(scenario).count();
        let injector = scenario.faults.map(|faults| Injector::new(faults, scenario.seed));
        let limits = setup::limits(scenario);
        let mut memory = limits.seal().map_err(SimError::Seal)?;
        let mut physical = Physical::new(scenario);
        let devices = DeviceMemory::new(scenario, options.copies_at_once)?;
        let region = devices.as_ref().map(|devices| memory.set_aside(devices.region()));
        let region = region.transpose().map_err(|reason| SimError::Devices { reason })?;
        physical.set_aside(region.as_ref().map_or(0, |region| u64::from(region.count().get())));
        let holders = usize::from(limits.reservations) + 1;
        memory.set_read_ahead(scenario.store.read_ahead);
        let mut world = Self {
            scenario,
            memory,
            names: Names::new(scenario, actors),
            tables: PageTables::new(scenario),
            store: Store::new(&scenario.store, physical.pages(), holders, injector),
            physical,
            laws: LawBook::default(),
            sequences: Sequences::new(scenario.reservations.len(), options.sequences),
            log: EventLog::default(),
            counts: StoreCounts::default(),
            devices,
            _region: region,
            work: Work::default(),
            faults: Faults {
                pending: vec![None; actors],
                events: vec![None; actors],
            },
            told: Told {
                now: 0,
                cause: None,
                setting_up: true,
                lock_failed: false,
                facts: 0,
                check_every: options.check_every.map_or_else(|| default_check(scenario), u64::from),
            },
        };
        let takes_part = |reservation: Option<ReservationIndex>| options.only.is_none() || reservation == options.only;
        set_up(scenario, takes_part, &mut world)?;
        world.told.setting_up = false;
        world.counts = StoreCounts::default();
        world.log = EventLog::new(scenario, options.recording);
        Ok(world)
    }
}

impl Names {
    /// Nothing of the scenario has one yet.
    fn new(scenario: &Scenario, actors: usize) -> Self {
        Self {
            reservations: vec![None; scenario.reservations.len()],
            pools: vec![None; scenario.tasks.len()],
            tasks: vec![None; actors],
            objects: vec![None; scenario.regions.len()],
            mappings: vec![vec![None; scenario.regions.len()]; actors],
            ..Self::default()
        }
    }
}

impl World<'_> {
    /// The object of a region: they are made before anything else.
    pub(super) fn object(&self, region: usize) -> ObjectId {
        self.names.objects[region].expect("the object of a region was made")
    }
}

impl Site for World<'_> {
    type Error = SimError;

    fn make_object(&mut self, position: usize) -> Result<(), SimError> {
        let region = &self.scenario.regions[position];
        let base = region.copy_of.and_then(|base| self.names.objects[base.get()]);
        let made = match base {
            Some(base) => self.memory.create_view(base),
            None => self.memory.create_object(setup::object(region)),
        };
        let id = made.map_err(|reason| SimError::Region {
            region: region.name.clone(),
            reason,
        })?;
        self.carry_out(0);
        enter(&mut self.names.region_of, id.index(), position);
        self.names.objects[position] = Some(id);
        Ok(())
    }

    fn admit(&mut self, index: ReservationIndex) -> Result<(), SimError> {
        let reservation = &self.scenario.reservations[index.get()];
        let spec = setup::reservation(reservation);
        let refused = |reason| SimError::Admission {
            reservation: reservation.name.clone(),
            reason,
        };
        let id = self.memory.admit(spec).map_err(refused)?;
        self.carry_out(0);
        enter(&mut self.names.reservation_of, id.index(), index.get());
        self.names.reservations[index.get()] = Some(id);
        Ok(())
    }

    fn add_task(&mut self, position: usize) -> Result<(), SimError> {
        let task = &self.scenario.tasks[position];
        let reservation = task.reservation.and_then(|index| self.names.reservations[index.get()]);
        let refused = |reason| SimError::Task {
            task: task.name.clone(),
            reason,
        };
        let id = match self.add_pinned_task(position)? {
            Some(id) => id,
            None => self.memory.add_task(reservation).map_err(refused)?,
        };
        enter(&mut self.names.task_of, id.index(), Some(position));
        self.names.tasks[position] = Some(id);
        for region in setup::mapped_regions(self.scenario, position) {
            let mapping = self.memory.map(id, self.object(region)).map_err(refused)?;
            enter(&mut self.names.mapped_by, mapping.index(), Some((position, region)));
            self.names.mappings[position][region] = Some(mapping);
            self.tables.add(self.scenario, position, region);
        }
        self.carry_out(0);
        Ok(())
    }

    fn add_restorer(&mut self, task: usize) -> Result<(), SimError> {
        self.add_restorer_of(task)
    }

    fn keep(&mut self, index: ReservationIndex, regions: &[usize]) -> Result<(), SimError> {
        let refused = |reason| SimError::Task {
            task: self.scenario.reservations[index.get()].name.clone(),
            reason,
        };
        let reservation = self.names.reservations[index.get()];
        let keeper = self.memory.add_task(reservation).map_err(refused)?;
        for region in regions {
            self.memory.map(keeper, self.object(*region)).map_err(refused)?;
            self.carry_out(0);
        }
        Ok(())
    }

    fn lock(
        &mut self,
        index: ReservationIndex,
        region: usize,
        range: freehold_scenario::PageRange,
    ) -> Result<(), SimError> {
        let Some(id) = self.names.reservations[index.get()] else {
            return Ok(());
        };
        let pages = PageRange {
            first: range.first,
            count: range.pages,
        };
        let named = || {
            let reservation = self.scenario.reservations[index.get()].name.clone();
            (reservation, self.scenario.regions[region].name.clone())
        };
        if let Err(reason) = self.memory.lock(id, self.object(region), pages) {
            let (reservation, region) = named();
            return Err(SimError::Lock {
                reservation,
                region,
                reason,
            });
        }
        self.carry_out(0);
        if self.told.lock_failed {
            let (reservation, region) = named();
            return Err(SimError::LockFailed { reservation, region });
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
