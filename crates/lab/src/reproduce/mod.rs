//! `freehold reproduce`: the paper's experiments, its figures beside ours.

mod app;
mod claim;
mod ecache;
mod fig11;
mod fig3;
mod fig8;
mod fig9;
mod files;
mod latencies;
mod live;
mod players;
mod rtl_faults;
mod rtl_memory;
mod table1;
mod table2;
mod table3;
mod table4;
mod tmem;

use std::path::PathBuf;

use freehold_scenario::results::{Align, ReproduceResult, ReproduceRow, TaskResult, TextTable};
use serde_json::json;

use crate::programs::Clips;
use crate::series::Series;
use freehold_command::engine::{Engine, EngineArguments, Outcome, Session};
use freehold_command::exit_status::{Failure, Status};
use freehold_command::load;
use freehold_command::output;

use claim::{Claim, row};
use files::{File, names_of};

/// Options of `freehold reproduce`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The experiments, or `all`: without app-* and tmem-*, which take minutes; real programs with `--engine live`
    #[arg(value_name = "LIST", default_value = "all", value_delimiter = ',')]
    names: Vec<String>,
    #[command(flatten)]
    engine: EngineArguments,
    /// Name the experiments and their scenario files, and run none
    #[arg(long)]
    list: bool,
    /// Print one scenario file of an experiment, and run none
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    show: Option<String>,
    /// Where the clips of experiments with real programs are kept; missing ones are made by ffmpeg
    #[arg(long, value_name = "FOLDER", default_value = "target/clips")]
    clips: PathBuf,
    /// Of the three movie players, instead of the smallest ones, which takes minutes to find
    #[arg(long, value_name = "SIZE,SIZE,SIZE", value_delimiter = ',', num_args = 1)]
    reservations: Option<Vec<String>>,
    /// Of app-* and tmem-*: with how many seeds, from 1 on, all runs [default: 10; live 1; app-live 3; app-random 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// Of app-*: how long each run is, simulated or by the clock, instead of what the model says [app-live: 30s]
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    #[command(flatten)]
    live: live::Options,
    /// Print one JSON document; for several experiments {"experiments": [..]}
    #[arg(long)]
    json: bool,
}

/// What an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Scenario files, on the engine chosen.
    Scenarios,
    /// Real programs, by the clock: no engine of ours has a part in that.
    Programs,
    /// Real programs, for minutes: run by name only.
    LongPrograms,
    /// Models of real programs, simulated with several seeds. It takes minutes, and is run by name only.
    Models,
}

/// One experiment.
struct Experiment {
    name: &'static str,
    about: &'static str,
    files: &'static [File],
    kind: Kind,
    run: fn(&Laboratory) -> Result<Vec<ReproduceRow>, Failure>,
}

/// Every experiment. A new one is a module above and a line here.
const EXPERIMENTS: &[&Experiment] = &[
    &fig3::EXPERIMENT,
    &fig8::EXPERIMENT,
    &table2::EXPERIMENT,
    &table3::EXPERIMENT,
    &fig9::EXPERIMENT,
    &table1::EXPERIMENT,
    &table4::EXPERIMENT,
    &fig11::EXPERIMENT,
    &app::fig1::EXPERIMENT,
    &app::fig4::EXPERIMENT,
    &app::fig3::EXPERIMENT,
    &app::fig5::EXPERIMENT,
    &app::fig6::EXPERIMENT,
    &app::beta::EXPERIMENT,
    &app::shift::EXPERIMENT,
    &app::random::EXPERIMENT,
    &app::stationary::EXPERIMENT,
    &live::EXPERIMENT,
    &latencies::FIG3,
    &latencies::FIG4,
    &rtl_faults::EXPERIMENT,
    &rtl_memory::EXPERIMENT,
    &ecache::fig1::EXPERIMENT,
    &ecache::fig6::EXPERIMENT,
    &ecache::fig8::EXPERIMENT,
    &ecache::fig10::EXPERIMENT,
    &ecache::table8::EXPERIMENT,
    &tmem::table3::EXPERIMENT,
    &tmem::fig6::EXPERIMENT,
    &tmem::fig7::EXPERIMENT,
    &tmem::table4::EXPERIMENT,
];

/// The seed of every experiment's files.
const SEED: u64 = 1;

/// The result of the task with this name.
fn task_of<'a>(outcome: &'a Outcome, name: &str) -> Option<&'a TaskResult> {
    outcome.result.tasks.iter().find(|task| task.name == name)
}

/// Runs the scenario files of the experiments.
#[derive(Debug)]
pub(crate) struct Laboratory {
    session: Session,
    clips: Clips,
    reservations: Option<Vec<String>>,
    seeds: Option<u32>,
    duration: Option<String>,
    live: live::Options,
}

impl Laboratory {
    /// The session that everything runs in.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The clips that real programs play.
    pub(crate) fn clips(&self) -> &Clips {
        &self.clips
    }

    /// The movie players' reservations, where they are given.
    pub(crate) fn reservations(&self) -> Option<&[String]> {
        self.reservations.as_deref()
    }

    /// With how many seeds a model is run, this many by default.
    pub(crate) fn seeds(&self, default: u32) -> u32 {
        self.seeds.unwrap_or(default)
    }

    /// How long a model is run, where that is given.
    pub(crate) fn duration(&self) -> Option<&str> {
        self.duration.as_deref()
    }

    /// What is said of `app-live`.
    fn live(&self) -> &live::Options {
        &self.live
    }

    /// Reads one of the files that are part of the command.
    ///
    /// # Errors
    /// A file or an override that is wrong.
    pub(crate) fn scenario(&self, file: &str, sets: &[&str]) -> Result<freehold_scenario::Scenario, Failure> {
        let text = files::text(file).ok_or_else(|| Failure::Input(format!("there is no file `{file}`")))?;
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        load::embedded(&format!("experiments/{file}"), text, &sets)
    }

    /// Runs one of the files; every law must hold.
    ///
    /// # Errors
    /// A broken law, a run that failed or was stopped.
    pub(crate) fn run(&self, file: &str, sets: &[&str]) -> Result<Outcome, Failure> {
        let shown = [file].iter().chain(sets).copied().collect::<Vec<_>>().join(" --set ");
        self.run_scenario(&self.scenario(file, sets)?, &shown)
    }

    /// Runs a scenario, named `shown` in errors; every law must hold.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn run_scenario(&self, scenario: &freehold_scenario::Scenario, shown: &str) -> Result<Outcome, Failure> {
        self.run_recorded(scenario, shown, false)
    }

    /// As [`run_scenario`](Self::run_scenario), with a recording if asked for.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn run_recorded(
        &self,
        scenario: &freehold_scenario::Scenario,
        shown: &str,
        recording: bool,
    ) -> Result<Outcome, Failure> {
        lawful(self.session.run_recorded(scenario, recording)?, shown)
    }

    /// Simulates scenarios, several at a time, each with a recording if asked for; every law must hold in all of them.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn simulate_all(
        &self,
        scenarios: &[freehold_scenario::Scenario],
        shown: &str,
        recording: bool,
    ) -> Result<Vec<Outcome>, Failure> {
        let outcomes = self.session.simulate_all(scenarios, shown, recording)?;
        outcomes.into_iter().map(|outcome| lawful(outcome, shown)).collect()
    }
}

/// A run that was not stopped and broke no law.
fn lawful(outcome: Outcome, shown: &str) -> Result<Outcome, Failure> {
    if let Some(law) = outcome.broken_laws().next() {
        return Err(Failure::Law(format!("{shown}: {law}")));
    }
    if outcome.stopped {
        return Err(Failure::Stopped);
    }
    Ok(outcome)
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<Status, Failure> {
    if let Some(file) = &arguments.show {
        let known = || files::names().join(", ");
        let text = files::text(file);
        let text = text.ok_or_else(|| Failure::Input(format!("--show: there is no `{file}`: there is {}", known())))?;
        return output::print(text).map(|()| Status::Done);
    }
    if arguments.list {
        return list(arguments.json);
    }
    if arguments
        .reservations
        .as_ref()
        .is_some_and(|sizes| sizes.len() != players::MOVIES.len())
    {
        return Err(Failure::Input(
            "--reservations: there are three players, so three sizes".to_owned(),
        ));
    }
    let wanted = choose(&arguments.names, arguments.engine.engine)?;
    let laboratory = Laboratory {
        session: Session::start(&arguments.engine)?,
        clips: Clips::new(&arguments.clips),
        reservations: arguments.reservations.clone(),
        seeds: arguments.seeds,
        duration: arguments.duration.clone(),
        live: arguments.live.clone(),
    };
    perform(arguments, &laboratory, &wanted)
}

/// Runs experiments, each shown as it ends; where one fails or is stopped, what has ended is shown all the same.
fn perform(arguments: &Arguments, laboratory: &Laboratory, wanted: &[&Experiment]) -> Result<Status, Failure> {
    let mut series = Series::new(("experiments", "experiments"), wanted.len(), laboratory.session.stop());
    for experiment in wanted {
        let engine = match experiment.kind {
            Kind::Programs | Kind::LongPrograms => Engine::Live,
            Kind::Scenarios | Kind::Models => laboratory.session.engine(),
        };
        let report = (experiment.run)(laboratory).map(|rows| ReproduceResult {
            experiment: experiment.name.to_owned(),
            engine: engine.into(),
            seed: SEED,
            rows,
        });
        if let Ok(report) = report.as_ref()
            && !arguments.json
        {
            output::print(&format!("{}\n", report.to_text()))?;
        }
        if !series.take(experiment.name, report) {
            break;
        }
    }
    if arguments.json {
        series.print_json()?;
    }
    let holds = series.end()?.iter().all(ReproduceResult::holds);
    Ok(if holds { Status::Done } else { Status::Failed })
}

/// The experiments named. `all` are those that the engine has a part in; a live machine has real programs too.
fn choose(names: &[String], engine: Engine) -> Result<Vec<&'static Experiment>, Failure> {
    if names.iter().any(|name| name == "all") {
        let all = EXPERIMENTS.iter().filter(|experiment| match experiment.kind {
            Kind::Scenarios => true,
            Kind::Programs => engine == Engine::Live,
            Kind::Models | Kind::LongPrograms => false,
        });
        return Ok(all.copied().collect());
    }
    let find = |name: &String| {
        let known = EXPERIMENTS
            .iter()
            .map(|experiment| experiment.name)
            .collect::<Vec<_>>()
            .join(", ");
        let found = EXPERIMENTS.iter().find(|experiment| experiment.name == name);
        found
            .copied()
            .ok_or_else(|| Failure::Input(format!("there is no experiment `{name}`: there is {known}, all")))
    };
    names.iter().map(find).collect()
}

fn list(json: bool) -> Result<Status, Failure> {
    if json {
        let rows: Vec<_> = EXPERIMENTS
            .iter()
            .map(|row| json!({"experiment": row.name, "about": row.about, "files": names_of(row.files)}))
            .collect();
        return output::print_json(&json!({ "experiments": rows })).map(|()| Status::Done);
    }
    let left = Align::Left;
    let mut table = TextTable::new(&[
        ("experiment", left),
        ("what", left),
        ("files (print with --show FILE)", left),
    ]);
    for experiment in EXPERIMENTS {
        table.row([
            experiment.name.to_owned(),
            experiment.about.to_owned(),
            names_of(experiment.files).join(" "),
        ]);
    }
    output::print(&table.to_string()).map(|()| Status::Done)
}
