//! Runs whose pages a memory server brings: the placement `server`.
//!
//! The tasks are threads of this process, as in the placement `embedded`, but a fault is a message to another process,
//! `freehold serve`, which holds the core and decides and does everything. What the result says of reservations, memory
//! and store is what that process says of itself; what it says of jobs is measured here.

mod devices;
mod host;
mod pool;
mod process;
mod recorded;
mod refused;
mod setup;
mod status;
mod watched;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use freehold_client::{ConnectError, MapRegionError, Refusal, RequestError};
use freehold_pager::Pace;
use freehold_report::ReadError;
use freehold_rt::stop::StopFlag;
use freehold_scenario::Scenario;
use freehold_scenario::results::{Placement, RunResult};
use freehold_server::serve::ServeError;

pub use devices::device_name;
pub use process::{Launch, OwnServer};

pub(crate) use crate::placement::server::setup::{ServedTask, ServerPlacement};
pub(crate) use devices::{DeviceThreads, JobSignal, Openings};
pub(crate) use host::Host;
pub(crate) use process::directory as private_folder;
pub(crate) use watched::WatchedDevice;

use crate::error::LiveError;
use crate::placement::embedded::choose_cpus;
use crate::result::{self, Remainder};
use crate::run::{self, Options, Outcome, decided};
use crate::start_delay;
use crate::steal_time::stolen;
use crate::watch::{Paging, Watch};

/// Which server a run uses.
#[derive(Clone, Debug)]
pub enum Server {
    /// One that is started for the run, sized for the scenario, and ended with it.
    Own(Launch),
    /// One that runs already, at this socket, with its own pool and store.
    At(PathBuf),
}

/// Why a run with a server cannot be, or had to be given up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server's program cannot be started.
    #[error("{} cannot be started: {reason}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// The server ended before it answered; its own words are on standard error.
    #[error("the memory server ended before it answered ({0}): it says why on standard error")]
    Ended(std::process::ExitStatus),
    /// The server does not answer.
    #[error("the memory server does not answer within {0} s")]
    Silent(u64),
    /// The server cannot begin in this process.
    #[error(transparent)]
    Begin(#[from] ServeError),
    /// No directory for the socket.
    #[error("no directory for the server's socket: {0}")]
    Directory(std::io::Error),
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A request was refused.
    #[error("{what}: {reason}")]
    Request {
        /// What was asked for.
        what: String,
        /// Why not.
        reason: RequestError,
    },
    /// A region cannot be mapped.
    #[error("task {name}: {reason}")]
    Map {
        /// The task.
        name: String,
        /// Why.
        reason: MapRegionError,
    },
    /// A file that stands for a region of kind file.
    #[error("region {name}: no file for it: {reason}")]
    File {
        /// The region.
        name: String,
        /// Why.
        reason: std::io::Error,
    },
    /// A task writes to a region of kind file.
    #[error("task {task}: region {region} is a file, which the server serves for reading only")]
    WritesFile {
        /// The task.
        task: String,
        /// The region.
        region: String,
    },
    /// The status document is not what it must be.
    #[error("the server's status makes no sense: {0}: use programs of one release")]
    Status(ReadError),
    /// The recording is not what it must be.
    #[error("the server's recording makes no sense: {0}: use programs of one release")]
    Recording(ReadError),
    /// Something of the run is missing in the status document.
    #[error("the server's status does not name {0}")]
    Unnamed(String),
    /// The server had more to do than it ends in time.
    #[error("the server still has transfers under way after {0} s")]
    Unsettled(u64),
}

impl ServerError {
    /// Whether the scenario asks for what cannot be.
    pub(crate) fn is_of_the_scenario(&self) -> bool {
        match self {
            Self::WritesFile { .. } => true,
            Self::Request { reason, .. } => {
                matches!(
                    reason,
                    RequestError::Refused {
                        why: Refusal::Exhausted | Refusal::State,
                        ..
                    }
                )
            }
            _ => false,
        }
    }
}

/// Runs a scenario with its pages brought by a server, in as much time as it says. Raising `stop` ends it early,
/// cleanly. Where a region asks for `auto`, [`freehold_sim::decide`] decides first. Only a server that was started
/// to record has a recording to give.
///
/// # Errors
/// [`LiveError`]: what is missing, or refused and by whom.
pub fn run_on_server(
    scenario: &Scenario,
    server: &Server,
    options: &Options,
    stop: &AtomicBool,
) -> Result<Outcome, LiveError> {
    if matches!(server, Server::At(_)) {
        run::refuse_devices(scenario)?;
    }
    run::refuse_components(scenario)?;
    decided(scenario, |scenario| run_decided(scenario, server, options, stop))
}

fn run_decided(
    scenario: &Scenario,
    server: &Server,
    options: &Options,
    stop: &AtomicBool,
) -> Result<Outcome, LiveError> {
    let cpus = choose_cpus(scenario)?;
    let machine = ServerPlacement::new(scenario, Pace::Clock, || Host::open(scenario, server))?;
    let flag = StopFlag::new();
    let watch = Watch {
        scenario,
        paging: &machine,
        flag: &flag,
        stop,
    };
    let stolen_before = stolen(&cpus);
    let run = || run::threads(watch, &cpus, options.recording);
    let (started, openings) = machine.devices().beside(scenario, &machine.host().socket(), run)?;
    let stolen = stolen(&cpus)
        .zip(stolen_before)
        .map(|(after, before)| after.saturating_sub(before));
    machine.settle()?;
    let recording = match &started.sampled {
        Some(sampled) => Some(machine.recording(scenario, &started.finished, sampled)?),
        None => None,
    };
    let counts = match started.counts {
        Some(counts) => counts,
        None => machine.counts(scenario, true)?,
    };
    let outputs: Vec<_> = started.finished.iter().map(|finished| &finished.output).collect();
    let mut laws = machine.laws(scenario, &counts, &outputs)?;
    let watched = machine.device_laws(scenario, &openings)?;
    laws.checked += watched.checked;
    laws.violations.extend(watched.violations);
    let (victim_cache, devices) = machine.device_results(scenario, &openings)?;
    let remainder = Remainder {
        placement: Placement::Server,
        laws,
        lock: None,
        warnings: machine.warnings(scenario, &started.finished)?,
    };
    let mut result: RunResult = result::document(scenario, counts, started.finished, started.origin, remainder);
    (result.victim_cache, result.devices) = (victim_cache, devices);
    result.warnings.extend(start_delay::warning(scenario));
    result.warnings.extend(started.unlocked);
    result.warnings.extend(result::stolen_warning(&result.tasks, stolen));
    Ok(Outcome {
        result,
        stopped: flag.is_raised(),
        recording,
    })
}
