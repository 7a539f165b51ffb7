//! How the memory server of one run is started, by `freehold serve-run`.

use std::path::PathBuf;

use freehold_live::Launch;
use freehold_scenario::recording::Capacity;
use freehold_scenario::{Class, Scenario, StoreKind, plan};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::process::own_executable;
use crate::status::Failure;

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
    /// The run sets its pace.
    pub paced: bool,
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
        let (limits, store) = (plan::limits(scenario), &scenario.store);
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
            paced: false,
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
            paced: false,
            recording: None,
        }
    }

    /// The same, whose pace the run sets.
    #[must_use]
    pub fn paced(self) -> Self {
        Self { paced: true, ..self }
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
