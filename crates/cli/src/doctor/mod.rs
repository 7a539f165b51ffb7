//! `freehold doctor`: what live runs, the memory server and programs under it need and what this machine has, each
//! missing right or feature with its fix.

mod surroundings;
mod uses;

use std::path::PathBuf;

use freehold_linux::probe::{self, Finding, Need};
use freehold_scenario::parse_size;
use freehold_scenario::results::{Align, TextTable};
use serde_json::{Value, json};

use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;

use uses::Use;

/// Options of `freehold doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How much memory the reservations will lock
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    memory: String,
    /// The memory server's socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Try a file store in this folder
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let memory = parse_size(&arguments.memory).map_err(|message| Failure::Input(format!("--memory: {message}")))?;
    let bytes = usize::try_from(memory.get()).map_err(|_| Failure::Input("--memory: too large".to_owned()))?;
    let mut findings = probe::all(bytes);
    findings.push(surroundings::available_memory(memory.get()));
    findings.extend(surroundings::all(
        arguments.socket.as_deref(),
        arguments.store.as_deref(),
    ));
    let uses = uses::all(&findings);
    let usable = uses::live_run(&uses);
    if arguments.json {
        let rows: Vec<Value> = findings.iter().map(document).collect();
        let classes: Vec<&str> = possible(&findings, usable, true).collect();
        let document = json!({ "live": usable, "classes": classes, "uses": uses, "findings": rows });
        output::print_json(&document)?;
    } else {
        output::print(&page(&findings, &uses, usable, &arguments.memory))?;
    }
    Ok(if usable { Status::Done } else { Status::Failed })
}

fn need(finding: &Finding) -> &'static str {
    match finding.need {
        Need::Required => "required",
        Need::Recommended => "recommended",
        Need::Optional => "optional",
    }
}

fn document(finding: &Finding) -> Value {
    json!({
        "name": finding.name,
        "status": finding.status.to_string(),
        "need": need(finding),
        "detail": finding.detail,
        "why": finding.why,
        "fix": if finding.is_present() { None } else { Some(finding.fix) },
    })
}

fn page(findings: &[Finding], uses: &[Use], usable: bool, memory: &str) -> String {
    let left = Align::Left;
    let mut table = TextTable::new(&[("what", left), ("status", left), ("need", left), ("observed", left)]);
    for finding in findings {
        let status = finding.status.to_string();
        table.row([
            finding.name.to_owned(),
            status,
            need(finding).to_owned(),
            finding.detail.clone(),
        ]);
    }
    let mut text = table.to_string();
    let missing: Vec<&Finding> = findings.iter().filter(|finding| !finding.is_present()).collect();
    if !missing.is_empty() {
        text.push_str("\nWhat is missing, and how to get it:\n");
    }
    for finding in missing {
        let (name, need) = (finding.name, need(finding));
        text.push_str(&format!(
            "  {name} ({need}): {}\n    fix: {}\n",
            finding.why, finding.fix
        ));
    }
    text.push_str("\nWhat can be done here:\n");
    for found in uses {
        let verdict = match found.missing.as_slice() {
            [] => "yes".to_owned(),
            missing => format!("no, for want of {}", missing.join(", ")),
        };
        text.push_str(&format!("  {}: {verdict}\n", found.name));
    }
    text.push_str(&format!("\n{}\n", verdict(findings, usable, memory)));
    text
}

/// The classes whose tasks can run live, or those whose cannot.
fn possible(findings: &[Finding], usable: bool, wanted: bool) -> impl Iterator<Item = &'static str> {
    let found = |name: &str| {
        findings
            .iter()
            .any(|finding| finding.name == name && finding.is_present())
    };
    let (fifo, deadline) = (found("sched-fifo"), found("sched-deadline"));
    let classes = [("best-effort", true), ("fifo", fifo), ("deadline", deadline)];
    let chosen = move |(class, possible)| ((usable && possible) == wanted).then_some(class);
    classes.into_iter().filter_map(chosen)
}

/// What can run live, in a sentence.
fn verdict(findings: &[Finding], usable: bool, memory: &str) -> String {
    if !usable {
        return format!(
            "Live runs with a pool of {memory} (--memory) are not possible: something that they need is absent. The \
             simulator needs none of this."
        );
    }
    let list = |wanted: bool| possible(findings, usable, wanted).collect::<Vec<_>>().join(", ");
    match &list(false)[..] {
        "" => format!("Live runs are possible, of tasks of every class: {}.", list(true)),
        refused => format!(
            "Live runs are possible of tasks of class {}; tasks of class {refused} are refused: a right is \
             missing.",
            list(true)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_linux::probe::Status as Probed;

    fn finding(name: &'static str, status: Probed) -> Finding {
        Finding {
            name,
            status,
            detail: String::new(),
            need: Need::Recommended,
            why: "",
            fix: "",
        }
    }

    #[test]
    fn the_classes_that_can_run_are_named() {
        let with = |fifo, deadline| [finding("sched-fifo", fifo), finding("sched-deadline", deadline)];
        let all = verdict(&with(Probed::Present, Probed::Present), true, "64MiB");
        assert!(all.contains("every class: best-effort, fifo, deadline"), "{all}");
        let some = verdict(&with(Probed::Absent, Probed::Absent), true, "64MiB");
        assert!(
            some.contains("of class best-effort; tasks of class fifo, deadline are refused"),
            "{some}"
        );
        let one = verdict(&with(Probed::Present, Probed::Absent), true, "64MiB");
        assert!(
            one.contains("of class best-effort, fifo; tasks of class deadline are refused"),
            "{one}"
        );
        let none = verdict(&with(Probed::Present, Probed::Present), false, "64MiB");
        assert!(
            none.contains("with a pool of 64MiB (--memory) are not possible"),
            "{none}"
        );
        assert_eq!(
            possible(&with(Probed::Present, Probed::Present), false, true).count(),
            0
        );
    }
}
