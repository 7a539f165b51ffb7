//! The manager of a composition: makes pools and channels, starts processes, moves units, restarts what dies, and says
//! what happened. Components never wait for it.

mod cache;
mod classes;
mod driver;
mod edge;
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
pub use report::{
    BlockedRow, ClassRow, Document, MemoryRow, PolicyRow, ReservationRow, ThreadRow, UnitCounts, UnitRow,
};
pub use specs::CacheSpec;

use crate::composition::{Composition, PolicyName};
use crate::registry::Entry;
use classes::Classes;
use driver::Drivers;
use freehold_core::transient::ScheduleError;
use freehold_linux::sched::{self, AffinityError};
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
    /// The CPU of a component.
    #[error("`{0}` is to run on CPU {1}, which is not one that this process may use: {2}")]
    Cpu(String, usize, String),
    /// Which CPUs this process may use cannot be had.
    #[error(transparent)]
    Affinity(#[from] AffinityError),
    /// The folder of what runs.
    #[error("the folder of compositions that run: {0}")]
    Registry(io::Error),
}

/// What a run leaves.
#[derive(Debug)]
pub struct Ran {
    /// What happened.
    pub document: Document,
    /// Why it ended before it was to.
    pub failure: Option<RunError>,
}

/// Runs a composition until its time is over or `stop` is set.
///
/// # Errors
/// See [`RunError`]: it has not begun. Its processes have ended then too.
pub fn run(composition: &Composition, settings: &Settings, stop: &AtomicBool) -> Result<Ran, RunError> {
    check_cpus(composition)?;
    let policy = settings.policy.unwrap_or(composition.transient.policy);
    let memory = UnitManager::new(
        &composition.caches(),
        composition.transient.frames(),
        policy.policy(),
        composition.jobs().count(),
    )?;
    if !memory.is_locked() {
        eprintln!("freehold: the units of components are not locked, and may be swapped out: raise RLIMIT_MEMLOCK");
    }
    let entry = Entry::new().map_err(RunError::Registry)?;
    let processes = Processes::start(composition, settings, &memory)?;
    let drivers = Drivers::start(composition, settings, &processes)?;
    let began = Instant::now();
    let mut run = Run {
        composition,
        memory,
        processes,
        drivers,
        others: Others::new(composition),
        classes: Classes::new(composition),
        trace: settings.trace.as_deref().map(Trace::create).transpose()?,
        entry,
        began,
        due: began + composition.transient.period.0,
    };
    run.announce()?;
    let is_over = || stop.load(Ordering::Relaxed) || settings.duration.is_some_and(|most| began.elapsed() >= most);
    let mut failure = None;
    while failure.is_none() && !is_over() {
        std::thread::sleep(TICK);
        failure = run.tick().err();
    }
    let document = run.end(policy, settings);
    Ok(Ran { document, failure })
}

/// A composition that runs.
struct Run<'a> {
    composition: &'a Composition,
    memory: UnitManager,
    processes: Processes,
    drivers: Drivers,
    others: Others,
    classes: Classes,
    trace: Option<Trace>,
    entry: Entry,
    began: Instant,
    /// When the policy runs next.
    due: Instant,
}

impl Run<'_> {
    fn tick(&mut self) -> Result<(), RunError> {
        let mut changed = self.processes.look_after(self.composition, &self.memory)?;
        self.others.tick(self.began.elapsed(), &mut self.memory)?;
        self.memory.tick();
        if Instant::now() >= self.due {
            self.run_policy()?;
            self.due += self.composition.transient.period.0;
            changed = true;
        }
        let restarts = self.memory.take_restarts();
        self.processes.kill_hung(self.composition, &self.memory, restarts);
        if changed {
            self.announce()?;
        }
        Ok(())
    }

    fn run_policy(&mut self) -> Result<(), RunError> {
        let mut window = self.drivers.take_window();
        self.classes.look(&self.processes, &mut window);
        self.memory.run_policy(&window)?;
        for (component, kind) in self.memory.take_violators() {
            eprintln!(
                "freehold: component `{}` has a fault: it writes to a {} that is not its own, or what is known of it",
                self.composition.components[component].name,
                kind.name()
            );
        }
        if let Some(trace) = &mut self.trace {
            trace.note(self.began.elapsed(), self.composition, &self.memory, &window);
        }
        Ok(())
    }

    fn announce(&self) -> Result<(), RunError> {
        let running = self.processes.running(self.composition, &self.memory);
        self.entry.write(&running).map_err(RunError::Registry)
    }

    /// Ends all, and says what happened.
    fn end(mut self, policy: PolicyName, settings: &Settings) -> Document {
        // The last jobs end before what they waited is counted.
        let threads = self.drivers.stop();
        self.memory.look(&Window::default());
        self.memory.audit();
        let outcome = report::Outcome {
            policy,
            duration: self.began.elapsed(),
            memory: &self.memory,
            processes: &self.processes,
            threads,
            reservations: self.others.fared(),
            classes: self.classes.records(&self.processes),
        };
        let document = report::document(self.composition, settings, outcome);
        self.processes.end();
        document
    }
}

/// Whether every component's CPU may be used.
fn check_cpus(composition: &Composition) -> Result<(), RunError> {
    let usable = sched::allowed_cpus()?;
    let mut components = composition.components.iter();
    let wrong = components.find_map(|component| Some((component, component.cpu.filter(|cpu| !usable.contains(cpu))?)));
    wrong.map_or(Ok(()), |(component, cpu)| {
        let usable: Vec<String> = usable.iter().map(ToString::to_string).collect();
        Err(RunError::Cpu(component.name.clone(), cpu, usable.join(", ")))
    })
}

fn absolute(folder: &Path, object: &Path) -> PathBuf {
    // A name without a slash would be looked for among the system's libraries.
    let path = folder.join(object);
    path.canonicalize().unwrap_or(path)
}
