//! Setting up: a scenario's reservations, regions and tasks with a server.

pub(super) mod placing;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use freehold_client::{
    Connection, Mapping, Observer, Question, Regime, Region, RegionKind, RegionSpec, Reservation, ReservationKind, Task,
};
use freehold_core::view::TaskCounts;
use freehold_linux::PAGE_SIZE;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::fault::Installed;
use freehold_pager::{Pace, StartError, TaskHandle, share_handler};
use freehold_report::laws::LawsDocument;
use freehold_scenario::recording::Recording;
use freehold_scenario::results::{DeviceResult, Laws, ReservationResult, VictimCacheResult};
use freehold_scenario::{self as scenario, Scenario, Sharing, set_up};

use crate::error::LiveError;
use crate::placement::embedded::{Machine, pool_settings};
use crate::placement::server::ServerError;
use crate::placement::server::devices::{DeviceThreads, JobSignal, Openings};
use crate::placement::server::host::Host;
use crate::placement::server::pool::{self, ServedPool};
use crate::placement::server::process;
use crate::placement::server::recorded::{Called, happened};
use crate::placement::server::refused;
use crate::placement::server::status::{Status, store_since};
use crate::placement::task_memory::PlacedTask;
use crate::recording;
use crate::result::{self, Counts};
use crate::run::Finished;
use crate::sampler::Sampled;
use crate::watch::Paging;
use crate::worker::TaskOutput;

use placing::Placing;

/// How long transfers may take to end when nobody touches anything any more.
const SETTLE: Duration = Duration::from_secs(30);
/// Looks at the books and at the kernel until both say the same, and the time between two.
const SETTLE_LOOKS: u32 = 200;
const SETTLE_PAUSE: Duration = Duration::from_millis(25);
/// Between two looks at whether they have.
const LOOK: Duration = Duration::from_millis(2);

/// One task, ready to be taken by its thread.
#[derive(Debug)]
pub(crate) struct ServedTask {
    pub(crate) task: Task,
    /// By region; those that its accesses name.
    pub(crate) mappings: Vec<Option<Mapping>>,
    /// Its pinned page pool, if it has one.
    pub(crate) pool: Option<ServedPool>,
    /// Devices that its jobs open.
    pub(crate) signals: Vec<Arc<JobSignal>>,
}

/// A connection with everything of a scenario made through it. Fields are dropped in this order: all that the server
/// knows of the run before the server itself.
#[derive(Debug)]
pub(crate) struct ServerPlacement {
    tasks: Vec<ServedTask>,
    _keepers: Vec<ServedTask>,
    reservations: Vec<Reservation>,
    regions: Vec<Region>,
    /// What the regions are called at the server.
    names: Vec<String>,
    reservation_names: Vec<String>,
    connection: Connection,
    pace: Pace,
    /// What the server said of itself when everything had been set up.
    before: Status,
    devices: DeviceThreads,
    host: Host,
    /// Accesses to pages that the server cannot bring end with an error.
    _handler: Arc<Installed>,
}

impl ServerPlacement {
    /// Sets up in the order that [`scenario::set_up`] lays down.
    pub(crate) fn new(
        scenario: &Scenario,
        pace: Pace,
        start: impl FnOnce() -> Result<(Host, Connection), LiveError>,
    ) -> Result<Self, LiveError> {
        crate::placement::embedded::check_supported(scenario)?;
        if pace == Pace::Clock {
            crate::placement::embedded::check_budgets(scenario)?;
            crate::placement::embedded::check_wait(scenario)?;
        } else {
            refused::restoring(scenario)?;
        }
        refused::writes_to_files(scenario)?;
        let handler = share_handler().map_err(StartError::from)?;
        let (host, connection) = start()?;
        let before = status(&connection)?;
        let mut machine = Self {
            tasks: Vec::new(),
            _keepers: Vec::new(),
            reservations: Vec::new(),
            regions: Vec::new(),
            names: Vec::new(),
            reservation_names: Vec::new(),
            connection,
            pace,
            before,
            devices: DeviceThreads::new(scenario),
            host,
            _handler: handler,
        };
        let mut placing = Placing {
            scenario,
            tasks: scenario.tasks.iter().map(|_| None).collect(),
            machine: &mut machine,
        };
        set_up(scenario, |_| true, &mut placing)?;
        let tasks = placing.tasks.into_iter().flatten().collect();
        machine.tasks = tasks;
        machine.before = status(&machine.connection)?;
        Ok(machine)
    }

    /// In the scenario's order.
    pub(crate) fn tasks(&self) -> &[ServedTask] {
        &self.tasks
    }

    /// The clients of the run's devices, to be started for it.
    pub(crate) fn devices(&self) -> &DeviceThreads {
        &self.devices
    }

    /// Where the server is.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// What the server calls the regions.
    pub(crate) fn region_names(&self) -> &[String] {
        &self.names
    }

    /// What became of device memory.
    pub(crate) fn device_results(
        &self,
        scenario: &Scenario,
        found: &[Openings],
    ) -> Result<(Option<VictimCacheResult>, Vec<DeviceResult>), LiveError> {
        Ok(status(&self.connection)?.devices(scenario, found, &self.before)?)
    }

    /// Law 6, as the clients of devices and the server's books have it.
    pub(crate) fn device_laws(&self, scenario: &Scenario, found: &[Openings]) -> Result<Laws, LiveError> {
        let mut checks = result::Checks::new(scenario);
        for (device, openings) in scenario.devices.iter().zip(found) {
            checks.check(6, openings.wrong.is_empty(), || {
                format!("device {}: {}", device.name, openings.wrong.join("; "))
            });
        }
        if !found.is_empty() {
            let text = self.connection.ask(Question::Laws, "");
            let text = text.map_err(asked("whether the laws hold"))?;
            let broken: LawsDocument = freehold_report::read(&text).map_err(ServerError::Status)?;
            checks.check(6, broken.broken.is_empty(), || broken.broken.join("; "));
        }
        Ok(checks.laws)
    }

    /// A name that no other run gives: this one's process is in it, unless the server is of this run.
    fn name(&self, name: &str) -> String {
        if self.host.is_own() {
            name.to_owned()
        } else {
            format!("{name}@{}", std::process::id())
        }
    }

    fn open(&mut self, region: &scenario::Region) -> Result<(), LiveError> {
        let mut name = self.name(&region.name);
        let regime = match region.sharing {
            Sharing::None => Regime::Unmanaged,
            _ => Regime::Conserve,
        };
        let kind = match region.kind {
            scenario::RegionKind::Private => RegionKind::Private,
            scenario::RegionKind::Shared => RegionKind::Shared,
            scenario::RegionKind::File => {
                let (file, path) = self.zeros(region)?;
                let opened = self.connection.open_file(&file, regime, &path);
                self.regions
                    .push(opened.map_err(asked(&format!("region {}", region.name)))?);
                name = path.to_string_lossy().into_owned();
                self.names.push(name);
                return Ok(());
            }
        };
        let spec = RegionSpec {
            name: &name,
            pages: region.pages.get(),
            kind,
            regime,
        };
        let opened = self.connection.open_region(&spec);
        self.regions
            .push(opened.map_err(asked(&format!("region {}", region.name)))?);
        self.names.push(name);
        Ok(())
    }

    /// A file of zeros, which is what a region of kind file holds.
    fn zeros(&self, region: &scenario::Region) -> Result<(File, PathBuf), LiveError> {
        let path = self.host.directory().join(&region.name);
        let length = u64::from(region.pages.get()) * PAGE_SIZE as u64;
        let made = File::create(&path).and_then(|file| file.set_len(length));
        let opened = made.and_then(|()| File::open(&path));
        let failed = |reason| ServerError::File {
            name: region.name.clone(),
            reason,
        };
        Ok((opened.map_err(failed)?, path))
    }

    fn reserve(&mut self, scenario: &Scenario, position: usize) -> Result<(), LiveError> {
        let reservation = &scenario.reservations[position];
        let kind = match reservation.kind {
            scenario::ReservationKind::Hard => ReservationKind::Hard,
            scenario::ReservationKind::Firm => ReservationKind::Firm,
        };
        let name = self.name(&reservation.name);
        let made = self.connection.reserve(&name, reservation.capacity.get(), kind);
        self.reservations
            .push(made.map_err(asked(&format!("reservation {}", reservation.name)))?);
        self.reservation_names.push(name);
        Ok(())
    }

    fn add_task(
        &self,
        name: &str,
        urgency: u8,
        reservation: Option<&Reservation>,
        regions: impl Iterator<Item = usize>,
    ) -> Result<ServedTask, LiveError> {
        let task = self.connection.add_task(reservation, urgency, name);
        let task = task.map_err(asked(&format!("task {name}")))?;
        let mut mappings: Vec<Option<Mapping>> = self.regions.iter().map(|_| None).collect();
        for region in regions {
            let mapped = task.map(&self.regions[region]).map_err(|reason| ServerError::Map {
                name: name.to_owned(),
                reason,
            });
            mappings[region] = Some(mapped?);
        }
        Ok(ServedTask {
            task,
            mappings,
            pool: None,
            signals: Vec::new(),
        })
    }

    /// The pinned page pool of a task that has one. Its reports go through a connection of their own.
    fn open_pool(&self, scenario: &Scenario, position: usize) -> Result<Option<ServedPool>, LiveError> {
        let task = &scenario.tasks[position];
        let Some(mut settings) = pool_settings(task, self.pace) else {
            return Ok(None);
        };
        if self.pace == Pace::Clock {
            settings.highest_capacity = pool::even_share(scenario);
        }
        let observer = Observer::connect(&process::options(&self.host.socket())).map_err(ServerError::Connect)?;
        let opened = ServedPool::open(&observer, &self.name(&task.name), settings);
        Ok(Some(opened.map_err(asked(&format!("task {}", task.name)))?))
    }

    /// Waits until the server has nothing under way and the kernel has what its books say.
    pub(crate) fn settle(&self) -> Result<(), LiveError> {
        let until = clock::now().saturating_add(SETTLE);
        while !status(&self.connection)?.is_settled() {
            if clock::now() >= until {
                return Err(ServerError::Unsettled(SETTLE.as_secs()).into());
            }
            std::thread::sleep(LOOK);
        }
        self.agreed_status().map(drop)
    }

    /// What the server says as soon as the kernel has what its books say, or after a while: the reserve is filled and
    /// emptied behind the faults, and the kernel counts after the books were read.
    fn agreed_status(&self) -> Result<Status, LiveError> {
        for _ in 0..SETTLE_LOOKS {
            let now = status(&self.connection)?;
            // Others use a server that this run did not start.
            if !self.host.is_own() || now.agrees_with_the_kernel() {
                return Ok(now);
            }
            std::thread::sleep(SETTLE_PAUSE);
        }
        Ok(status(&self.connection)?)
    }

    /// What the server recorded of the run, once nothing is under way.
    pub(crate) fn recording(
        &self,
        scenario: &Scenario,
        finished: &[Finished],
        sampled: &Sampled,
    ) -> Result<Recording, LiveError> {
        let text = self.connection.ask(Question::Recording, "");
        let recorded =
            freehold_report::read(&text.map_err(asked("the server's recording"))?).map_err(ServerError::Recording)?;
        let tasks: Vec<String> = scenario.tasks.iter().map(|task| task.name.clone()).collect();
        let called = Called {
            tasks: &tasks,
            regions: &self.names,
            reservations: &self.reservation_names,
        };
        let (clock, room) = (sampled.clock, &sampled.capacity);
        let happened = happened(&recorded, called, clock);
        Ok(recording::recording(scenario, finished, happened, clock, room))
    }

    /// Everything that can be checked of a run that is over.
    pub(crate) fn laws(
        &self,
        scenario: &Scenario,
        counts: &Counts,
        outputs: &[&TaskOutput],
    ) -> Result<Laws, LiveError> {
        let now = self.agreed_status()?;
        let mut checks = result::Checks::new(scenario);
        if self.host.is_own() {
            let (used, measured) = (now.memory().used, now.memory().resident_measured);
            checks.check(1, now.agrees_with_the_kernel(), || {
                format!("the server's books say {used} frames are used, the kernel has {measured}")
            });
        }
        for reservation in &counts.reservations {
            let (sum, whole) = (reservation.counts().usable(), reservation.counts().entitled());
            checks.check(1, sum == whole, || {
                format!("reservation {}: {sum} frames where there are {whole}", reservation.name)
            });
        }
        checks.integrity(scenario, outputs);
        Ok(checks.laws)
    }

    /// What the run had to do without, and what its figures mean here.
    pub(crate) fn warnings(&self, scenario: &Scenario, finished: &[Finished]) -> Result<Vec<String>, LiveError> {
        let mut warnings = result::run_warnings(scenario, finished)?;
        warnings.extend(
            self.connection
                .shortfalls()
                .iter()
                .map(|line| format!("the client: {line}")),
        );
        let status = status(&self.connection)?;
        warnings.extend(
            status
                .store()
                .shortfalls
                .iter()
                .map(|line| format!("memory.swap: {line}")),
        );
        let missing = status.memory().used.saturating_sub(status.memory().resident_measured);
        if self.host.is_own() && missing > 0 {
            warnings.push(format!(
                "{missing} free or conserved frames of reservations are not backed: the kernel has to find them at a \
                 fill"
            ));
        }
        let lost = self.connection.lost_job_ends();
        if lost > 0 {
            warnings.push(format!(
                "the server was not told of the ends of {lost} jobs: it was behind"
            ));
        }
        warnings.push(
            "with a server, the store waits of tasks and jobs are all that they waited for it: its service of faults \
             too"
            .to_owned(),
        );
        Ok(warnings)
    }
}

impl Paging for ServerPlacement {
    fn seats(&self) -> Vec<PlacedTask<'_>> {
        self.tasks.iter().map(PlacedTask::Served).collect()
    }

    fn restorers(&self, _scenario: &Scenario) -> Vec<(usize, &TaskHandle)> {
        Vec::new()
    }

    fn counts(&self, scenario: &Scenario, settled: bool) -> Result<Counts, LiveError> {
        let status = status(&self.connection)?;
        let counted = |(task, named): (&ServedTask, &scenario::Task)| {
            task.task.counts().map_err(asked(&format!("task {}", named.name)))
        };
        let tasks: Result<Vec<TaskCounts>, ServerError> = self.tasks.iter().zip(&scenario.tasks).map(counted).collect();
        let resident: Result<Vec<u64>, ServerError> = self.names.iter().map(|name| status.resident(name)).collect();
        let mut reservations = Vec::new();
        for (reservation, name) in scenario.reservations.iter().zip(&self.reservation_names) {
            let found = status.reservation(name)?;
            reservations.push(ReservationResult {
                name: reservation.name.clone(),
                lists: found.lists,
                taken_back: found.taken_back,
                frames: found.frames,
            });
        }
        let named = scenario.tasks.iter().zip(&self.tasks);
        let pool = |(named, task): (&scenario::Task, &ServedTask)| {
            let name = task.pool.as_ref().map(|_| self.name(&named.name));
            name.map(|name| status.pool(&name)).transpose()
        };
        let pools: Result<Vec<_>, ServerError> = named.map(pool).collect();
        let pools = pools?;
        let restored = pools
            .iter()
            .map(|pool| pool.map_or(0, |(_, restored)| restored))
            .collect();
        Ok(Counts {
            tasks: tasks?,
            pools: pools.into_iter().map(|pool| pool.map(|(lists, _)| lists)).collect(),
            restored,
            reservations,
            resident: resident?,
            memory: status.memory(),
            store: store_since(status.store(), self.before.store()),
            settled,
        })
    }

    fn embedded(&self) -> Option<&Machine> {
        None
    }

    fn begun(&self, origin: MonotonicTime) {
        self.devices.begin(origin);
    }
}

fn status(connection: &Connection) -> Result<Status, ServerError> {
    let text = connection
        .ask(Question::Status, "")
        .map_err(asked("the server's status"))?;
    Status::read(&text)
}

fn asked(what: &str) -> impl Fn(freehold_client::RequestError) -> ServerError + use<> {
    let what = what.to_owned();
    move |reason| ServerError::Request {
        what: what.clone(),
        reason,
    }
}
