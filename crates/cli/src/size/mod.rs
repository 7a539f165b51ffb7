//! `freehold size`: the smallest reservation that keeps every deadline, or that a program runs in undisturbed.

#[path = "../../../command/src/size/program.rs"]
mod command;
#[path = "../../../command/src/size/search.rs"]
mod search;

pub(crate) use command::{Trial, smallest as smallest_of_command};

use std::path::PathBuf;

use freehold_core::units::{ByteLen, PAGE_SIZE};
use freehold_scenario::{Scenario, TaskIndex, parse_size};
use serde::Serialize;

use crate::engine::{Engine, EngineArguments, Session};
use crate::load::{self, Overrides};
use crate::output::{self, human_pages};
use crate::status::{Failure, Status};

/// The largest fine step of live runs, in pages: each takes as long as the scenario lasts.
const LIVE_STEP: u32 = 64;
/// Frames beside the pages themselves that the walk begins with.
const SLACK: u32 = 64;

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

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answer {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// `sim` or `live`.
    pub(crate) engine: String,
    /// The task asked for.
    pub(crate) task: String,
    /// Its reservation.
    pub(crate) reservation: String,
    /// The smallest size in pages; none where no size keeps the deadlines.
    pub(crate) pages: Option<u32>,
    /// The same in bytes.
    pub(crate) bytes: Option<u64>,
    /// The largest size tried that fails, in pages; none where all hold.
    pub(crate) failing_pages: Option<u32>,
    /// How many sizes were tried.
    pub(crate) tried: u32,
    /// The largest size tried, in pages.
    pub(crate) from_pages: u32,
    /// How far apart the sizes near the answer are, in pages.
    pub(crate) step_pages: u32,
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

/// Finds the smallest reservation of `task` that keeps every deadline of all its tasks.
///
/// # Errors
/// A task without reservation or deadline, an engine that fails, a broken law, or a stop.
pub(crate) fn smallest(
    session: &Session,
    scenario: &Scenario,
    task: TaskIndex,
    step: Option<u32>,
) -> Result<Answer, Failure> {
    let name = &scenario.tasks[task.get()].name;
    let Some(reservation) = scenario.tasks[task.get()].reservation else {
        return Err(Failure::Input(format!("--task: `{name}` has no reservation to size")));
    };
    let bound = scenario
        .tasks
        .iter()
        .filter(|task| task.reservation == Some(reservation));
    let names: Vec<String> = bound
        .filter(|task| task.deadline.is_some())
        .map(|task| task.name.clone())
        .collect();
    if names.is_empty() {
        return Err(Failure::Input(format!(
            "--task: no task of `{name}`'s reservation has a deadline to keep"
        )));
    }
    let live = session.engine() == Engine::Live;
    let step = step.unwrap_or(if live { LIVE_STEP } else { 1 });
    let range = search::Range {
        from: ample(scenario, reservation.get()),
        to: 2,
        step,
        coarse: search::COARSE_STEPS,
    };
    let found = search::walk(range, |pages| {
        keeps(session, scenario, reservation.get(), pages, &names)
    })?;
    Ok(Answer {
        scenario: scenario.name.clone(),
        engine: session.engine().to_string(),
        task: name.clone(),
        reservation: scenario.reservations[reservation.get()].name.clone(),
        pages: found.smallest,
        bytes: found.smallest.map(|pages| u64::from(pages) * PAGE_SIZE),
        failing_pages: found.failing,
        tried: found.tried,
        from_pages: range.from,
        step_pages: step,
    })
}

/// All pages the reservation's tasks can touch and some slack, within what the pool has left for it.
fn ample(scenario: &Scenario, reservation: usize) -> u32 {
    let regions = scenario.regions.iter().zip(&scenario.reservations[reservation].regions);
    let pages: u64 = regions
        .filter(|(_, used)| used.mapped)
        .map(|(region, _)| u64::from(region.pages.get()))
        .sum();
    let others = scenario
        .reservations
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != reservation);
    let promised: u64 = others.map(|(_, other)| u64::from(other.capacity.get())).sum();
    let room = u64::from(scenario.pool.get()).saturating_sub(promised);
    u32::try_from((pages + u64::from(SLACK)).min(room))
        .unwrap_or(u32::MAX)
        .max(2)
}

/// Whether the reservation with `pages` frames keeps every deadline of the tasks named, and fails none of their
/// accesses: a store that is full fails those that need room in it. A size that the scenario's
/// own rules refuse does not: it could not be admitted.
fn keeps(
    session: &Session,
    scenario: &Scenario,
    reservation: usize,
    pages: u32,
    tasks: &[String],
) -> Result<bool, Failure> {
    let mut spec = scenario.spec().clone();
    spec.reservations[reservation].size = ByteLen::new(u64::from(pages) * PAGE_SIZE);
    let Ok(sized) = Scenario::try_from(spec) else {
        return Ok(false);
    };
    let outcome = session.run(&sized)?;
    if let Some(law) = outcome.broken_laws().next() {
        return Err(Failure::Law(format!("with {pages} pages: {law}")));
    }
    if outcome.stopped {
        return Err(Failure::Stopped);
    }
    let bound = outcome.result.tasks.iter().filter(|task| tasks.contains(&task.name));
    // A job that left out what it could not have is not one that was served.
    Ok(bound.map(|task| task.misses + task.failed_accesses).sum::<u64>() == 0)
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
