//! `freehold component`: compositions of components (docs/book/src/components.md).

mod run;
pub(crate) mod shown;

use clap::Subcommand;
use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;
use freehold_component::{Running, find, host, running};
use std::fmt::Write;

/// Options of `freehold component`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a composition until its time is over or SIGINT
    Run(run::Arguments),
    /// Show the components of this user that run
    Ps {
        /// Print one JSON document
        #[arg(long, conflicts_with = "metrics")]
        json: bool,
        /// Print what they use in Prometheus' text format
        #[arg(long)]
        metrics: bool,
    },
    /// Kill a component, as a fault of it would; it is started again unless its file says otherwise
    Kill {
        /// The component
        name: String,
    },
    /// The process of components
    #[command(hide = true)]
    Host,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    match &arguments.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Ps { json, metrics } => show(*json, *metrics),
        Command::Kill { name } => kill(name),
        Command::Host => serve(),
    }
}

fn show(json: bool, metrics: bool) -> Result<Status, Failure> {
    let all = running().map_err(failed)?;
    for manager in &all.unknown {
        output::note(&format!(
            "freehold: what process {manager} runs was written by another version, and is left out"
        ));
    }
    if json {
        output::print_json(&all.known)?;
    } else if metrics {
        output::print(&shown::metrics(&all.known))?;
    } else {
        output::print(&all.known.iter().map(text_of).collect::<String>())?;
    }
    Ok(Status::Done)
}

fn text_of(running: &Running) -> String {
    let mut text = String::new();
    for (name, process, restarts) in &running.components {
        let _ = writeln!(
            text,
            "{process:>8}  {name:<20} {}  restarts {restarts}",
            running.composition
        );
        for unit in running.units.iter().filter(|unit| unit.component == *name) {
            let _ = writeln!(
                text,
                "          {:<6} r {} a {} δ {} used {}  waits {}  b {} us{}",
                unit.kind,
                unit.requested,
                unit.allocated,
                unit.desired,
                unit.used,
                unit.contended,
                unit.blocked_ns / 1000,
                shown::violations(unit.violations)
            );
        }
    }
    for wait in &running.waits {
        let holder = wait.holder.as_deref().unwrap_or("another thread");
        let _ = writeln!(
            text,
            "          {} waits for a {} of {}, which {holder} has",
            wait.thread, wait.kind, wait.component
        );
    }
    text
}

fn kill(name: &str) -> Result<Status, Failure> {
    const KILL: i32 = 9;
    let process = find(name).map_err(failed)?;
    let sent = freehold_linux::process::send_signal(process, KILL);
    sent.map_err(|errno| Failure::Run(format!("component `{name}` cannot be killed: {errno}")))?;
    Ok(Status::Done)
}

fn serve() -> Result<Status, Failure> {
    if let Err(error) = host::run() {
        output::note(&format!("freehold: {error}"));
        std::process::exit(host::REFUSED.into());
    }
    Ok(Status::Done)
}

fn failed(error: std::io::Error) -> Failure {
    Failure::Run(error.to_string())
}
