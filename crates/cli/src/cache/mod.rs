//! `freehold cache`: what a victim cache in device-reserved memory would hold (paper 003), told from traces.

mod document;
mod input;
mod record;
mod replay;

use freehold_command::exit_status::{Failure, Status};

/// Options of `freehold cache`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Replay a trace of file pages against a page cache and the victim cache behind it
    Replay(replay::Arguments),
    /// Record which file pages a command uses, as a trace for `replay`
    Record(record::Arguments),
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    match &arguments.command {
        Command::Replay(arguments) => replay::run(arguments),
        Command::Record(arguments) => record::run(arguments),
    }
}
