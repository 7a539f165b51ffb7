//! Hidden subcommands: what an experiment must do in a process of its own, as another run of this command.

use freehold_command::exit_status::{Failure, Status};

use crate::bench::{callgrind, isolation, mounted, served, tmem};

/// A part of an experiment.
#[derive(Debug, clap::Subcommand)]
pub enum Helper {
    /// An operation of the core, for valgrind to count
    #[command(hide = true)]
    BenchCore(callgrind::Arguments),
    /// A task beside a sibling, in a process of its own
    #[command(hide = true)]
    BenchIsolation(isolation::child::Arguments),
    /// A memory server without books, in a process of its own
    #[command(hide = true)]
    BenchBare(served::bare::Arguments),
    /// A component that is called, in a process of its own
    #[command(hide = true)]
    BenchCallee(tmem::Arguments),
    /// A mount without books, in a process of its own
    #[command(hide = true)]
    BenchMount(mounted::bare::Arguments),
}

impl Helper {
    /// Does it.
    ///
    /// # Errors
    /// What its experiment is told.
    pub fn perform(&self) -> Result<Status, Failure> {
        match self {
            Self::BenchCore(arguments) => callgrind::perform(arguments),
            Self::BenchIsolation(arguments) => isolation::child::perform(arguments),
            Self::BenchBare(arguments) => served::bare::perform(arguments),
            Self::BenchCallee(arguments) => tmem::perform(arguments),
            Self::BenchMount(arguments) => mounted::bare::perform(arguments),
        }
    }
}
