//! `freehold doctor`: what live runs need and what this machine has, each missing right or feature with its fix.

use freehold_linux::probe::{self, Finding, Need};
use freehold_scenario::parse_size;
use freehold_scenario::results::{Align, TextTable};
use serde_json::{Value, json};

use crate::output;
use crate::status::{Failure, Status};

/// Options of `freehold doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How much memory the reservations will lock
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    memory: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let memory = parse_size(&arguments.memory).map_err(|message| Failure::Input(format!("--memory: {message}")))?;
    let bytes = usize::try_from(memory.get()).map_err(|_| Failure::Input("--memory: too large".to_owned()))?;
    let findings = probe::all(bytes);
    let usable = probe::is_usable(&findings);
    if arguments.json {
        let rows: Vec<Value> = findings.iter().map(document).collect();
        output::print_json(&json!({ "live": usable, "findings": rows }))?;
    } else {
        output::print(&page(&findings, usable))?;
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

fn page(findings: &[Finding], usable: bool) -> String {
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
    text.push_str(match usable {
        true => "\nLive runs are possible.\n",
        false => "\nLive runs are not possible: something required is absent. The simulator needs none of this.\n",
    });
    text
}
