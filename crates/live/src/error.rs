//! Why a scenario cannot run live.

use freehold_component::RunError;
use freehold_core::error::{CreateError, PinningError};
use freehold_linux::Errno;
use freehold_pager::store::SetupError;
use freehold_pager::{
    CreateObjectError, EnterError, LockPagesError, MapObjectError, MeasureError, ReserveError, StartError,
};
use freehold_rt::budget::TickError;
use freehold_rt::class::ClassError;
use freehold_sim::SimError;

use crate::placement::server::ServerError;
use freehold_linux::available::MemoryLimit;

/// Why a scenario cannot run live, or had to be given up. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The pager cannot be started; `freehold doctor` says what is missing.
    #[error("the pager cannot start: {0}; `freehold doctor` says what this machine lacks")]
    Start(#[from] StartError),
    /// Something that only the simulator runs.
    #[error("region {0}: copy-on-write views run in the simulator only: use --engine sim")]
    CopyOnWrite(String),
    /// Pages brought back before a release, which a server does in its own time.
    #[error(
        "task {0}: pages cannot be restored in lockstep with a server: state app.preset \"paper\" without `restore`, \
         or use placement embedded"
    )]
    Restore(String),
    /// A pinned page pool is refused.
    #[error("task {task}: no pinned page pool: {reason}")]
    Pool {
        /// The task's name.
        task: String,
        /// Why.
        reason: PinningError,
    },
    /// A swap budget that the kernel could not enforce.
    #[error("task {task}: {reason}; give it a larger budget, pinning \"app-no-budget\", or use --engine sim")]
    Budget {
        /// The task's name.
        task: String,
        /// Why.
        reason: TickError,
    },
    /// A way of waiting for the store that this engine does not have.
    #[error(
        "memory.swap.wait = \"{0}\": at this latency the live engine does not wait so: remove it, or use --engine sim"
    )]
    Wait(&'static str),
    /// No file for the store where the scenario wants it.
    #[error("memory.swap.directory = \"{directory}\": {reason}")]
    Store {
        /// The directory.
        directory: String,
        /// Why.
        reason: SetupError,
    },
    /// More CPUs than there are.
    #[error("the scenario wants {wanted} CPUs, but this process may use {usable}: set machine.cpus to at most that")]
    Cpus {
        /// CPUs of the scenario.
        wanted: u32,
        /// CPUs of this process.
        usable: usize,
    },
    /// A pool larger than the memory that is available.
    #[error("memory.pool is {pool} MiB, but only {available} MiB are available {limit}: make the pool smaller")]
    Memory {
        /// The pool, in MiB.
        pool: u64,
        /// What the kernel says is available, in MiB.
        available: u64,
        /// What limits it.
        limit: MemoryLimit,
    },
    /// The CPUs of this process cannot be asked for.
    #[error("the CPUs of this process are not known: {0}")]
    UnknownCpus(freehold_linux::sched::AffinityError),
    /// A reservation is refused.
    #[error("reservation {name}: {reason}")]
    Reservation {
        /// Its name.
        name: String,
        /// Why.
        reason: ReserveError,
    },
    /// A region cannot be made.
    #[error("region {name}: {reason}")]
    Region {
        /// Its name.
        name: String,
        /// Why.
        reason: CreateObjectError,
    },
    /// A task cannot be made.
    #[error("task {name}: {reason}")]
    Task {
        /// Its name.
        name: String,
        /// Why.
        reason: CreateError,
    },
    /// A task cannot map a region.
    #[error("task {name}: {reason}")]
    Map {
        /// Its name.
        name: String,
        /// Why.
        reason: MapObjectError,
    },
    /// Pages cannot be locked.
    #[error("reservation {name}, region {region}: not locked: {reason}")]
    Lock {
        /// The reservation's name.
        name: String,
        /// The region's name.
        region: String,
        /// Why.
        reason: LockPagesError,
    },
    /// A thread cannot become a task.
    #[error("task {name}: {reason}")]
    Enter {
        /// Its name.
        name: String,
        /// Why.
        reason: EnterError,
    },
    /// A thread cannot get its class or its CPUs.
    #[error("task {name}: {reason}; `freehold doctor` says which right is missing")]
    Class {
        /// Its name.
        name: String,
        /// Why.
        reason: ClassError,
    },
    /// A thread cannot be started.
    #[error("task {name}: no thread for it: {reason}")]
    Thread {
        /// Its name.
        name: String,
        /// Why.
        reason: std::io::Error,
    },
    /// A thread ended in a panic.
    #[error("task {0}: its thread panicked: a bug in Freehold")]
    Panicked(String),
    /// What the kernel has cannot be measured.
    #[error("resident pages cannot be measured: {0}")]
    Measure(#[from] MeasureError),
    /// The kernel has no frames for the reserve.
    #[error("the reserve cannot be kept: the kernel has no frames: {0}")]
    Reserve(#[from] Errno),
    /// The kernel has no memory for the program itself.
    #[error("the program and its stacks cannot be kept in memory: {0}")]
    Program(Errno),
    /// The simulator, whose order lockstep follows, refuses the scenario.
    #[error("the simulator, whose order lockstep follows: {0}")]
    Simulator(#[from] SimError),
    /// What `auto` asks for cannot be decided, or no profile be taken.
    #[error("sharing \"auto\": {0}")]
    Decision(SimError),
    /// The memory server, or the way to it.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Devices, which a server that is there already has not.
    #[error("[[device]] live takes a server of the run's own: leave --socket out, or take --engine sim")]
    Devices,
    /// Device memory cannot be had.
    #[error("device memory: {0}")]
    DeviceMemory(String),
    /// A device that is opened in part, in lockstep.
    #[error(
        "device {0} is opened in a part that is no multiple of what all devices' sizes are multiples of: on real pages \
         that is rounded up, which the simulator does not follow"
    )]
    Parts(String),
    /// Components, of which a server knows nothing.
    #[error(
        "[[component]] of a scenario runs live without a server only: take --placement embedded; \
         `freehold component run` runs components that are programs"
    )]
    Components,
    /// The units of components.
    #[error(transparent)]
    Units(#[from] RunError),
    /// Failures of a store, in lockstep with a server.
    #[error(
        "[faults] cannot be followed by a server, whose store fails only if it really does: take --placement embedded"
    )]
    Faults,
    /// A store that gets full, in lockstep with a server.
    #[error(
        "memory.swap.capacity: writes find the store full in the simulator, and not where a server compresses them: \
         give it room for all pages, or take --placement embedded"
    )]
    FullStore,
    /// Live and simulator went different ways.
    #[error("lockstep lost at step {step}: {what}")]
    Diverged {
        /// The step of the schedule.
        step: usize,
        /// What happened instead.
        what: String,
    },
}

impl LiveError {
    /// Whether the scenario asks for what cannot be; else the machine lacks something, or the run was given up.
    #[must_use]
    pub fn is_of_the_scenario(&self) -> bool {
        match self {
            Self::Restore(_) | Self::Wait(_) | Self::Faults | Self::Devices | Self::FullStore => true,
            Self::Parts(_) | Self::Components | Self::Units(RunError::Policy(_)) => true,
            Self::Pool { .. } | Self::Budget { .. } => true,
            Self::CopyOnWrite(_) | Self::Cpus { .. } | Self::Memory { .. } | Self::Decision(_) => true,
            Self::Task { .. } | Self::Lock { .. } => true,
            Self::Reservation { reason, .. } => matches!(reason, ReserveError::Refused(_)),
            Self::Region { reason, .. } => matches!(reason, CreateObjectError::Refused(_)),
            Self::Store { reason, .. } => !runs_short(reason),
            Self::Server(error) => error.is_of_the_scenario(),
            _ => false,
        }
    }
}

/// Whether it is this process or the system that has no more files or memory, whatever the directory.
fn runs_short(reason: &SetupError) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::FBIG];
    matches!(reason, SetupError::Directory(errno) | SetupError::NoRoom { errno, .. } if short.contains(errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_the_scenarios_and_a_lack_of_files_the_machines() {
        let store = |errno| LiveError::Store {
            directory: "/var/tmp".to_owned(),
            reason: SetupError::Directory(errno),
        };
        assert!(store(Errno::NOENT).is_of_the_scenario());
        assert!(!store(Errno::MFILE).is_of_the_scenario());
    }
}
