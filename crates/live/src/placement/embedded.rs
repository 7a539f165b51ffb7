//! Setting up: a scenario's reservations, regions and tasks in a pager.

use std::sync::Arc;

use freehold_core::id::{ObjectId, PinnedPoolId, ReservationId};
use freehold_core::limits::PageRange;
use freehold_core::pinning::PinningSettings;
use freehold_core::units::Duration;
use freehold_linux::sched;
use freehold_pager::store::StoreStats;
use freehold_pager::{Config, EventCapacity, Locking, MappedRegion, Pace, Pager, TaskHandle, Watch};
use freehold_rt::budget;
use freehold_scenario::results::Laws;
use freehold_scenario::{
    self as scenario, Class, Pinning, ReservationIndex, Scenario, Site, StoreWait, Task, set_up, setup,
};

use crate::device_memory::DeviceMemory;
use crate::error::LiveError;
use crate::placement::server::{DeviceThreads, JobSignal, Openings};
use crate::result::{Checks, DeviceCounts};
use crate::store;
use freehold_linux::available::memory_available;

/// One task, ready to be entered by its thread.
#[derive(Debug)]
pub(crate) struct LiveTask {
    pub(crate) handle: TaskHandle,
    /// By region; those that its accesses name.
    pub(crate) regions: Vec<Option<MappedRegion>>,
    /// Devices that its jobs open.
    pub(crate) signals: Vec<Arc<JobSignal>>,
}

/// A pager with everything of a scenario in it.
///
/// Tasks are dropped before the pager, and keepers, which hold locked regions mapped, after the tasks.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) tasks: Vec<LiveTask>,
    /// Who brings pages back, in the order of [`setup::restorers`].
    pub(crate) restorers: Vec<TaskHandle>,
    _keepers: Vec<TaskHandle>,
    pub(crate) reservations: Vec<ReservationId>,
    /// The pinned page pool of each task that has one.
    pub(crate) pools: Vec<Option<PinnedPoolId>>,
    pub(crate) objects: Vec<ObjectId>,
    /// Who opens the devices.
    pub(crate) clients: DeviceThreads,
    pub(crate) pager: Pager,
    /// The memory of devices, which the pager keeps pages of files in.
    pub(crate) devices: Option<DeviceMemory>,
    pace: Pace,
    /// What the store did while locks brought pages in: before time 0, so not part of the run.
    pub(crate) before: StoreStats,
}

impl Machine {
    /// Sets up in the order that [`set_up`] lays down.
    pub(crate) fn new(
        scenario: &Scenario,
        pace: Pace,
        watch: Option<Arc<dyn Watch>>,
        events: Option<EventCapacity>,
    ) -> Result<Self, LiveError> {
        check_supported(scenario)?;
        if pace == Pace::Clock {
            check_wait(scenario)?;
            check_budgets(scenario)?;
        }
        check_memory(scenario)?;
        let mut devices = DeviceMemory::new(scenario)?;
        let pager = Pager::new(Config {
            limits: setup::limits(scenario),
            pace,
            store: store::shape(scenario),
            medium: store::medium(scenario),
            read_ahead: scenario.store.read_ahead,
            watch,
            files: devices.as_ref().map(DeviceMemory::files),
            events,
        })
        .map_err(|error| store::start_error(scenario, error))?;
        if let Some(devices) = &mut devices {
            devices.set_aside(&pager)?;
        }
        let mut machine = Self {
            tasks: Vec::new(),
            restorers: Vec::new(),
            _keepers: Vec::new(),
            reservations: Vec::new(),
            pools: vec![None; scenario.tasks.len()],
            objects: Vec::new(),
            clients: DeviceThreads::new(scenario),
            devices,
            before: pager.store().stats(),
            pager,
            pace,
        };
        let mut placing = Placing {
            scenario,
            tasks: scenario.tasks.iter().map(|_| None).collect(),
            machine: &mut machine,
        };
        set_up(scenario, |_| true, &mut placing)?;
        let tasks = placing.tasks.into_iter().flatten().collect();
        machine.tasks = tasks;
        machine.before = machine.pager.store().stats();
        if let Some(devices) = &machine.devices {
            devices.begin();
        }
        Ok(machine)
    }

    /// What became of device memory, and law 6, of which the clients of its devices have found this.
    pub(crate) fn device_results(&self, scenario: &Scenario, found: &[Openings]) -> (DeviceCounts, Laws) {
        match &self.devices {
            Some(devices) => (devices.results(scenario, found), devices.laws(scenario, found)),
            None => ((None, Vec::new()), Checks::new(scenario).laws),
        }
    }

    /// Frames that tasks without a reservation and the pool's own pages take, and everything held: the books' total
    /// without what devices have.
    pub(crate) fn memory_used(&self) -> u64 {
        let view = self.pager.inspect(|core| core.pool_view());
        u64::from(view.memory_used.get()) - u64::from(view.outside.get())
    }
}

/// A machine while a scenario is set up in it.
#[derive(Debug)]
struct Placing<'a> {
    scenario: &'a Scenario,
    machine: &'a mut Machine,
    tasks: Vec<Option<LiveTask>>,
}

impl Placing<'_> {
    /// Opens the pool of a task that has one, and makes the task its member.
    fn add_pinned_task(&mut self, position: usize) -> Result<Option<TaskHandle>, LiveError> {
        let task = &self.scenario.tasks[position];
        let Some(settings) = pool_settings(task, self.machine.pace) else {
            return Ok(None);
        };
        let refused = |reason| LiveError::Pool {
            task: task.name.clone(),
            reason,
        };
        let pager = &self.machine.pager;
        let pool = pager.open_pinned_pool(settings).map_err(refused)?;
        let refused = |reason| LiveError::Task {
            name: task.name.clone(),
            reason,
        };
        let handle = pager.add_pinned_task(pool).map_err(refused)?;
        self.machine.pools[position] = Some(pool);
        Ok(Some(handle))
    }

    fn map(&self, handle: &TaskHandle, name: &str, region: usize) -> Result<MappedRegion, LiveError> {
        let refused = |reason| LiveError::Map {
            name: name.to_owned(),
            reason,
        };
        handle.map(self.machine.objects[region]).map_err(refused)
    }
}

impl Site for Placing<'_> {
    type Error = LiveError;

    fn make_object(&mut self, region: usize) -> Result<(), LiveError> {
        let region = &self.scenario.regions[region];
        let made = self.machine.pager.create_object(setup::object(region));
        let refused = |reason| LiveError::Region {
            name: region.name.clone(),
            reason,
        };
        self.machine.objects.push(made.map_err(refused)?);
        Ok(())
    }

    fn admit(&mut self, index: ReservationIndex) -> Result<(), LiveError> {
        let reservation = &self.scenario.reservations[index.get()];
        let refused = |reason| LiveError::Reservation {
            name: reservation.name.clone(),
            reason,
        };
        let made = self.machine.pager.reserve(setup::reservation(reservation));
        self.machine.reservations.push(made.map_err(refused)?);
        Ok(())
    }

    fn add_task(&mut self, position: usize) -> Result<(), LiveError> {
        let task = &self.scenario.tasks[position];
        let id = task.reservation.map(|index| self.machine.reservations[index.get()]);
        let refused = |reason| LiveError::Task {
            name: task.name.clone(),
            reason,
        };
        let handle = match self.add_pinned_task(position)? {
            Some(handle) => handle,
            None => self.machine.pager.add_task(id).map_err(refused)?,
        };
        handle.set_urgency(store::urgency(task.class));
        let mut regions = vec![None; self.scenario.regions.len()];
        for region in setup::mapped_regions(self.scenario, position) {
            regions[region] = Some(self.map(&handle, &task.name, region)?);
        }
        let signals = self.machine.clients.signals_of(self.scenario, position);
        self.tasks[position] = Some(LiveTask {
            handle,
            regions,
            signals,
        });
        Ok(())
    }

    fn add_restorer(&mut self, position: usize) -> Result<(), LiveError> {
        let Some(pool) = self.machine.pools[position] else {
            return Ok(());
        };
        let name = &self.scenario.tasks[position].name;
        let refused = |reason| LiveError::Task {
            name: name.clone(),
            reason,
        };
        let handle = self.machine.pager.add_restorer(pool).map_err(refused)?;
        for region in setup::mapped_regions(self.scenario, position) {
            self.map(&handle, name, region)?;
        }
        self.machine.restorers.push(handle);
        Ok(())
    }

    fn keep(&mut self, index: ReservationIndex, regions: &[usize]) -> Result<(), LiveError> {
        let name = &self.scenario.reservations[index.get()].name;
        let refused = |reason| LiveError::Task {
            name: name.clone(),
            reason,
        };
        let id = self.machine.reservations[index.get()];
        let keeper = self.machine.pager.add_task(Some(id)).map_err(refused)?;
        for region in regions {
            self.map(&keeper, name, *region)?;
        }
        self.machine._keepers.push(keeper);
        Ok(())
    }

    fn lock(&mut self, index: ReservationIndex, region: usize, range: scenario::PageRange) -> Result<(), LiveError> {
        let pages = PageRange {
            first: range.first,
            count: range.pages,
        };
        let refused = |reason| LiveError::Lock {
            name: self.scenario.reservations[index.get()].name.clone(),
            region: self.scenario.regions[region].name.clone(),
            reason,
        };
        let (id, object) = (self.machine.reservations[index.get()], self.machine.objects[region]);
        let pager = &self.machine.pager;
        let mut locking = pager.lock_pages(id, object, pages).map_err(refused)?;
        while locking == Locking::Pending {
            for (page, request) in pager.outstanding() {
                pager.complete(page, request, false);
            }
            if pager.outstanding().is_empty() {
                locking = Locking::Complete;
            }
        }
        Ok(())
    }
}

/// The CPUs that the scenario's CPUs 0, 1, .. are on this machine.
pub(crate) fn choose_cpus(scenario: &Scenario) -> Result<Vec<usize>, LiveError> {
    let usable = sched::allowed_cpus().map_err(LiveError::UnknownCpus)?;
    let wanted = usize::try_from(scenario.cpus).unwrap_or(usize::MAX);
    if usable.len() < wanted {
        return Err(LiveError::Cpus {
            wanted: scenario.cpus,
            usable: usable.len(),
        });
    }
    Ok(usable[usable.len() - wanted..].to_vec())
}

/// Refuses what only the simulator runs.
pub(crate) fn check_supported(scenario: &Scenario) -> Result<(), LiveError> {
    if let Some(view) = scenario.regions.iter().find(|region| region.copy_of.is_some()) {
        return Err(LiveError::CopyOnWrite(view.name.clone()));
    }
    Ok(())
}

/// Refuses budgets that are to be changed and that the kernel's tick is too coarse for.
pub(crate) fn check_budgets(scenario: &Scenario) -> Result<(), LiveError> {
    let changes = |task: &&Task| {
        let highest = task.app.map_or(Duration::ZERO, |app| app.highest_swap_budget);
        task.class == Class::Deadline && task.pinning == Pinning::App && !highest.is_zero()
    };
    for task in scenario.tasks.iter().filter(changes) {
        let budget = std::time::Duration::from_nanos(task.budget.map_or(0, Duration::get));
        budget::enforceable(budget).map_err(|reason| LiveError::Budget {
            task: task.name.clone(),
            reason,
        })?;
    }
    Ok(())
}

/// What a task's pinned page pool is opened with. By the clock the budget of a deadline task stays within what Linux
/// lets such tasks use of a CPU, whatever the scenario's admission leaves.
pub(crate) fn pool_settings(task: &Task, pace: Pace) -> Option<PinningSettings> {
    let mut settings = setup::pinning(task)?;
    if pace == Pace::Clock && task.class == Class::Deadline {
        let span = |span: Duration| std::time::Duration::from_nanos(span.get());
        let room = budget::room(span(settings.period), span(settings.budget));
        let room = Duration::new(u64::try_from(room.as_nanos()).unwrap_or(u64::MAX));
        settings.highest_swap_budget = settings.highest_swap_budget.min(room);
    }
    Some(settings)
}

/// Refuses a way of waiting for the store other than what the latency implies: the pager has no other.
pub(crate) fn check_wait(scenario: &Scenario) -> Result<(), LiveError> {
    if scenario.store.wait == StoreWait::of(scenario.store.latency) {
        Ok(())
    } else {
        Err(LiveError::Wait(scenario.store.wait.name()))
    }
}

/// Refuses a pool that the kernel could only give by killing something. Where it does not say what is available,
/// nothing is refused.
pub(crate) fn check_memory(scenario: &Scenario) -> Result<(), LiveError> {
    let pool = scenario.pool.to_bytes().get();
    match memory_available() {
        Some((bytes, limit)) if pool > bytes => Err(LiveError::Memory {
            pool: pool >> 20,
            available: bytes >> 20,
            limit,
        }),
        _ => Ok(()),
    }
}
