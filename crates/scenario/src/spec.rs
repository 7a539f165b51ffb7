//! The scenario as written: plain values under names, every default still open. Build one in a program and validate it
//! with [`Scenario::try_from`](crate::Scenario), or read one from a file; both go through the same rules.

use crate::components::{ComponentSpec, TransientSpec};
use crate::model::{Costs, Faults, Pattern, RegionKind, ReservationKind, Sharing, StoreKind};
use crate::pinning::{AppSpec, Pinning};
use crate::scenario_devices::DeviceSpec;
use crate::wait::StoreWait;
use freehold_core::units::{ByteLen, Duration};

/// A whole scenario.
///
/// ```
/// use freehold_core::units::{ByteLen, Duration};
/// use freehold_scenario::{AccessSpec, Pattern, RegionSpec, ReservationSpec, Scenario, ScenarioSpec, TaskSpec};
///
/// let mut spec = ScenarioSpec::new("demo", Duration::from_millis(100), ByteLen::new(1 << 20));
/// spec.regions.push(RegionSpec::new("shm", ByteLen::new(64 << 10)));
/// spec.reservations.push(ReservationSpec::new("r1", ByteLen::new(128 << 10)));
/// let mut task = TaskSpec::new("tau1");
/// task.reservation = Some("r1".into());
/// task.period = Some(Duration::from_millis(10));
/// task.accesses.push(AccessSpec::new("shm", Pattern::Sequential));
/// spec.tasks.push(task);
/// let scenario = Scenario::try_from(spec)?;
/// assert_eq!(scenario.tasks[0].accesses[0].count, 16);
/// # Ok::<(), freehold_scenario::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioSpec {
    /// One line of text.
    pub name: String,
    /// How long it runs; not zero.
    pub duration: Duration,
    /// Seed of everything random, save the faults where they have their own.
    pub seed: u64,
    /// `[memory]`.
    pub memory: MemorySpec,
    /// `machine.cpus`, 1..=256.
    pub cpus: u32,
    /// `[costs]`.
    pub costs: Costs,
    /// `[faults]`.
    pub faults: Option<Faults>,
    /// `[[region]]`, in file order.
    pub regions: Vec<RegionSpec>,
    /// `[[reservation]]`, in file order.
    pub reservations: Vec<ReservationSpec>,
    /// `[[task]]`, in file order.
    pub tasks: Vec<TaskSpec>,
    /// `[[device]]`, in file order.
    pub devices: Vec<DeviceSpec>,
    /// `[transient]`, only with components.
    pub transient: Option<TransientSpec>,
    /// `[[component]]`, in file order.
    pub components: Vec<ComponentSpec>,
}

/// `[memory]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySpec {
    /// Frames the core manages, in bytes; a multiple of 4 KiB.
    pub pool: ByteLen,
    /// `memory.swap.store`: which store.
    pub store: StoreKind,
    /// `memory.swap.latency`: how long the store takes for one page, see [`StoreKind::default_latency`].
    pub latency: Duration,
    /// `memory.swap.wait`: how a task waits for the store; `None` is [`StoreWait::of`] the latency.
    pub wait: Option<StoreWait>,
    /// `memory.swap.parallel`: requests the store serves at once, 1..=256.
    pub parallel: u32,
    /// `memory.swap.read_ahead`: pages that tasks without a reservation read back together, a power of two, 1..=64.
    pub read_ahead: u32,
    /// `memory.swap.capacity`: room of the store; `None` is unbounded.
    pub capacity: Option<ByteLen>,
    /// `memory.swap.directory`: where the file of a file store is; `None` is `/var/tmp`. Only with
    /// [`StoreKind::File`].
    pub directory: Option<String>,
}

/// `[[region]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionSpec {
    /// Its name, unique among regions.
    pub name: String,
    /// What kind of memory object.
    pub kind: RegionKind,
    /// A multiple of 4 KiB; may be omitted with `copy_of`.
    pub size: Option<ByteLen>,
    /// The default for reservations that map it.
    pub sharing: Sharing,
    /// The file region of which this is a copy-on-write view.
    pub copy_of: Option<String>,
}

/// `[[reservation]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationSpec {
    /// Its name, unique among reservations.
    pub name: String,
    /// A multiple of 4 KiB.
    pub size: ByteLen,
    /// Hard or firm.
    pub kind: ReservationKind,
    /// Overrides per region.
    pub sharing: Vec<(String, Sharing)>,
    /// Ranges to lock against eviction.
    pub locks: Vec<LockSpec>,
}

/// One range of a reservation's `lock` list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSpec {
    /// The region's name.
    pub region: String,
    /// Where it begins; a multiple of 4 KiB.
    pub offset: ByteLen,
    /// How long it is; a multiple of 4 KiB, not zero.
    pub size: ByteLen,
}

/// How a task asks for the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassSpec {
    /// Earliest deadline first within a budget.
    Deadline,
    /// Fixed priority, 1..=99, larger first; `None` is rate-monotonic.
    Fifo(Option<u8>),
    /// No real-time priority.
    BestEffort,
}

/// `[[task]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSpec {
    /// Its name, unique among tasks.
    pub name: String,
    /// The reservation's name.
    pub reservation: Option<String>,
    /// How its pages are protected without a reservation; `None` is [`Pinning::None`] or the reservation.
    pub pinning: Option<Pinning>,
    /// `[task.app]`, only with [`Pinning::App`] and [`Pinning::AppNoBudget`]; `None` is the preset `freehold`.
    pub app: Option<AppSpec>,
    /// `None`: fifo with a period, best effort without.
    pub class: Option<ClassSpec>,
    /// Time between releases.
    pub period: Option<Duration>,
    /// CPU time declared for one job, its waits for the store included.
    pub budget: Option<Duration>,
    /// Relative deadline; `None` is the period.
    pub deadline: Option<Duration>,
    /// When the task arrives.
    pub start: Duration,
    /// When it leaves; `None` is the end of the run.
    pub stop: Option<Duration>,
    /// First release after `start`; below the period.
    pub phase: Duration,
    /// CPUs it may run on; `None` is all.
    pub cpus: Option<Vec<u32>>,
    /// CPU time of one job, spread between its accesses.
    pub compute: Duration,
    /// What one job touches, in order.
    pub accesses: Vec<AccessSpec>,
    /// `[[task.call]]`: components of which a job enters one.
    pub calls: Vec<String>,
}

/// `[[task.access]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessSpec {
    /// The region's name.
    pub region: String,
    /// In which order.
    pub pattern: Pattern,
    /// Bytes per job; `None` is the whole region, window or trace.
    pub amount: Option<ByteLen>,
    /// Whether the accesses write.
    pub write: bool,
}

impl ScenarioSpec {
    /// An empty scenario with seed 1, one CPU, the default costs and a memory store of 500 us and 8 requests at once.
    #[must_use]
    pub fn new(name: impl Into<String>, duration: Duration, pool: ByteLen) -> Self {
        Self {
            name: name.into(),
            duration,
            seed: 1,
            memory: MemorySpec {
                pool,
                store: StoreKind::Memory,
                latency: StoreKind::Memory.default_latency(),
                wait: None,
                parallel: 8,
                read_ahead: 1,
                capacity: None,
                directory: None,
            },
            cpus: 1,
            costs: Costs::default(),
            faults: None,
            regions: Vec::new(),
            reservations: Vec::new(),
            tasks: Vec::new(),
            devices: Vec::new(),
            transient: None,
            components: Vec::new(),
        }
    }
}

impl RegionSpec {
    /// A shared region under SPC.
    #[must_use]
    pub fn new(name: impl Into<String>, size: ByteLen) -> Self {
        let (kind, sharing) = (RegionKind::Shared, Sharing::Spc);
        Self {
            name: name.into(),
            kind,
            size: Some(size),
            sharing,
            copy_of: None,
        }
    }
}

impl ReservationSpec {
    /// A hard reservation without overrides or locks.
    #[must_use]
    pub fn new(name: impl Into<String>, size: ByteLen) -> Self {
        Self {
            name: name.into(),
            size,
            kind: ReservationKind::Hard,
            sharing: Vec::new(),
            locks: Vec::new(),
        }
    }
}

impl TaskSpec {
    /// A task without reservation, period, computation or accesses.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            reservation: None,
            pinning: None,
            app: None,
            class: None,
            period: None,
            budget: None,
            deadline: None,
            start: Duration::ZERO,
            stop: None,
            phase: Duration::ZERO,
            cpus: None,
            compute: Duration::ZERO,
            accesses: Vec::new(),
            calls: Vec::new(),
        }
    }
}

impl AccessSpec {
    /// Reads of the whole region (window, trace) per job.
    #[must_use]
    pub fn new(region: impl Into<String>, pattern: Pattern) -> Self {
        Self {
            region: region.into(),
            pattern,
            amount: None,
            write: false,
        }
    }
}
