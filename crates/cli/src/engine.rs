//! The engines behind one door. An engine takes a scenario and a stop flag, and gives the result document and whether it
//! was stopped; plugging one in is one function here.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ValueEnum;
use freehold_scenario::Scenario;
use freehold_scenario::results::{self, RunResult, Violation};

use crate::progress::Progress;
use crate::signals;
use crate::status::Failure;

/// What drives the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Virtual time: exact, repeatable, needs no rights
    Sim,
    /// Real pages, threads and deadlines
    Live,
}

/// Where the core is when live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Placement {
    /// In the application's process
    Embedded,
    /// In a process of its own (arrives with a later version)
    Server,
}

/// Options that choose and steer an engine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EngineArguments {
    /// The engine
    #[arg(long, value_enum, default_value_t = Engine::Sim)]
    pub(crate) engine: Engine,
    /// Where the core runs when live
    #[arg(long, value_enum, default_value_t = Placement::Embedded)]
    pub(crate) placement: Placement,
    /// Live: carry out accesses and completions in the simulator's order, so that every count is equal
    #[arg(long)]
    pub(crate) lockstep: bool,
}

/// What came out of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The result document.
    pub(crate) result: RunResult,
    /// Whether it was stopped before its end.
    pub(crate) stopped: bool,
}

impl Outcome {
    /// The broken laws, each in a line.
    pub(crate) fn broken_laws(&self) -> impl Iterator<Item = String> {
        let line = |found: &Violation| format!("law {} at {} ns: {}", found.law, found.at_ns, found.what);
        self.result.laws.violations.iter().map(line)
    }
}

/// An engine, chosen and ready, with the signals caught.
#[derive(Debug)]
pub(crate) struct Session {
    arguments: EngineArguments,
    stop: Arc<AtomicBool>,
}

impl Session {
    /// Chooses the engine.
    ///
    /// # Errors
    /// Options that do not go together, or signals that cannot be caught.
    pub(crate) fn start(arguments: &EngineArguments) -> Result<Self, Failure> {
        if arguments.placement == Placement::Server {
            return Err(Failure::Input(
                "--placement server arrives with a later version: use embedded".to_owned(),
            ));
        }
        if arguments.lockstep && arguments.engine == Engine::Sim {
            return Err(Failure::Input(
                "--lockstep is for --engine live: the simulator is what it follows".to_owned(),
            ));
        }
        Ok(Self {
            arguments: arguments.clone(),
            stop: signals::catch()?,
        })
    }

    /// The engine chosen.
    pub(crate) fn engine(&self) -> Engine {
        self.arguments.engine
    }

    /// Set when the run is to end early.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Runs a scenario.
    ///
    /// # Errors
    /// An engine that cannot run it.
    pub(crate) fn run(&self, scenario: &Scenario) -> Result<Outcome, Failure> {
        let engine = self.arguments.engine;
        let expected = (engine == Engine::Live).then(|| Duration::from_nanos(scenario.duration.get()));
        let _progress = Progress::start(&format!("running {} ({engine})", scenario.name), expected);
        match engine {
            Engine::Sim => simulate(scenario, &self.stop),
            Engine::Live => live(scenario, &self.arguments, &self.stop),
        }
    }
}

/// The simulator.
///
/// # Errors
/// A scenario it cannot run.
pub(crate) fn simulate(_scenario: &Scenario, _stop: &Arc<AtomicBool>) -> Result<Outcome, Failure> {
    Err(Failure::Run("the simulator is not part of this build".to_owned()))
}

fn live(_scenario: &Scenario, _arguments: &EngineArguments, _stop: &Arc<AtomicBool>) -> Result<Outcome, Failure> {
    Err(Failure::Run(
        "the live engine is not part of this build: use --engine sim".to_owned(),
    ))
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sim => "sim",
            Self::Live => "live",
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
