//! How the memory server of one run is started, by `freehold serve-run`.

use std::path::PathBuf;
use std::time::Duration;

use freehold_core::ReadAhead;
use freehold_core::units::{FrameCount, PageCount};
use freehold_linux::process::effective_user;
use freehold_live::{Launch, device_name};
use freehold_scenario::recording::Capacity;
use freehold_scenario::{Backing as DeviceBacking, Class, Device, DeviceFile, Scenario, StoreKind, setup};
use freehold_server::serve::Options;
use freehold_server::{Limits, Quotas, RecordingRoom, Settings, StoreMedium};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::exit_status::Failure;
use crate::process::own_executable;

/// The priority of pager threads beside tasks without a fixed priority.
const PRIORITY: u32 = 60;
/// The highest there is.
const HIGHEST: u32 = 99;
/// Faults recorded of all tasks together.
const MOST_FAULTS: usize = 400_000;

/// What the server of a run is to be: one argument of `freehold serve-run`, before the socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunServer {
    /// Frames of the pool.
    pub frames: u32,
    /// Pages of all regions.
    pub pages: u32,
    /// Pages under `none`.
    pub compared_pages: u32,
    /// Locked pages that others pay.
    pub shared_locks: u32,
    /// Priority of the pager threads.
    pub priority: u32,
    /// Pages that tasks without a reservation read back together.
    pub read_ahead: u32,
    /// Where evicted pages go.
    pub store: RunStore,
    /// Devices, in order: pages of each, and whether it is trusted.
    pub devices: Vec<(u32, bool)>,
    /// What is recorded, if anything is.
    pub recording: Option<RunRecording>,
}

/// The store of a run's server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RunStore {
    /// Memory: nanoseconds of a transfer, and transfers at a time.
    Memory(u64, u32),
    /// Compressed memory: bytes that it may take, 0 for as many as it needs.
    Compressed(u64),
    /// A file: its directory, and transfers at a time.
    File(PathBuf, u32),
}

/// How many events the server of a run records.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RunRecording {
    /// Faults.
    pub faults: usize,
    /// Evictions, transfers and holds of the engine, each.
    pub others: usize,
    /// Samples.
    pub samples: usize,
    /// Nanoseconds between two samples.
    pub step: u64,
}

impl RunServer {
    /// With tables for the scenario.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let (limits, store) = (setup::limits(scenario), &scenario.store);
        Self {
            frames: limits.frames.get(),
            pages: limits.pages.get(),
            compared_pages: limits.compared_pages.get(),
            shared_locks: limits.shared_locks.get(),
            priority: priority(scenario),
            read_ahead: store.read_ahead.pages(),
            store: match store.kind {
                StoreKind::Memory => RunStore::Memory(store.latency.get(), store.parallel),
                StoreKind::Compressed => RunStore::Compressed(store.capacity.map_or(0, |pages| pages.to_bytes().get())),
                StoreKind::File => RunStore::File(store.directory.clone(), store.parallel),
            },
            devices: (scenario.devices.iter())
                .map(|device| (device.size.get(), device.trusted))
                .collect(),
            recording: None,
        }
    }

    /// With so many frames and pages, and a store in memory without latency.
    #[must_use]
    pub fn plain(frames: u32, pages: u32) -> Self {
        Self {
            frames,
            pages,
            compared_pages: 0,
            shared_locks: 0,
            priority: PRIORITY,
            read_ahead: 1,
            store: RunStore::Memory(0, 1),
            devices: Vec::new(),
            recording: None,
        }
    }

    /// The same, which records the run of a scenario.
    #[must_use]
    pub fn recorded(self, scenario: &Scenario, capacity: &Capacity) -> Self {
        let faults = capacity.per_task_faults.saturating_mul(scenario.tasks.len());
        let recording = RunRecording {
            faults: faults.min(MOST_FAULTS),
            others: capacity.evictions.max(capacity.transfers).max(capacity.lock_holds),
            samples: capacity.samples,
            step: capacity.sample_step_ns(scenario.duration.get()),
        };
        Self {
            recording: Some(recording),
            ..self
        }
    }

    /// The options of `freehold serve` that these are, at a socket, for this user alone.
    ///
    /// # Errors
    /// What no server can be.
    pub fn options(&self, socket: PathBuf) -> Result<Options, Failure> {
        let settings = settings(self)?;
        let limits = Limits {
            user_pages: u64::from(settings.pages.get()),
            ..Limits::default()
        };
        Ok(Options {
            settings,
            quotas: Quotas::new(effective_user(), FrameCount::ZERO),
            limits,
            socket,
            mode: 0o600,
            devices: devices(&self.devices),
            metrics: None,
        })
    }

    /// The same for a run in lockstep, which asks as often as it likes.
    ///
    /// # Errors
    /// As [`options`](Self::options).
    pub fn driven(&self) -> Result<Options, Failure> {
        let mut options = self.options(PathBuf::new())?;
        options.limits.requests_per_second = u32::MAX;
        options.limits.requests_at_once = u32::MAX;
        Ok(options)
    }

    /// How it is started by this program.
    ///
    /// # Errors
    /// This program's own file is not known.
    pub fn launch(&self) -> Result<Launch, Failure> {
        own_executable().map(|program| self.launch_by(program))
    }

    /// How it is started by `freehold`.
    #[must_use]
    pub fn launch_by(&self, freehold: PathBuf) -> Launch {
        Launch {
            program: freehold,
            arguments: vec!["serve-run".into(), json!(self).to_string().into()],
        }
    }
}

/// Above every fixed priority of the run, as far as there is room: a fault is not to wait behind a task.
fn priority(scenario: &Scenario) -> u32 {
    let fixed = scenario.tasks.iter().filter_map(|task| match task.class {
        Class::Fifo { priority } => Some(u32::from(priority)),
        Class::Deadline | Class::BestEffort => None,
    });
    fixed.max().map_or(PRIORITY, |most| (most + 1).clamp(PRIORITY, HIGHEST))
}

fn devices(sizes: &[(u32, bool)]) -> Option<DeviceFile> {
    let device = |(position, &(size, trusted)): (usize, &(u32, bool))| Device {
        name: device_name(position),
        size: FrameCount::new(size),
        trusted,
        users: Vec::new(),
    };
    let devices: Vec<Device> = sizes.iter().enumerate().map(device).collect();
    (!devices.is_empty()).then_some(DeviceFile {
        // Huge pages would round what is opened.
        backing: DeviceBacking::Small,
        devices,
    })
}

fn at_a_time(parallel: u32) -> Result<u16, Failure> {
    u16::try_from(parallel).map_err(|_| Failure::Input(format!("{parallel} transfers at a time are too many")))
}

fn recording(recording: &RunRecording) -> RecordingRoom {
    RecordingRoom {
        faults: recording.faults,
        evictions: recording.others,
        transfers: recording.others,
        holds: recording.others,
        samples: recording.samples,
        sample_step: Duration::from_nanos(recording.step),
    }
}

fn settings(server: &RunServer) -> Result<Settings, Failure> {
    let mut settings = Settings::new(FrameCount::new(server.frames));
    // A scenario says itself what its tasks have.
    settings.least_unreserved = FrameCount::ZERO;
    settings.pages = PageCount::new(server.pages.max(1));
    settings.tables.compared_pages = PageCount::new(server.compared_pages);
    settings.tables.shared_locks = PageCount::new(server.shared_locks);
    settings.priority = server.priority;
    settings.recording = server.recording.as_ref().map(recording);
    settings.read_ahead = ReadAhead::of(server.read_ahead)
        .ok_or_else(|| Failure::Input(format!("{} pages are not read ahead", server.read_ahead)))?;
    settings.store = match &server.store {
        RunStore::Memory(latency, parallel) => StoreMedium::Memory {
            latency: Duration::from_nanos(*latency),
            parallel: at_a_time(*parallel)?,
        },
        RunStore::Compressed(bytes) => StoreMedium::Compressed { bytes: *bytes },
        RunStore::File(directory, parallel) => StoreMedium::File {
            directory: directory.clone(),
            parallel: at_a_time(*parallel)?,
        },
    };
    Ok(settings)
}
