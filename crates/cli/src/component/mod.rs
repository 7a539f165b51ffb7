//! `freehold component`: compositions of components (docs/components.md).

mod run;

use clap::Subcommand;
use freehold_command::output;
use freehold_command::status::{Failure, Status};
use freehold_component::{find, host, running};
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
        #[arg(long)]
        json: bool,
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
        Command::Ps { json } => show(*json),
        Command::Kill { name } => kill(name),
        Command::Host => serve(),
    }
}

fn show(json: bool) -> Result<Status, Failure> {
    let all = running().map_err(failed)?;
    if json {
        output::print_json(&all)?;
        return Ok(Status::Done);
    }
    let mut text = String::new();
    for running in &all {
        for (name, process, restarts) in &running.components {
            let _ = writeln!(
                text,
                "{process:>8}  {name:<20} {}  restarts {restarts}",
                running.composition
            );
        }
    }
    output::print(&text)?;
    Ok(Status::Done)
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
