//! `freehold tmem plan`: Algorithm 1 of paper 004 on the numbers of a file.

use freehold_core::transient::{Estimates, Schedule};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use super::facts::{Facts, Remembered};
use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;
use freehold_scenario::read_text;

/// Options of `freehold tmem plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A JSON document: free units, components, threads, and what is remembered (docs/book/src/tmem.md)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What the policy says.
#[derive(Debug, Serialize)]
struct Plan {
    desired: BTreeMap<String, u32>,
    free: u32,
    predicted_ns: BTreeMap<String, i64>,
    moves: Vec<Step>,
    remembered: Vec<Remembered>,
}

/// A unit that moves; from nowhere: a free one.
#[derive(Debug, Serialize)]
struct Step {
    from: Option<String>,
    to: String,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let wrong = |message: String| Failure::Input(format!("{}: {message}", arguments.file.display()));
    let text = read_text(&arguments.file).map_err(|error| Failure::Input(error.to_string()))?;
    let facts: Facts = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let estimates = facts.estimates().map_err(wrong)?;
    let components = facts.components();
    let tardiness: Vec<i64> = facts.threads.iter().map(|thread| thread.tardiness_ns).collect();
    let schedule = Schedule::plan(&estimates, &components, facts.free, &tardiness);
    let schedule = schedule.map_err(|error| wrong(error.to_string()))?;
    let plan = Plan::new(&facts, &estimates, &schedule);
    if arguments.json {
        output::print_json(&plan)?;
    } else {
        output::print(&plan.to_text())?;
    }
    Ok(Status::Done)
}

impl Plan {
    fn new(facts: &Facts, estimates: &Estimates, schedule: &Schedule<'_>) -> Self {
        let component = |at: usize| facts.components[at].name.clone();
        let names = facts.components.iter().map(|component| component.name.clone());
        let threads = facts.threads.iter().map(|thread| thread.name.clone());
        let moves = schedule.moves().iter().map(|step| Step {
            from: step.from.map(component),
            to: component(step.to),
        });
        Self {
            desired: names.zip(schedule.desired().iter().copied()).collect(),
            free: schedule.free(),
            predicted_ns: threads.zip(schedule.predicted().iter().copied()).collect(),
            moves: moves.collect(),
            remembered: remembered(facts, estimates),
        }
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for step in &self.moves {
            let _ = writeln!(
                text,
                "move  {} -> {}",
                step.from.as_deref().unwrap_or("(free)"),
                step.to
            );
        }
        for (name, desired) in &self.desired {
            let _ = writeln!(text, "desired  {name:<24}{desired:>8}");
        }
        let _ = writeln!(text, "free  {}", self.free);
        for (name, tardiness) in &self.predicted_ns {
            let _ = writeln!(text, "predicted  {name:<24}{tardiness:>12} ns");
        }
        text
    }
}

/// The impacts for the next run.
fn remembered(facts: &Facts, estimates: &Estimates) -> Vec<Remembered> {
    let mut all = Vec::new();
    for (thread, named) in facts.threads.iter().enumerate() {
        for (component, of) in facts.components.iter().enumerate() {
            let impact_ns = estimates.remembered(thread, component);
            if impact_ns > 0 {
                all.push(Remembered {
                    thread: named.name.clone(),
                    component: of.name.clone(),
                    impact_ns,
                });
            }
        }
    }
    all
}
