//! A server's process that lives as long as a run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use freehold_client::{ConnectError, Connection, Options};
use freehold_linux::clock;

use super::ServerError;

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it may take to leave when told.
const LEAVE: Duration = Duration::from_secs(5);
/// Between two looks at whether it answers.
const LOOK: Duration = Duration::from_millis(5);

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
    directory: PathBuf,
}

impl OwnServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// See [`ServerError`]; nothing is left behind.
    pub fn start(launch: &Launch) -> Result<(Self, Connection), ServerError> {
        let directory = directory().map_err(ServerError::Directory)?;
        let socket = directory.join("socket");
        let child = Command::new(&launch.program)
            .args(&launch.arguments)
            .arg(&socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(reason) => {
                let _ = std::fs::remove_dir_all(&directory);
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
        self.directory.join("socket")
    }

    /// The directory, for other things of the run.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
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
pub(crate) fn directory() -> Result<PathBuf, std::io::Error> {
    use std::os::unix::fs::DirBuilderExt;
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("freehold-run-{}-{number}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let until = clock::now().saturating_add(LEAVE);
        while clock::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        // Nothing happens to one that has left.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
