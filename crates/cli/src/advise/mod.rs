//! `freehold advise`: conservation or eviction lock for each shared region, and what each costs (the paper's Table IV).
//! Of a scenario, from a profile; of living processes, from what the memory server samples.

mod living;

use std::path::PathBuf;
use std::time::Duration;

use freehold_scenario::Scenario;
use freehold_scenario::results::AdviceResult;
use serde_json::json;

use freehold_command::background;
use freehold_command::engine::{self, Engine, EngineArguments, Placement, Session};
use freehold_command::exit_status::{Failure, Status};
use freehold_command::load::{self, Overrides};
use freehold_command::output;
use freehold_command::progress::Progress;

/// Options of `freehold advise`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Scenario files, or processes under a memory server
    #[arg(required = true, value_name = "SCENARIO|PID")]
    scenarios: Vec<PathBuf>,
    /// Where the profile is taken: every reservation has room for all that its tasks touch
    #[arg(long, value_enum, default_value_t = Engine::Sim)]
    engine: Engine,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    sample: living::SampleArguments,
    /// Print one JSON document; for several scenarios {"advice": [..]}
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    if let Some(pids) = living::process_ids(&arguments.scenarios) {
        return living::run(&pids, &arguments.sample, arguments.json);
    }
    let scenarios = load::files(&arguments.scenarios, &arguments.overrides)?;
    let session = Session::start(&EngineArguments {
        engine: arguments.engine,
        placement: Placement::Embedded,
        socket: None,
        lockstep: false,
    })?;
    let advice = scenarios.iter().map(|scenario| advise(&session, scenario));
    let advice = advice.collect::<Result<Vec<AdviceResult>, Failure>>()?;
    match &advice[..] {
        [only] if arguments.json => output::print_json(only)?,
        several if arguments.json => output::print_json(&json!({ "advice": several }))?,
        several => {
            let pages: Vec<String> = several.iter().map(AdviceResult::to_text).collect();
            output::print(&pages.join("\n"))?;
        }
    }
    Ok(Status::Done)
}

/// Takes a profile and weighs both choices for every region.
fn advise(session: &Session, scenario: &Scenario) -> Result<AdviceResult, Failure> {
    let engine = session.engine();
    let expected = (engine == Engine::Live).then(|| Duration::from_nanos(scenario.duration.get()));
    let _progress = Progress::start(&format!("profiling {} ({engine})", scenario.name), expected);
    let owned = scenario.clone();
    let (name, stop) = (&scenario.name, session.stop());
    let regions = match engine {
        Engine::Sim => background::simulator(name, stop, move || {
            freehold_sim::advise(&owned, &freehold_sim::profile(&owned)?)
        })?,
        Engine::Live => {
            let profile = freehold_live::profile(scenario, stop);
            let profile = profile.map_err(|error| engine::live_failure(scenario, &error))?;
            let profile = profile.ok_or(Failure::Stopped)?;
            background::simulator(name, stop, move || freehold_sim::advise(&owned, &profile))?
        }
    };
    Ok(AdviceResult {
        scenario: scenario.name.clone(),
        engine: engine.into(),
        regions,
    })
}
