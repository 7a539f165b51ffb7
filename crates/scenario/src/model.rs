//! The scenario as the engines use it: indices for names, defaults filled in, every rule checked.

use crate::components::Transient;
use crate::error::Warning;
use crate::pinning::{AppSettings, Pinning};
use crate::scenario_devices::ScenarioDevice;
use crate::spec::ScenarioSpec;
use crate::wait::StoreWait;
use freehold_core::ReadAhead;
use freehold_core::units::{Duration, FrameCount, Instant, PageCount, PageIndex};
pub use freehold_report::sharing::Sharing;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u16);

        impl $name {
            /// Wraps a position.
            #[must_use]
            pub const fn new(position: u16) -> Self {
                Self(position)
            }

            /// The position in the scenario's vector.
            #[must_use]
            pub const fn get(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index! {
    /// The position of a region in [`Scenario::regions`].
    RegionIndex
}
index! {
    /// The position of a reservation in [`Scenario::reservations`].
    ReservationIndex
}
index! {
    /// The position of a task in [`Scenario::tasks`].
    TaskIndex
}

/// A scenario that passed every check. Made only by validation (`load`, `parse`, `try_from`), so what the fields'
/// documentation promises holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// One line of text.
    pub name: String,
    /// How long it runs; not zero.
    pub duration: Duration,
    /// Seed of everything random.
    pub seed: u64,
    /// Frames the core manages; not zero.
    pub pool: FrameCount,
    /// Where evicted pages go.
    pub store: StoreConfig,
    /// CPUs of the machine, 1..=256.
    pub cpus: u32,
    /// The simulator's costs, none zero.
    pub costs: Costs,
    /// Faults for the simulator to inject.
    pub faults: Option<Faults>,
    /// In file order.
    pub regions: Vec<Region>,
    /// In file order.
    pub reservations: Vec<Reservation>,
    /// In file order.
    pub tasks: Vec<Task>,
    /// In file order.
    pub devices: Vec<ScenarioDevice>,
    /// Components and their memory; then there are no regions, reservations and devices.
    pub transient: Option<Transient>,
    /// What the author should know.
    pub warnings: Vec<Warning>,
    pub(crate) spec: ScenarioSpec,
}

/// What kind of store evicted pages go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// Memory with a latency: an emulated device.
    #[default]
    Memory,
    /// A file.
    File,
    /// Compressed memory.
    Compressed,
}

impl StoreKind {
    /// Time for one page where the scenario states none. For [`Memory`](Self::Memory) the store keeps to it in every
    /// engine; of the others, which take as long as they take, it is the simulator's model.
    #[must_use]
    pub const fn default_latency(self) -> Duration {
        match self {
            Self::Memory => Duration::from_micros(500),
            Self::File => Duration::from_micros(60),
            Self::Compressed => Duration::from_micros(10),
        }
    }

    /// The word of the scenario file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::Compressed => "compressed",
        }
    }
}

/// The store of `memory.swap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Which store.
    pub kind: StoreKind,
    /// Time for one page: what `memory` keeps to, and the simulator's model of the others.
    pub latency: Duration,
    /// How a task waits for it.
    pub wait: StoreWait,
    /// Requests served at once, 1..=256; of `file`, requests under way at the device.
    pub parallel: u32,
    /// Pages that tasks without a reservation read back together.
    pub read_ahead: ReadAhead,
    /// Pages it can hold; `None` is unbounded.
    pub capacity: Option<PageCount>,
    /// Where the file of `file` is made: not empty, not looked for yet. Without meaning for the others.
    pub directory: PathBuf,
}

/// The simulator's costs; none zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// CPU time of one access to a mapped page.
    pub access: Duration,
    /// Servicing a fault on a resident page.
    pub soft_fault: Duration,
    /// Servicing a fault on a page never written.
    pub zero_fill: Duration,
    /// Servicing a fault on a page in the store, beside the store's latency.
    pub swap_in: Duration,
    /// Taking one page away.
    pub eviction: Duration,
}

impl Default for Costs {
    /// Measured costs of Linux (100 ns, 3400 ns, 4700 ns, 4700 ns, 1300 ns).
    fn default() -> Self {
        Self {
            access: Duration::new(100),
            soft_fault: Duration::new(3_400),
            zero_fill: Duration::new(4_700),
            swap_in: Duration::new(4_700),
            eviction: Duration::new(1_300),
        }
    }
}

/// Faults of the store, for the simulator only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Seed of the faults; `None` is the scenario's.
    pub seed: Option<u64>,
    /// Probability that a request is late, 0..=1.
    pub late: f64,
    /// By how much; not zero where `late` is not.
    pub late_by: Duration,
    /// Probability that a request fails, 0..=1.
    pub fail: f64,
    /// Whether completions may overtake each other.
    pub reorder: bool,
}

/// What kind of memory object a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegionKind {
    /// Shared anonymous memory.
    Shared,
    /// Memory of one application.
    Private,
    /// A file's pages.
    File,
}

/// How firmly a reservation is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReservationKind {
    /// Never more than its frames.
    Hard,
    /// May borrow unreserved frames.
    Firm,
}

/// A memory object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Unique among regions.
    pub name: String,
    /// What kind of object.
    pub kind: RegionKind,
    /// Not zero.
    pub pages: PageCount,
    /// The default of reservations that map it, as written.
    pub sharing: Sharing,
    /// The file region this is a copy-on-write view of; as large as this one.
    pub copy_of: Option<RegionIndex>,
}

/// A memory reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Unique among reservations.
    pub name: String,
    /// Its frames: at least 2, at least 2 for each bound task, at most the pool.
    pub capacity: FrameCount,
    /// Hard or firm.
    pub kind: ReservationKind,
    /// One entry for each region, at its index.
    pub regions: Vec<RegionUse>,
}

impl Reservation {
    /// How this reservation uses a region; `None` for an index of another scenario.
    #[must_use]
    pub fn region(&self, region: RegionIndex) -> Option<&RegionUse> {
        self.regions.get(region.get())
    }

    /// Pages locked in all regions together.
    #[must_use]
    pub fn locked(&self) -> PageCount {
        let pages = self
            .regions
            .iter()
            .flat_map(|used| &used.locks)
            .map(|range| range.pages);
        pages.fold(PageCount::ZERO, PageCount::saturating_add)
    }
}

/// How one reservation uses one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionUse {
    /// Whether a task of the reservation touches the region, or the reservation locks pages of it.
    pub mapped: bool,
    /// What is in force: `Spel` exactly where `locks` has ranges or the setting covers an unmapped region; `Auto` where
    /// that is not decided yet.
    pub sharing: Sharing,
    /// Ranges to lock: ascending, disjoint, not empty, inside the region. The whole region under `spel` without a
    /// `lock` list; empty where the region is not mapped.
    pub locks: Vec<PageRange>,
}

/// Pages `first .. first + pages` of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageRange {
    /// The first page.
    pub first: PageIndex,
    /// How many; not zero.
    pub pages: PageCount,
}

/// How a task is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Earliest deadline first; period, deadline and budget are present.
    Deadline,
    /// Fixed priority; the period is present.
    Fifo {
        /// 1..=99, larger first.
        priority: u8,
    },
    /// No real-time priority.
    BestEffort,
}

impl Class {
    /// The word of the scenario file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Fifo { .. } => "fifo",
            Self::BestEffort => "best-effort",
        }
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Unique among tasks.
    pub name: String,
    /// `None`: the global lists, and what `pinning` says.
    pub reservation: Option<ReservationIndex>,
    /// Without a reservation: how its pages are protected. Other than `None` there are a period and a budget, and the
    /// class is not best effort.
    pub pinning: Pinning,
    /// Present exactly where `pinning` adapts.
    pub app: Option<AppSettings>,
    /// How it is scheduled.
    pub class: Class,
    /// Time between releases, not zero; `None` repeats the job without pause.
    pub period: Option<Duration>,
    /// CPU time declared for one job; at most the deadline.
    pub budget: Option<Duration>,
    /// Relative deadline, at most the period; present exactly with the period.
    pub deadline: Option<Duration>,
    /// When the task arrives; before `stop`.
    pub start: Instant,
    /// When it leaves: no release at or after this; at most the run's duration.
    pub stop: Instant,
    /// First release after `start`; below the period.
    pub phase: Duration,
    /// CPUs it may run on: ascending, distinct, never empty.
    pub cpus: Vec<u32>,
    /// CPU time of one job.
    pub compute: Duration,
    /// What one job touches, in order.
    pub accesses: Vec<AccessStep>,
}

impl Task {
    /// Whether it has neither period, computation nor accesses. Engines must not run it: its jobs take no time, so it
    /// would repeat them for ever at one instant.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.period.is_none() && self.compute.is_zero() && self.accesses.is_empty()
    }

    /// The first release.
    #[must_use]
    pub fn first_release(&self) -> Instant {
        self.start.saturating_add(self.phase)
    }

    /// Accesses of one job, all steps together.
    #[must_use]
    pub fn accesses_per_job(&self) -> u64 {
        self.accesses.iter().fold(0, |sum, step| sum.saturating_add(step.count))
    }
}

/// One `[[task.access]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessStep {
    /// Which region.
    pub region: RegionIndex,
    /// In which order.
    pub pattern: Pattern,
    /// Accesses of one job, not zero.
    pub count: u64,
    /// Whether they write; a trace says it line by line instead.
    pub write: bool,
}

impl AccessStep {
    /// Whether any of them writes. O(entries of a trace).
    #[must_use]
    pub fn writes(&self) -> bool {
        let traced = |entries: &[TraceEntry]| entries.iter().any(|entry| entry.write);
        self.write || matches!(&self.pattern, Pattern::Trace { entries, .. } if traced(entries))
    }
}

/// In which order a job touches pages.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Ascending, from where the last job stopped; wraps.
    Sequential,
    /// Uniform, with repetition.
    Random,
    /// Page `i` with probability proportional to (i + 1) to the power of −exponent.
    Zipf {
        /// Above 0, at most 10.
        exponent: f64,
    },
    /// Each job ascends within a window that moves by `shift` after every so many jobs; everything wraps.
    Window {
        /// Size of the window in bytes: a multiple of 4 KiB, not zero, at most the region.
        size: freehold_core::units::ByteLen,
        /// How far it moves at a time, in bytes: a multiple of 4 KiB, at most the region.
        shift: freehold_core::units::ByteLen,
        /// After how many jobs it moves; at least 1.
        every: u32,
    },
    /// Pages listed in a file, from where the last job stopped; wraps.
    Trace {
        /// The file as written, relative to the scenario file.
        file: String,
        /// What it lists; not empty.
        entries: Arc<[TraceEntry]>,
    },
}

/// One line of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// The page touched.
    pub page: PageIndex,
    /// Whether it is written.
    pub write: bool,
    /// The line in the file, from 1.
    pub line: u32,
}

impl Scenario {
    /// The scenario as written, before defaults.
    #[must_use]
    pub fn spec(&self) -> &ScenarioSpec {
        &self.spec
    }

    /// The region with this name.
    #[must_use]
    pub fn region_index(&self, name: &str) -> Option<RegionIndex> {
        let position = self.regions.iter().position(|region| region.name == name)?;
        u16::try_from(position).ok().map(RegionIndex::new)
    }

    /// The task with this name.
    #[must_use]
    pub fn task_index(&self, name: &str) -> Option<TaskIndex> {
        let position = self.tasks.iter().position(|task| task.name == name)?;
        u16::try_from(position).ok().map(TaskIndex::new)
    }

    /// Least common multiple of the periods; `None` without periodic tasks or past the run's duration.
    #[must_use]
    pub fn hyperperiod(&self) -> Option<Duration> {
        let periods = self.tasks.iter().filter_map(|task| task.period);
        periods
            .map(Duration::get)
            .try_fold(None, |lcm: Option<u64>, period| {
                let next = crate::admission::lcm(u128::from(lcm.unwrap_or(1)), u128::from(period))?;
                let next = u64::try_from(next).ok()?;
                (next <= self.duration.get()).then_some(Some(next))
            })?
            .map(Duration::new)
    }

    /// When counts are read: the end of the last full hyperperiod, else of the run.
    #[must_use]
    pub fn counts_at(&self) -> Instant {
        let duration = self.duration.get();
        Instant::new(
            self.hyperperiod()
                .map_or(duration, |hyperperiod| duration - duration % hyperperiod.get()),
        )
    }
}
