//! `freehold component run`.

use super::shown;
use clap::ValueEnum;
use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;
use freehold_command::signals;
use freehold_component::manager::{self, Document, Ran, Settings};
use freehold_component::{Composition, PolicyName, RunError};
use freehold_scenario::read_text;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Options of `freehold component run`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The composition (docs/book/src/components.md)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A process for each component, or one for all
    #[arg(long, value_enum, default_value_t = Space::Separate)]
    space: Space,
    /// Who gets the units, instead of what the file says: tmem, min, max, static, fair or greedy
    #[arg(long)]
    policy: Option<PolicyName>,
    /// Whether threads have the priorities of the file; between ordinary threads nothing is lent
    #[arg(long, value_enum, default_value_t = Switch::On)]
    inheritance: Switch,
    /// End after so long, such as 10s
    #[arg(long, value_parser = duration)]
    duration: Option<std::time::Duration>,
    /// Write a line of JSON for each run of the policy: r, a, δ, b, used, tardiness, and who waits for whom
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Space {
    Separate,
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

fn duration(text: &str) -> Result<std::time::Duration, String> {
    freehold_scenario::parse_time(text).map(|time| std::time::Duration::from_nanos(time.get()))
}

/// Runs the subcommand.
pub(super) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let text = read_text(&arguments.file).map_err(|error| Failure::Input(error.to_string()))?;
    let name = arguments.file.display().to_string();
    let composition = Composition::parse(&text, &name).map_err(|error| Failure::Input(error.to_string()))?;
    let own = std::env::current_exe().map_err(|error| Failure::Run(error.to_string()))?;
    let settings = Settings {
        folder: arguments.file.parent().unwrap_or(Path::new(".")).to_owned(),
        shared: arguments.space == Space::Shared,
        policy: arguments.policy,
        inheritance: arguments.inheritance == Switch::On,
        duration: arguments.duration,
        trace: arguments.trace.clone(),
        host: (own, ["component", "host"].map(str::to_owned).to_vec()),
    };
    let stop = signals::catch()?;
    let failed = |error: RunError| Failure::Run(error.to_string());
    let Ran { document, failure } = manager::run(&composition, &settings, &stop).map_err(failed)?;
    if arguments.json {
        output::print_json(&document)?;
    } else {
        output::print(&text_of(&document))?;
    }
    failure.map_or(Ok(Status::Done), |error| Err(failed(error)))
}

fn text_of(document: &Document) -> String {
    let mut text = format!("{}, {} space\n", document.composition, document.space);
    for row in &document.components {
        let _ = writeln!(
            text,
            "{:<16} {:<6} units {:>4} (minimum {}, peak {}, wanted {})  contended {}  blocked {} us  overruns {}  \
             restarts {}  cross-CPU calls {}{}",
            row.name,
            row.kind,
            row.allocated,
            row.minimum,
            row.peak,
            row.requested,
            row.counts.contended,
            row.counts.blocked_ns / 1000,
            row.counts.overruns,
            row.counts.restarts,
            row.counts.cross_cpu_calls,
            shown::violations(row.counts.violations)
        );
    }
    for row in &document.threads {
        let _ = writeln!(
            text,
            "{:<16} jobs {}  misses {}  failed {}  tardiness {} us mean, {} us most",
            row.name,
            row.jobs,
            row.misses,
            row.failed,
            row.tardiness_ns.mean / 1000,
            row.tardiness_ns.max / 1000
        );
    }
    for row in &document.classes {
        let _ = writeln!(
            text,
            "{:<16} jobs {}  late {}  response {} us mean, tardiness {} us mean",
            row.name,
            row.jobs,
            row.late,
            row.response_mean_ns / 1000,
            row.tardiness_mean_ns / 1000
        );
    }
    text
}
