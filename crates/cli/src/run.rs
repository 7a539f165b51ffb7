//! `freehold run`: scenarios on an engine.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use serde_json::json;

use crate::compare;
use crate::pictures::{PictureArguments, Pictures};
use freehold_command::engine::{EngineArguments, Outcome, Session};
use freehold_command::exit_status::{Failure, Status};
use freehold_command::load::{self, Overrides};
use freehold_command::output;

/// Options of `freehold run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Scenario files; several are run one after the other and compared
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    #[command(flatten)]
    engine: EngineArguments,
    #[command(flatten)]
    overrides: Overrides,
    /// Print one JSON document; for several scenarios {"runs": [..]}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pictures: PictureArguments,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    // Everything is read before anything runs: a typing error in the last file costs no waiting.
    let scenarios = load::files(&arguments.scenarios, &arguments.overrides)?;
    let pictures = Pictures::prepare(&arguments.pictures, &arguments.engine)?;
    let session = Session::start(&arguments.engine)?.recording(arguments.pictures.wanted());
    let mut outcomes = Vec::new();
    for scenario in &scenarios {
        match session.run(scenario) {
            Ok(outcome) => outcomes.push(outcome),
            // What ran before is shown all the same.
            Err(Failure::Stopped) if !outcomes.is_empty() => {}
            Err(failure) => return Err(failure),
        }
        if session.stop().load(Ordering::Relaxed) {
            break;
        }
    }
    print(arguments, &outcomes)?;
    pictures.write(&scenarios, &outcomes)?;
    Ok(conclude(&outcomes, scenarios.len()))
}

fn print(arguments: &Arguments, outcomes: &[Outcome]) -> Result<(), Failure> {
    if !arguments.json {
        return output::print(&page(outcomes));
    }
    match (outcomes, arguments.scenarios.len()) {
        ([outcome], 1) => output::print_json(&outcome.result),
        _ => {
            let runs: Vec<_> = outcomes.iter().map(|outcome| &outcome.result).collect();
            output::print_json(&json!({ "runs": runs }))
        }
    }
}

fn page(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        text.push_str(&outcome.to_text());
        text.push('\n');
    }
    if outcomes.len() > 1 {
        text.push_str(&compare::page(outcomes));
    }
    text
}

/// The worst that happened, said on standard error.
fn conclude(outcomes: &[Outcome], wanted: usize) -> Status {
    let mut status = Status::Done;
    if outcomes.len() < wanted || outcomes.iter().any(|outcome| outcome.stopped) {
        output::note("freehold: stopped before the end; the result is of what ran");
        status = Status::Failed;
    }
    for outcome in outcomes {
        for law in outcome.broken_laws() {
            output::note(&format!(
                "freehold: {}: a law was broken: {law}",
                outcome.result.head.scenario
            ));
            status = Status::LawBroken;
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use freehold_scenario::results::Violation;

    use super::*;
    use freehold_command::engine;

    #[test]
    fn a_broken_law_is_status_3_and_a_stop_status_1() {
        let text = include_str!("../../../scenarios/private-only.toml");
        let scenario = load::embedded("private-only.toml", text, &[]).unwrap();
        let outcome = engine::simulate(&scenario, None, &AtomicBool::new(false)).unwrap();
        assert_eq!(conclude(std::slice::from_ref(&outcome), 1), Status::Done);
        assert_eq!(conclude(std::slice::from_ref(&outcome), 2), Status::Failed);

        let stopped = Outcome {
            stopped: true,
            ..outcome.clone()
        };
        assert_eq!(conclude(&[outcome.clone(), stopped], 2), Status::Failed);

        let mut broken = outcome;
        broken.result.laws.violations.push(Violation {
            law: 1,
            at_ns: 7,
            what: "planted".to_owned(),
        });
        broken.stopped = true;
        assert_eq!(conclude(std::slice::from_ref(&broken), 1), Status::LawBroken);
        assert!(page(&[broken.clone(), broken]).contains("laws: 2 broken"));
    }
}
