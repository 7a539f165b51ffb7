//! `freehold serve-run`: the memory server of one run (`freehold run --placement server`). It is `freehold serve` with
//! tables for the scenario, for this user alone, and ends when its standard input does, with the run.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use freehold_linux::clock;
use freehold_linux::folder::{self, StaleFolder};
use freehold_server::log::{self, Format};
use freehold_server::serve;

use freehold_command::exit_status::{Failure, Status};
use freehold_command::run_server::RunServer;

/// How long a process that is being killed may take to let go of its files.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at whether it has.
const LOOK: Duration = Duration::from_millis(5);

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
    match serve::serve(&options, &stop) {
        Ok(()) => {
            remove_what_a_killed_run_left(&arguments.socket);
            Ok(Status::Done)
        }
        Err(error) => Err(Failure::Run(error.to_string())),
    }
}

/// The directory is the run's, which removes it before it ends this server's input: where it is still there the run was
/// killed. Its lock may go a little later than its end of the pipe.
fn remove_what_a_killed_run_left(socket: &Path) {
    let Some(directory) = socket.parent() else { return };
    let Some((parent, name)) = directory.parent().zip(directory.file_name()) else {
        return;
    };
    let until = clock::now().saturating_add(PATIENCE);
    while directory.exists() && clock::now() < until {
        let left = folder::left_behind(parent, &name.to_string_lossy());
        left.into_iter().for_each(StaleFolder::remove);
        std::thread::sleep(LOOK);
    }
}
