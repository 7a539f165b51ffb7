//! The engines behind one door. An engine takes a scenario and a stop flag, and gives the result document and whether
//! it was stopped; plugging one in is one function here.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use freehold_live::Server;
use freehold_scenario::recording::{Capacity, Recording};
use freehold_scenario::results::{self, RunResult, Violation};
use freehold_scenario::{Scenario, Sharing};

use crate::background;
use crate::exit_status::Failure;
use crate::progress::Progress;
use crate::run_server::RunServer;
use crate::signals;

/// After how many facts the simulator checks the core's books, the oracles beside it always watching. Debug builds
/// check as often as the simulator itself thinks right.
const CHECK_EVERY: Option<u32> = if cfg!(debug_assertions) { None } else { Some(256) };

/// Simulated, memory is taken as events come: there is room for what execution histories are drawn from.
const SIMULATED: Capacity = Capacity {
    per_task_jobs: 100_000,
    per_task_spans: 400_000,
    per_task_faults: 100_000,
    samples: 1_000,
    evictions: 100_000,
    transfers: 100_000,
    lock_holds: 0,
};

/// What drives the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Virtual time: exact, repeatable, needs no rights
    Sim,
    /// Real pages, threads and deadlines
    Live,
}

/// Where the core is when live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// In the application's process
    Embedded,
    /// In a process of its own, a memory server that is started for the run or named by --socket
    Server,
}

/// Options that choose and steer an engine.
#[derive(Clone, Debug, clap::Args)]
pub struct EngineArguments {
    /// The engine
    #[arg(long, value_enum, default_value_t = Engine::Sim)]
    pub engine: Engine,
    /// Where the core runs when live
    #[arg(long, value_enum, default_value_t = Placement::Embedded)]
    pub placement: Placement,
    /// With --placement server: use the memory server at this socket, its pool and its store
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Live: carry out accesses and completions in the simulator's order, so that every count is equal
    #[arg(long)]
    pub lockstep: bool,
}

/// What came out of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The result document.
    pub result: RunResult,
    /// What happened when, where that was asked for.
    pub recording: Option<Recording>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
    /// The scenario's own warnings, which were passed on when it was read.
    pub said: Vec<String>,
}

impl Outcome {
    fn new(scenario: &Scenario, result: RunResult, stopped: bool) -> Self {
        Self {
            result,
            recording: None,
            stopped,
            said: said(scenario),
        }
    }

    /// The result for a reader, without the warnings that have been passed on.
    pub fn to_text(&self) -> String {
        let mut result = self.result.clone();
        result.warnings.retain(|warning| !self.said.contains(warning));
        result.to_text()
    }

    /// The broken laws, each in a line.
    pub fn broken_laws(&self) -> impl Iterator<Item = String> {
        let line = |found: &Violation| format!("law {} at {} ns: {}", found.law, found.at_ns, found.what);
        self.result.laws.violations.iter().map(line)
    }
}

fn said(scenario: &Scenario) -> Vec<String> {
    scenario.warnings.iter().map(ToString::to_string).collect()
}

/// An engine, chosen and ready, with the signals caught.
#[derive(Debug)]
pub struct Session {
    arguments: EngineArguments,
    recording: bool,
    stop: Arc<AtomicBool>,
}

impl Session {
    /// Chooses the engine.
    ///
    /// # Errors
    /// Options that do not go together, or signals that cannot be caught.
    pub fn start(arguments: &EngineArguments) -> Result<Self, Failure> {
        refuse_combinations(arguments)?;
        Ok(Self {
            arguments: arguments.clone(),
            recording: false,
            stop: signals::catch()?,
        })
    }

    /// The same session, its runs recorded or not.
    pub fn recording(self, recording: bool) -> Self {
        Self { recording, ..self }
    }

    /// The same session in virtual time, for searches that would take too long in real time.
    pub fn simulated(&self) -> Self {
        let arguments = EngineArguments {
            engine: Engine::Sim,
            placement: Placement::Embedded,
            socket: None,
            lockstep: false,
        };
        let (recording, stop) = (self.recording, Arc::clone(&self.stop));
        Self {
            arguments,
            recording,
            stop,
        }
    }

    /// The engine chosen.
    pub fn engine(&self) -> Engine {
        self.arguments.engine
    }

    /// Where the core is when live.
    pub fn placement(&self) -> Placement {
        self.arguments.placement
    }

    /// Set when the run is to end early.
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Runs a scenario.
    ///
    /// # Errors
    /// An engine that cannot run it.
    pub fn run(&self, scenario: &Scenario) -> Result<Outcome, Failure> {
        self.run_recorded(scenario, self.recording)
    }

    /// Runs a scenario, recorded or not, whatever the session's other runs are.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_recorded(&self, scenario: &Scenario, recording: bool) -> Result<Outcome, Failure> {
        let engine = self.arguments.engine;
        let expected = (engine == Engine::Live).then(|| Duration::from_nanos(scenario.duration.get()));
        let _progress = Progress::start(&format!("running {} ({engine})", scenario.name), expected);
        match engine {
            Engine::Sim => simulate_with(scenario, simulated(recording), &self.stop),
            Engine::Live => live(scenario, &self.arguments, recording, &self.stop),
        }
    }

    /// Simulates several scenarios, as many at a time as there are CPUs, with a recording of each if asked for. The
    /// outcomes are in the scenarios' order.
    ///
    /// # Errors
    /// The first in that order that cannot be run, or a stop.
    pub fn simulate_all(&self, scenarios: &[Scenario], shown: &str, recording: bool) -> Result<Vec<Outcome>, Failure> {
        let _progress = Progress::start(&format!("running {shown}, {} times (sim)", scenarios.len()), None);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(scenario) = scenarios.get(at) else { return done };
                done.push((at, simulate_with(scenario, simulated(recording), &self.stop)));
            }
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let mut outcomes = std::thread::scope(|scope| {
            let others: Vec<_> = (1..workers).map(|_| scope.spawn(work)).collect();
            let mut all = work();
            for other in others {
                match other.join() {
                    Ok(done) => all.extend(done),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        });
        outcomes.sort_by_key(|(at, _)| *at);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

/// How the simulator is run here.
fn simulated(recording: bool) -> freehold_sim::Options {
    freehold_sim::Options {
        check_every: CHECK_EVERY,
        recording: recording.then_some(SIMULATED),
        ..freehold_sim::Options::default()
    }
}

/// Refuses options that do not go together.
fn refuse_combinations(arguments: &EngineArguments) -> Result<(), Failure> {
    let served = arguments.placement == Placement::Server;
    let wrong = if arguments.lockstep && arguments.engine == Engine::Sim {
        "--lockstep is for --engine live: the simulator is what it follows"
    } else if served && arguments.engine == Engine::Sim {
        "--placement server is for --engine live: the simulator has no processes"
    } else if arguments.socket.is_some() && arguments.lockstep {
        "--lockstep has a server of its own, in this process"
    } else if arguments.socket.is_some() && !served {
        "--socket is for --placement server"
    } else {
        return Ok(());
    };
    Err(Failure::Input(wrong.to_owned()))
}

/// The simulator. A stop abandons it, and what it had not finished is not a result.
///
/// # Errors
/// A scenario it cannot run, or a stop.
pub fn simulate(scenario: &Scenario, check_every: Option<u32>, stop: &AtomicBool) -> Result<Outcome, Failure> {
    let options = freehold_sim::Options {
        check_every,
        ..freehold_sim::Options::default()
    };
    simulate_with(scenario, options, stop)
}

/// As [`simulate`], with all options.
fn simulate_with(scenario: &Scenario, options: freehold_sim::Options, stop: &AtomicBool) -> Result<Outcome, Failure> {
    let simulated = scenario.clone();
    let run = move || freehold_sim::simulate(&simulated, &options);
    let outcome = background::simulator(&scenario.name, stop, run)?;
    Ok(Outcome {
        recording: outcome.recording,
        ..Outcome::new(scenario, outcome.result, false)
    })
}

/// Real pages.
///
/// # Errors
/// What the machine, the kernel or the core refuses.
fn live(
    scenario: &Scenario,
    arguments: &EngineArguments,
    recording: bool,
    stop: &AtomicBool,
) -> Result<Outcome, Failure> {
    let asks = scenario.regions.iter().any(|region| region.sharing == Sharing::Auto);
    if asks {
        // Decided here, where a stop is heard meanwhile.
        let asking = scenario.clone();
        let decision = background::simulator(&scenario.name, stop, move || freehold_sim::decide(&asking))?;
        let mut outcome = live(&decision.scenario, arguments, recording, stop)?;
        decision.annotate(&mut outcome.result);
        // The decided scenario's own warnings, if it has others, have not been passed on.
        outcome.said = said(scenario);
        return Ok(outcome);
    }
    let options = freehold_live::Options {
        recording: recording.then(Capacity::default),
    };
    let outcome = if arguments.placement == Placement::Server && arguments.lockstep {
        freehold_live::run_in_lockstep_on_server(scenario, &RunServer::of(scenario).driven()?, stop)
    } else if arguments.placement == Placement::Server {
        freehold_live::run_on_server(scenario, &server(scenario, arguments, &options)?, &options, stop)
    } else if arguments.lockstep {
        freehold_live::run_in_lockstep(scenario, stop)
    } else {
        freehold_live::run_with(scenario, &options, stop)
    };
    let mut outcome = outcome.map_err(|error| live_failure(scenario, &error))?;
    if outcome.stopped {
        let note = "stopped before its end: the counts are of what ran".to_owned();
        outcome.result.warnings.push(note);
    }
    Ok(Outcome {
        recording: outcome.recording,
        ..Outcome::new(scenario, outcome.result, outcome.stopped)
    })
}

/// The server that a run uses: one of its own, unless one is named.
fn server(
    scenario: &Scenario,
    arguments: &EngineArguments,
    options: &freehold_live::Options,
) -> Result<Server, Failure> {
    if let Some(socket) = &arguments.socket {
        return Ok(Server::At(socket.clone()));
    }
    let server = RunServer::of(scenario);
    let server = match &options.recording {
        Some(capacity) => server.recorded(scenario, capacity),
        None => server,
    };
    server.launch().map(Server::Own)
}

/// What the scenario asks for and cannot have is the input's fault; what the machine lacks is the run's.
pub fn live_failure(scenario: &Scenario, error: &freehold_live::LiveError) -> Failure {
    let text = format!("{}: {error}", scenario.name);
    if error.is_of_the_scenario() {
        Failure::Input(text)
    } else {
        Failure::Run(text)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sim => "sim",
            Self::Live => "live",
        })
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "embedded",
            Self::Server => "server",
        })
    }
}

impl From<Engine> for results::Engine {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Sim => Self::Sim,
            Engine::Live => Self::Live,
        }
    }
}
