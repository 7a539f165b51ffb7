//! `freehold serve-run`: the memory server of one run (`freehold run --placement server`). It is `freehold serve` with
//! tables for the scenario, for this user alone, and ends when its standard input does, with the run.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use freehold_linux::folder::{self, StaleFolder};
use freehold_server::log::{self, Format};
use freehold_server::serve;

use freehold_command::run_server::RunServer;
use freehold_command::status::{Failure, Status};

/// Options of `freehold serve-run`, made by [`RunServer::launch`].
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What it is to be, in JSON
    #[arg(value_parser = server)]
    server: RunServer,
    /// Where to listen
    socket: PathBuf,
}

fn server(text: &str) -> Result<RunServer, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    log::start(Format::Text, log::Level::ERROR).map_err(|error| Failure::Run(format!("cannot log: {error}")))?;
    let options = arguments.server.options(arguments.socket.clone())?;
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let stop = input.map_err(|error| Failure::Run(format!("no standard input: {error}")))?;
    let served = serve::serve(&options, &stop);
    remove_what_a_killed_run_left(&arguments.socket);
    match served {
        Ok(()) => Ok(Status::Done),
        Err(error) => Err(Failure::Run(error.to_string())),
    }
}

/// The directory is the run's, which removes it; but it may have been killed.
fn remove_what_a_killed_run_left(socket: &Path) {
    let Some(directory) = socket.parent() else { return };
    let names = directory.parent().zip(directory.file_name());
    if let Some((parent, name)) = names {
        let left = folder::left_behind(parent, &name.to_string_lossy());
        left.into_iter().for_each(StaleFolder::remove);
    }
}
