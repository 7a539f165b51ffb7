//! A server's process that lives as long as a run.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use freehold_client::{ConnectError, Connection, Options};
use freehold_linux::clock;
use freehold_linux::folder::PrivateFolder;

use crate::placement::server::ServerError;

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it may take to leave when told.
const LEAVE: Duration = Duration::from_secs(5);
/// Between two looks at whether it answers.
const LOOK: Duration = Duration::from_millis(5);

/// What the folders of runs are called, before six random characters.
const PREFIX: &str = "freehold-run";

/// How a server is started for a run: a program that serves at the socket it is given as its last argument, and leaves
/// when its standard input ends, as it does when the run's process is gone, however that ends.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, before the socket.
    pub arguments: Vec<OsString>,
}

/// A directory with the socket, and the process that listens there. Dropping it ends both.
#[derive(Debug)]
pub struct OwnServer {
    child: Child,
    directory: PrivateFolder,
}

impl OwnServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// See [`ServerError`]; nothing is left behind.
    pub fn start(launch: &Launch) -> Result<(Self, Connection), ServerError> {
        let directory = directory().map_err(ServerError::Directory)?;
        let socket = directory.path().join("socket");
        // What the terminal sends to the run's group would end it before the run.
        let child = Command::new(&launch.program)
            .args(&launch.arguments)
            .arg(&socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(reason) => {
                let program = launch.program.clone();
                return Err(ServerError::Start { program, reason });
            }
        };
        let mut process = Self { child, directory };
        let connection = process.connect(&socket)?;
        Ok((process, connection))
    }

    /// Where it listens, for other processes.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The directory, for other things of the run.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn connect(&mut self, socket: &Path) -> Result<Connection, ServerError> {
        let until = clock::now().saturating_add(PATIENCE);
        loop {
            match Connection::open(&options(socket)) {
                Err(ConnectError::NoServer { .. }) => {}
                outcome => return Ok(outcome?),
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(ServerError::Ended(status));
            }
            if clock::now() >= until {
                return Err(ServerError::Silent(PATIENCE.as_secs()));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// How a run connects.
pub(crate) fn options(socket: &Path) -> Options {
    Options {
        socket: Some(socket.to_owned()),
        ..Options::named("freehold run")
    }
}

/// A new directory that only this user can enter.
pub(crate) fn directory() -> Result<PrivateFolder, std::io::Error> {
    let parent = std::env::temp_dir();
    PrivateFolder::afresh(&parent, PREFIX)
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // First: a server whose directory is there when its input has ended removes it, as that of a killed run.
        self.directory.remove();
        drop(self.child.stdin.take());
        let until = clock::now().saturating_add(LEAVE);
        while clock::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        // Nothing happens to one that has left.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
