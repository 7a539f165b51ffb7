//! A memory server for the lifetime of one command.

use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use freehold_client::{Observer, Question};
use freehold_core::units::FrameCount;
use serde_json::Value;
use signal_hook::consts::SIGTERM;

use crate::status::Failure;

/// How long a server may take to begin and to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long others than the program may go on after its end.
const OTHERS_MAY_TAKE: Duration = Duration::from_millis(500);
/// From one look whether the server that begins has ended to the next.
const GLANCE: Duration = Duration::from_millis(20);
/// From one look whether others are left to the next.
const LOOK: Duration = Duration::from_millis(1);
/// What the pool has beyond the reservation: an eighth, and at least 16 MiB.
const LEAST_ROOM: u32 = 4096;

/// A server that ends when this is dropped.
#[derive(Debug)]
pub(super) struct Own {
    child: Child,
    folder: Folder,
}

/// A folder of this command's own, removed when it is dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn make() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("freehold-exec-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Own {
    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// It cannot be started, or ends at once; its messages are on standard error.
    pub(super) fn start(reserve: Option<FrameCount>) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::Run(format!("cannot start a memory server: {error}"));
        let folder = Folder::make().map_err(failed)?;
        // It says that it is ready as it would to systemd.
        let said = folder.0.join("ready");
        let ready = UnixDatagram::bind(&said).map_err(failed)?;
        ready.set_read_timeout(Some(GLANCE)).map_err(failed)?;
        let executable = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(executable);
        command
            .arg("serve")
            .arg("--log-level")
            .arg("error")
            .arg("--socket")
            .arg(folder.0.join("socket"))
            .env("NOTIFY_SOCKET", &said);
        if let Some(frames) = reserve {
            let room = (frames.get() / 8).max(LEAST_ROOM);
            let pool = u64::from(frames.get().saturating_add(room)) * 4;
            command.arg("--pool").arg(format!("{pool}KiB"));
        }
        // Not in the terminal's foreground group: an interrupt there is the program's alone.
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(failed)?;
        let mut own = Self { child, folder };
        own.wait_until_ready(&ready)?;
        Ok(own)
    }

    /// Where it listens.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.0.join("socket")
    }

    /// Waits a little for the processes that the program has left behind: helpers that end when they see it gone would
    /// be killed in the middle of that.
    pub(super) fn let_others_end(&self, observer: &Observer) {
        let begun = Instant::now();
        while begun.elapsed() < OTHERS_MAY_TAKE && has_clients(observer) {
            std::thread::sleep(LOOK);
        }
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

/// Whether any process is managed. A server that does not say manages none any more.
fn has_clients(observer: &Observer) -> bool {
    let status = observer.ask(Question::Status, "").unwrap_or_default();
    let status: Value = serde_json::from_str(&status).unwrap_or_default();
    status["clients"].as_array().is_some_and(|clients| !clients.is_empty())
}

impl Drop for Own {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            // It has ended before, and its number may be another's.
            return;
        }
        let _ = freehold_linux::process::send_signal(self.child.id(), SIGTERM);
        if !freehold_linux::process::ends_within(self.child.id(), PATIENCE) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
