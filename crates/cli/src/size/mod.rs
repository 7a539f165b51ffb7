//! `freehold size`: the smallest reservation that keeps every deadline, or that a program runs in undisturbed.

mod command;

use std::path::PathBuf;

use freehold_core::units::PAGE_SIZE;
use freehold_scenario::{Scenario, parse_size};

use freehold_command::engine::{EngineArguments, Session};
use freehold_command::exit_status::{Failure, Status};
use freehold_command::load::{self, Overrides};
use freehold_command::output::{self, human_pages};
use freehold_command::size::{Answer, smallest};

/// Options of `freehold size`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The scenario file
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    scenario: Option<PathBuf>,
    /// The task whose reservation is sized
    #[arg(long, value_name = "NAME", required_unless_present = "command")]
    task: Option<String>,
    /// How far apart the sizes near the answer are; 4KiB for the simulator, 256KiB for live runs, 1MiB for a command
    #[arg(long, value_name = "SIZE")]
    step: Option<String>,
    #[command(flatten)]
    engine: EngineArguments,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    trial: command::TrialArguments,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let step = arguments.step.as_deref().map(step_pages).transpose()?;
    let (Some(file), Some(task)) = (&arguments.scenario, &arguments.task) else {
        return command::run(&arguments.trial, step, arguments.json);
    };
    let scenario = load::file(file, &arguments.overrides)?;
    let task = scenario.task_index(task).ok_or_else(|| unknown_task(&scenario, task))?;
    let session = Session::start(&arguments.engine)?;
    let answer = smallest(&session, &scenario, task, step)?;
    if arguments.json {
        output::print_json(&answer)?;
    } else {
        output::print(&page(&answer))?;
    }
    Ok(if answer.pages.is_some() {
        Status::Done
    } else {
        Status::Failed
    })
}

fn step_pages(text: &str) -> Result<u32, Failure> {
    let size = parse_size(text).map_err(|message| Failure::Input(format!("--step: {message}")))?;
    match u32::try_from(size.get() / PAGE_SIZE) {
        Ok(pages) if pages > 0 && size.get().is_multiple_of(PAGE_SIZE) => Ok(pages),
        _ => Err(Failure::Input(format!(
            "--step: `{text}` must be a multiple of 4KiB, at least one and at most 16TiB"
        ))),
    }
}

fn unknown_task(scenario: &Scenario, name: &str) -> Failure {
    let known: Vec<&str> = scenario.tasks.iter().map(|task| task.name.as_str()).collect();
    Failure::Input(format!(
        "--task: there is no task `{name}` in `{}`: there is {}",
        scenario.name,
        known.join(", ")
    ))
}

fn page(answer: &Answer) -> String {
    let Answer {
        task,
        reservation,
        tried,
        engine,
        ..
    } = answer;
    let from = human_pages(answer.from_pages.into());
    let Some(pages) = answer.pages else {
        return format!(
            "no size of reservation {reservation} keeps every deadline: even {from}, all its tasks can use, \
             do not ({tried} tried, engine {engine})\n"
        );
    };
    let mut text = format!(
        "smallest reservation of {task} ({reservation}): {}\n",
        human_pages(pages.into())
    );
    text.push_str(&format!(
        "  it and every larger size tried up to {from} keep every deadline ({tried} tried, engine {engine})\n"
    ));
    text.push_str(&match answer.failing_pages {
        Some(failing) => format!(
            "  {} miss a deadline, fail an access or are refused\n",
            human_pages(failing.into())
        ),
        None => "  no smaller size could be tried\n".to_owned(),
    });
    text
}
