//! `freehold explain`: what a process, an address, a reservation or a region can count on, and why; and what would
//! happen to a reservation that is not there yet.

use freehold_client::{Observer, Question};
use freehold_report::explanation::Explanation;
use freehold_report::what_if::WhatIf;

use crate::component::shown;
use crate::connect::{self, Where};
use crate::thrashing::{self, Holder, Thrashing};
use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;

/// Options of `freehold explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A process id, PID:0xADDRESS, or the name of a reservation, a region, a file, or a component that runs
    #[arg(required_unless_present = "what_if", value_name = "TARGET")]
    target: Option<String>,
    /// Whether a reservation of this size would be admitted, and what would have to give: 30MiB, or "30MiB firm"
    #[arg(long, value_name = "SIZE")]
    what_if: Option<String>,
    #[command(flatten)]
    server: Where,
    /// Print one JSON document; with both a target and --what-if {"explanation": .., "what_if": ..}
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand. A reservation that would be refused is a failure.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    if let (Some(explanation), None) = (of_component(arguments), &arguments.what_if) {
        return show_component(arguments, &explanation);
    }
    let observer = arguments.server.observe("freehold explain")?;
    let ask = |question, target: &Option<String>| {
        let target = target.as_deref();
        target
            .map(|target| connect::ask(&observer, question, target))
            .transpose()
    };
    let explanation = ask(Question::Explain, &arguments.target)?;
    let explanation = explanation.map(|text| with_thrashing(&observer, text)).transpose()?;
    let judgement = ask(Question::WhatIf, &arguments.what_if)?;
    let judged = judgement.as_deref().map(connect::read::<WhatIf>).transpose()?;
    let status = match &judged {
        Some(judged) if !judged.admitted => Status::Failed,
        _ => Status::Done,
    };
    if arguments.json {
        let both = match (&explanation, &judgement) {
            (Some(explanation), Some(judgement)) => {
                format!("{{\"explanation\":{explanation},\"what_if\":{judgement}}}")
            }
            (one, other) => one.clone().or_else(|| other.clone()).unwrap_or_default(),
        };
        connect::print_document(&both)?;
        return Ok(status);
    }
    let mut lines = Vec::new();
    if let Some(text) = explanation {
        lines.extend(connect::read::<Explanation>(&text)?.text);
    }
    lines.extend(judged.into_iter().flat_map(|judged| judged.text));
    let mut page = lines.join("\n");
    page.push('\n');
    output::print(&page)?;
    Ok(status)
}

/// A component, or a thread that waits for one, which no server knows of.
fn of_component(arguments: &Arguments) -> Option<Explanation> {
    let target = arguments.target.as_deref()?;
    let text = shown::explain(&freehold_component::running().ok()?.known, target);
    (!text.is_empty()).then(|| Explanation {
        target: target.to_owned(),
        kind: "component".to_owned(),
        text,
        ..Explanation::default()
    })
}

fn show_component(arguments: &Arguments, explanation: &Explanation) -> Result<Status, Failure> {
    if arguments.json {
        output::print_json(explanation)?;
    } else {
        output::print(&format!("{}\n", explanation.text.join("\n")))?;
    }
    Ok(Status::Done)
}

/// What the server says, and whether the reservations thrash that it is about. The server keeps no rates: it is looked
/// at twice.
fn with_thrashing(observer: &Observer, text: String) -> Result<String, Failure> {
    let mut explanation: Explanation = connect::read(&text)?;
    let about: Vec<Holder> = match explanation.kind.as_str() {
        "reservation" => vec![Holder::named(Some(&explanation.target))],
        "process" => {
            let guarantees = explanation.guarantees.iter();
            guarantees
                .map(|guarantee| Holder::named(guarantee.reservation.as_deref()))
                .collect()
        }
        _ => return Ok(text),
    };
    if about.is_empty() {
        return Ok(text);
    }
    let found = thrashing::look(observer)?;
    let mine = found
        .iter()
        .filter(|found| about.iter().any(|holder| found.is_of(holder)));
    explanation.thrashing = mine.map(Thrashing::sentence).collect();
    explanation.text.extend(explanation.thrashing.iter().cloned());
    serde_json::to_string(&explanation).map_err(|error| Failure::Run(format!("the explanation: {error}")))
}
