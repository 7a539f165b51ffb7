//! A memory server for the lifetime of one command.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use freehold_core::units::FrameCount;
use freehold_linux::folder::{self, PrivateFolder};
use signal_hook::consts::SIGTERM;

use crate::exit_status::Failure;

/// How long a server may take to begin and to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long others than the program may go on after its end.
const OTHERS_MAY_TAKE: Duration = Duration::from_millis(500);
/// From one look whether the server that begins has ended to the next.
const GLANCE: Duration = Duration::from_millis(20);
/// What the pool has beyond the reservation: an eighth, and at least 16 MiB.
const LEAST_ROOM: u32 = 4096;

/// What the folders of these servers are called, before six random characters.
const PREFIX: &str = "freehold-exec";

/// A server for this command and what is managed under it. Dropped, it ends; where the command is killed, and where
/// [`end_with_others`](Self::end_with_others) says so, with its last client.
#[derive(Debug)]
pub struct OwnServer {
    child: Child,
    /// The server knows by its end that this command is gone.
    tie: ChildStdin,
    path: PathBuf,
    /// Nothing where it is left to the server.
    folder: Option<PrivateFolder>,
}

/// The pool of a server for such a reservation.
pub fn pool_of(reserve: FrameCount) -> FrameCount {
    let room = (reserve.get() / 8).max(LEAST_ROOM);
    FrameCount::new(reserve.get().saturating_add(room))
}

impl OwnServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// It cannot be started, or ends at once; its messages are on standard error.
    pub fn start(reserve: Option<FrameCount>) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::Run(format!("cannot start a memory server: {error}"));
        let parent = folder::runtime_directory();
        let folder = PrivateFolder::afresh(&parent, PREFIX).map_err(failed)?;
        // It says that it is ready as it would to systemd.
        let said = folder.path().join("ready");
        let ready = UnixDatagram::bind(&said).map_err(failed)?;
        ready.set_read_timeout(Some(GLANCE)).map_err(failed)?;
        let executable = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(executable);
        command
            .args(["serve", "--log-level", "error", "--own-folder"])
            .arg(folder.path())
            .arg("--one-program")
            .env("NOTIFY_SOCKET", &said);
        if let Some(frames) = reserve {
            let kibibytes = u64::from(pool_of(frames).get()) * 4;
            command.arg("--pool").arg(format!("{kibibytes}KiB"));
        }
        // Not in the terminal's foreground group: an interrupt there is the program's alone.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let tie = child.stdin.take().ok_or_else(|| failed(ErrorKind::BrokenPipe.into()))?;
        let mut own = Self {
            child,
            tie,
            path: folder.path().to_owned(),
            folder: Some(folder),
        };
        own.wait_until_ready(&ready)?;
        Ok(own)
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.path.join("socket")
    }

    /// How it was ended, if it was: by itself it ends with this command only. One that no longer `answers` is on its
    /// way, and is waited for.
    pub fn was_ended(&mut self, answers: bool) -> Option<ExitStatus> {
        if !answers {
            let _ = freehold_linux::process::ends_within(self.child.id(), PATIENCE);
        }
        self.child.try_wait().ok().flatten()
    }

    /// Has it end with the processes that the program has left behind, and waits a little for those that end when they
    /// see the program gone. Whether it has ended; otherwise it, and its folder, is left to them.
    pub fn end_with_others(&mut self) -> bool {
        // Where that fails it has ended.
        let _ = self.tie.write_all(b".");
        let ended = freehold_linux::process::ends_within(self.child.id(), OTHERS_MAY_TAKE);
        if !ended && let Some(folder) = self.folder.take() {
            folder.leave();
        }
        ended
    }

    fn wait_until_ready(&mut self, ready: &UnixDatagram) -> Result<(), Failure> {
        let begun = Instant::now();
        // What has no answer yet has ended perhaps.
        while ready.recv(&mut [0; 64]).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failure::Run(format!(
                    "the memory server of this command ended at once: {status}"
                )));
            }
            if begun.elapsed() > PATIENCE {
                return Err(Failure::Run(
                    "the memory server of this command does not begin to answer".to_owned(),
                ));
            }
        }
        Ok(())
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        if self.folder.is_none() || !matches!(self.child.try_wait(), Ok(None)) {
            // It is left to its clients, or has ended before, and its number may be another's.
            return;
        }
        let _ = freehold_linux::process::send_signal(self.child.id(), SIGTERM);
        if !freehold_linux::process::ends_within(self.child.id(), PATIENCE) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
