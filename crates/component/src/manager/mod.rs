//! The manager of a composition: makes pools and channels, starts processes, moves units, restarts what dies, and says
//! what happened. Components never wait for it.

mod cache;
mod classes;
mod driver;
mod frames;
mod memory;
mod others;
mod processes;
mod report;
mod specs;
mod trace;

pub use cache::Kind;
pub use driver::Window;
pub(crate) use frames::MOST_OTHERS;
pub use memory::UnitManager;
pub use report::{BlockedRow, ClassRow, Document, MemoryRow, PolicyRow, ReservationRow, ThreadRow, UnitRow};
pub use specs::CacheSpec;

use crate::composition::{Composition, PolicyName};
use crate::registry::Entry;
use classes::Classes;
use driver::Drivers;
use freehold_core::transient::ScheduleError;
use freehold_tmem::PoolError;
use freehold_tmem::channel::ChannelError;
use others::Others;
use processes::Processes;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trace::Trace;

/// How often the manager looks after its processes.
const TICK: Duration = Duration::from_millis(5);

/// How a composition is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the composition's file, from which objects are found.
    pub folder: PathBuf,
    /// All components in one process.
    pub shared: bool,
    /// Instead of the file's.
    pub policy: Option<PolicyName>,
    /// Whether threads have the priorities of the file: waiting lends nothing between ordinary threads.
    pub inheritance: bool,
    /// Ends after so long; else when told to.
    pub duration: Option<Duration>,
    /// Where each run of the policy leaves a line.
    pub trace: Option<PathBuf>,
    /// The program that runs [`crate::host::run`], and its arguments.
    pub host: (PathBuf, Vec<String>),
}

/// A composition cannot be run, or not any longer.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A pool.
    #[error("the units of `{0}`: {1}")]
    Pool(String, PoolError),
    /// A channel.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The policy's tables.
    #[error(transparent)]
    Policy(#[from] ScheduleError),
    /// The reservation of the units, or another's.
    #[error("the memory of the composition: {0}")]
    Frames(String),
    /// The file of the trace.
    #[error("`{0}` cannot be written: {1}")]
    Trace(String, io::Error),
    /// Memory for the minima.
    #[error("there is no memory for the minimum of `{0}`")]
    Minimum(String),
    /// A process or thread.
    #[error("`{0}` cannot be started: {1}")]
    Start(String, io::Error),
    /// A process that ended before it served, or ended and is not to be started again.
    #[error("`{0}` has ended: {1}")]
    Ended(String, String),
    /// The folder of what runs.
    #[error("the folder of compositions that run: {0}")]
    Registry(io::Error),
}

/// Runs a composition until its time is over or `stop` is set.
///
/// # Errors
/// See [`RunError`]. Its processes have ended then too.
pub fn run(composition: &Composition, settings: &Settings, stop: &AtomicBool) -> Result<Document, RunError> {
    let policy = settings.policy.unwrap_or(composition.transient.policy);
    let mut memory = UnitManager::new(
        &composition.caches(),
        composition.transient.frames(),
        policy.policy(),
        composition.jobs().count(),
    )?;
    let entry = Entry::new().map_err(RunError::Registry)?;
    let mut processes = Processes::start(composition, settings, &memory)?;
    let announce = |processes: &Processes, memory: &UnitManager| {
        let running = processes.running(composition, memory);
        entry.write(&running).map_err(RunError::Registry)
    };
    announce(&processes, &memory)?;
    let drivers = Drivers::start(composition, settings, &processes)?;
    let mut others = Others::new(composition);
    let mut classes = Classes::new(composition);
    let mut trace = settings.trace.as_deref().map(Trace::create).transpose()?;
    let began = Instant::now();
    let mut due = began + composition.transient.period.0;
    while !stop.load(Ordering::Relaxed) && settings.duration.is_none_or(|duration| began.elapsed() < duration) {
        std::thread::sleep(TICK);
        let mut changed = processes.look_after(composition, &memory)?;
        others.tick(began.elapsed(), &mut memory)?;
        memory.tick();
        if Instant::now() >= due {
            let mut window = drivers.take_window();
            classes.look(processes.board(), &mut window);
            memory.run_policy(&window)?;
            if let Some(trace) = &mut trace {
                trace.note(began.elapsed(), composition, &memory, &window);
            }
            due += composition.transient.period.0;
            changed = true;
        }
        processes.kill_hung(composition, memory.take_restarts());
        if changed {
            announce(&processes, &memory)?;
        }
    }
    // The last jobs end before what they waited is counted.
    let threads = drivers.stop();
    memory.look(&Window::default());
    let outcome = report::Outcome {
        policy,
        duration: began.elapsed(),
        memory: &memory,
        processes: &processes,
        threads,
        reservations: others.fared(),
        classes: classes.records(processes.board()),
    };
    let document = report::document(composition, settings, outcome);
    processes.end();
    Ok(document)
}

fn absolute(folder: &Path, object: &Path) -> PathBuf {
    // A name without a slash would be looked for among the system's libraries.
    let path = folder.join(object);
    path.canonicalize().unwrap_or(path)
}
