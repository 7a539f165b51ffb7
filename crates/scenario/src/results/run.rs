//! The document of `run`.

use super::devices::{DeviceResult, VictimCacheResult};
use super::late::{Delays, LateJob, LateJobs};
use super::response::Response;
use super::transient::TransientResult;
use crate::model::{Scenario, Sharing};
use crate::pinning::Pinning;
use freehold_core::units::FrameCount;
use freehold_core::view::{PoolView, ReservationView};
use freehold_report::advice::RegionAdvice;
use freehold_report::reservation::{ReservationCounts, ReservationFrames, ReservationLists};
use serde::{Deserialize, Serialize};

/// Which engine ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Virtual time.
    Sim,
    /// Real pages, threads and deadlines.
    Live,
}

/// Where the live engine's core ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// In the application's process.
    Embedded,
    /// In a process of its own.
    Server,
    /// Linux moved the pages.
    Kernel,
}

/// What was run, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHead {
    /// The scenario's name.
    pub scenario: String,
    /// Which engine ran it.
    pub engine: Engine,
    /// Where the core ran; null in the simulator.
    pub placement: Option<Placement>,
    /// The seed used.
    pub seed: u64,
    /// How long it ran.
    pub duration_ns: u64,
}

impl RunHead {
    /// Of a scenario that ran for as long as it says.
    #[must_use]
    pub fn of(scenario: &Scenario, engine: Engine, placement: Option<Placement>) -> Self {
        Self {
            scenario: scenario.name.clone(),
            engine,
            placement,
            seed: scenario.seed,
            duration_ns: scenario.duration.get(),
        }
    }
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// What was run, and how.
    #[serde(flatten)]
    pub head: RunHead,
    /// In the scenario's order.
    pub tasks: Vec<TaskResult>,
    /// In the scenario's order.
    pub reservations: Vec<ReservationResult>,
    /// In the scenario's order.
    pub regions: Vec<RegionResult>,
    /// The pool.
    pub memory: MemoryResult,
    /// The store.
    pub store: StoreResult,
    /// What was cached in device memory; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_cache: Option<VictimCacheResult>,
    /// In the scenario's order; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceResult>,
    /// Components and their units; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transient: Option<TransientResult>,
    /// The laws.
    pub laws: Laws,
    /// The core's lock; live only.
    pub lock: Option<LockResult>,
    /// What to know about this run.
    pub warnings: Vec<String>,
}

/// Faults of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFaults {
    /// Faults on resident pages.
    pub soft_faults: u64,
    /// Faults on pages never written.
    pub zero_fills: u64,
    /// Pages read back from a store.
    pub swap_ins: u64,
    /// Of these, pages the task still held when another's eviction took them.
    pub shared_swap_ins: u64,
    /// Pages read back beside one that it faulted on.
    pub read_ahead: u64,
    /// Own pages taken from its lists.
    pub evictions: u64,
}

/// Where one task's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTimes {
    /// CPU time used.
    pub cpu_ns: u64,
    /// Time waiting for the store.
    pub store_wait_ns: u64,
    /// Time servicing faults.
    pub fault_service_ns: u64,
}

/// Time that one task waited for something else than memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherWaits {
    /// Time ready while another task ran.
    pub cpu_wait_ns: u64,
    /// Time waiting for the core's lock.
    pub lock_wait_ns: u64,
    /// Time waiting for units of components; absent where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unit_wait_ns: u64,
}

/// The pinned page pool of one task, and its swap budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PinnedResult {
    /// Budget the kernel granted for swapping.
    pub swap_budget_ns: u64,
    /// Pages pinned.
    pub pinned_pages: u64,
    /// How its pages are protected without a reservation.
    #[serde(default)]
    pub pinning: Pinning,
    /// Pages pinned, on average over its jobs.
    #[serde(default)]
    pub pinned_pages_mean: f64,
    /// Capacity of its pinned page pool; null without one that adapts.
    #[serde(default)]
    pub capacity_pages: Option<u64>,
    /// Pages brought back before a release.
    #[serde(default)]
    pub restored: u64,
    /// The most pages read back from a store for one job; counted only with a pinned page pool.
    #[serde(default)]
    pub job_swap_ins_max: u64,
}

/// Late jobs of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LateResult {
    /// The first late jobs.
    pub late_jobs: Vec<LateJob>,
    /// How many late jobs there were.
    pub late_jobs_total: u64,
    /// The latest of them all; null without.
    pub worst_late_job: Option<LateJob>,
    /// Delays of all late jobs together.
    pub late_delays_ns: Delays,
    /// Response times of all late jobs together.
    pub late_response_ns: u64,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Its name.
    pub name: String,
    /// Jobs finished, and those unfinished that are past their deadline.
    pub jobs: u64,
    /// Jobs that finished late, or are unfinished past their deadline.
    pub misses: u64,
    /// The largest tardiness.
    pub max_tardiness_ns: u64,
    /// Response times.
    pub response_ns: Response,
    /// Its faults.
    #[serde(flatten)]
    pub faults: TaskFaults,
    /// Where its time went.
    #[serde(flatten)]
    pub times: TaskTimes,
    /// Its pinned page pool, and its swap budget.
    #[serde(flatten)]
    pub pinned: PinnedResult,
    /// Accesses that ended with an error: the page could not be read, or no frame could be had for it. Counted to the
    /// end of the run.
    pub failed_accesses: u64,
    /// `deadline`, `fifo` or `best-effort`.
    pub class: String,
    /// Time between releases; null without.
    pub period_ns: Option<u64>,
    /// Relative deadline; null without.
    pub deadline_ns: Option<u64>,
    /// Faults that only gained write permission.
    pub write_faults: u64,
    /// What else it waited for.
    #[serde(flatten)]
    pub waits: OtherWaits,
    /// Its late jobs.
    #[serde(flatten)]
    pub late: LateResult,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl TaskResult {
    /// A task's result with everything that the scenario already says, all counts zero. An index past the
    /// scenario's tasks gives an empty result.
    #[must_use]
    pub fn of(scenario: &Scenario, task: usize) -> Self {
        let Some(task) = scenario.tasks.get(task) else {
            return Self::default();
        };
        let nanoseconds = |time: Option<freehold_core::units::Duration>| time.map(|time| time.get());
        Self {
            name: task.name.clone(),
            class: task.class.name().to_owned(),
            pinned: PinnedResult {
                pinning: task.pinning,
                ..PinnedResult::default()
            },
            period_ns: nanoseconds(task.period),
            deadline_ns: nanoseconds(task.deadline),
            ..Self::default()
        }
    }

    /// Puts in what was collected of late jobs.
    pub fn set_late_jobs(&mut self, late: LateJobs) {
        self.late = LateResult {
            late_jobs: late.first,
            late_jobs_total: late.total,
            worst_late_job: late.worst,
            late_delays_ns: late.delays,
            late_response_ns: late.response_ns,
        };
    }
}

/// One reservation, in frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationResult {
    /// Its name.
    pub name: String,
    /// What its tasks can use.
    #[serde(flatten)]
    pub lists: ReservationLists,
    /// Pages ever evicted because the frames under them were taken back, if firm.
    #[serde(default)]
    pub taken_back: u64,
    /// What it holds frames for.
    #[serde(flatten)]
    pub frames: ReservationFrames,
}

impl ReservationResult {
    /// The row of the reservation of this name.
    #[must_use]
    pub fn new(name: &str, view: &ReservationView) -> Self {
        Self {
            name: name.to_owned(),
            lists: ReservationLists::from(view),
            taken_back: view.taken_back,
            frames: ReservationFrames::from(view),
        }
    }

    /// Its numbers.
    #[must_use]
    pub const fn counts(&self) -> ReservationCounts {
        ReservationCounts {
            lists: self.lists,
            frames: self.frames,
        }
    }
}

/// One region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionResult {
    /// Its name.
    pub name: String,
    /// Pages resident.
    pub resident: u64,
    /// For each reservation: distinct pages touched.
    pub max_use: Vec<u64>,
    /// For each reservation: mean pages referenced per period.
    pub avg_use: Vec<f64>,
    /// The region's setting; where that is `auto`, what was decided.
    pub sharing: Sharing,
    /// The region's setting as written.
    pub asked: Sharing,
    /// For each reservation: what is in force for it; null where it does not map the region.
    pub in_force: Vec<Option<Sharing>>,
    /// Where `auto` was asked: what was decided, why, and what both choices cost.
    pub advice: Option<RegionAdvice>,
}

impl RegionResult {
    /// A region's result with everything that the scenario says, all counts zero and all uses empty. An index past the
    /// scenario's regions gives a nameless one.
    #[must_use]
    pub fn of(scenario: &Scenario, region: usize) -> Self {
        let found = scenario.regions.get(region);
        let sharing = found.map_or(Sharing::Spc, |region| region.sharing);
        let uses = scenario.reservations.iter().map(|reservation| {
            let used = reservation.regions.get(region).filter(|used| used.mapped);
            used.map(|used| used.sharing)
        });
        Self {
            name: found.map_or_else(String::new, |region| region.name.clone()),
            resident: 0,
            max_use: Vec::new(),
            avg_use: Vec::new(),
            sharing,
            asked: sharing,
            in_force: uses.collect(),
            advice: None,
        }
    }
}

/// The pool, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryResult {
    /// Frames the core manages.
    pub pool: u64,
    /// Held by reservations, and pages of tasks without one.
    pub used: u64,
    /// The most used at any time.
    pub peak: u64,
    /// Of these, set aside for devices.
    #[serde(default)]
    pub outside: u64,
    /// What the kernel says is resident; never the core's own books.
    pub resident_measured: u64,
}

impl MemoryResult {
    /// The pool's row, with what the kernel says is resident.
    #[must_use]
    pub fn new(pool: &PoolView, resident_measured: u64) -> Self {
        let frames = |count: FrameCount| u64::from(count.get());
        Self {
            pool: frames(pool.total),
            used: frames(pool.memory_used),
            peak: frames(pool.memory_peak),
            outside: frames(pool.outside),
            resident_measured,
        }
    }
}

/// The store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreResult {
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// `memory`, `file` or `compressed`.
    pub kind: String,
    /// What moved the bytes: `inline`, `io_uring` or `threads`; null in the simulator.
    pub backend: Option<String>,
    /// Whether a file is read and written past the page cache.
    pub direct: bool,
    /// Frames of memory that the store itself holds, outside the pool.
    pub own_frames: u64,
    /// Reads that failed.
    pub failed_reads: u64,
    /// Writes that failed; their pages were kept.
    pub failed_writes: u64,
    /// Attempts repeated because less than a page was transferred.
    pub retried: u64,
    /// Bytes that the pages in a compressed store take up.
    pub stored_bytes: u64,
}

/// How the laws held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Laws {
    /// How often they were checked.
    pub checked: u64,
    /// What was found.
    pub violations: Vec<Violation>,
}

/// A law broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The law's number.
    pub law: u8,
    /// When, since the start of the run.
    pub at_ns: u64,
    /// What was found.
    pub what: String,
}

/// The core's lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockResult {
    /// How often it was taken.
    pub holds: u64,
    /// The longest it was held.
    pub longest_hold_ns: u64,
    /// The longest anyone waited for it.
    pub longest_wait_ns: u64,
}
