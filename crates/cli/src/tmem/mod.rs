//! `freehold tmem`: transient memory scheduling (paper 004).

mod facts;
mod plan;

use freehold_command::exit_status::{Failure, Status};

/// Options of `freehold tmem`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run the scheduling policy alone, on numbers from a file
    Plan(plan::Arguments),
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    match &arguments.command {
        Command::Plan(arguments) => plan::run(arguments),
    }
}
