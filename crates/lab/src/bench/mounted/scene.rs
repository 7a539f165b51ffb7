//! A folder with a file, and mounts of it, each served by a process of its own.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use freehold_command::exit_status::Failure;
use freehold_command::leftovers::Workplace;
use freehold_command::process::own_executable;
use freehold_linux::child::end_with_parent;
use freehold_linux::mounts::{self, Unmount};
use rustix::fs::Advice;
use rustix::process::{Pid, Signal};

use super::bare::Answers;
use crate::bench::rounds::refused;

pub(super) const PAGE: usize = 4096;
/// The file that is read.
pub(super) const FILE: &str = "file";
/// How long a mount may take to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// What the mount has behind its page cache.
const DEVICES: &str =
    "[region]\nbacking = \"small\"\n[[device]]\nname = \"device\"\nsize = \"16MiB\"\ntrusted = true\n";

/// Folders, gone when dropped.
#[derive(Debug)]
pub(super) struct Scene {
    place: Workplace,
    pages: u64,
}

/// Who serves a mount of a scene.
#[derive(Clone, Copy, Debug)]
pub(super) enum Server<'a> {
    /// A mount without books.
    Bare(Answers),
    /// `freehold mount` with a page cache of this size.
    Ours(&'a str),
}

/// A mount, taken off when dropped.
#[derive(Debug)]
pub(super) struct Mounted {
    server: Child,
    at: PathBuf,
}

impl Scene {
    /// A file of so many pages, each with its number in it.
    pub(super) fn new(pages: u64) -> Result<Self, Failure> {
        if !rustix::process::geteuid().is_root() {
            return Err(refused("mounting takes root"));
        }
        let scene = Self {
            place: Workplace::new()?,
            pages,
        };
        for folder in [scene.source(), scene.mountpoint()] {
            fs::create_dir(folder).map_err(refused)?;
        }
        fs::write(scene.devices(), DEVICES).map_err(refused)?;
        let file = File::create(scene.file()).map_err(refused)?;
        for page in 0..pages {
            file.write_all_at(&page.to_le_bytes().repeat(PAGE / 8), page * PAGE as u64)
                .map_err(refused)?;
        }
        file.sync_all().map_err(refused)?;
        Ok(scene)
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    pub(super) fn source(&self) -> PathBuf {
        self.place.path().join("source")
    }

    fn mountpoint(&self) -> PathBuf {
        self.place.path().join("at")
    }

    fn devices(&self) -> PathBuf {
        self.place.path().join("devices.toml")
    }

    /// The file itself.
    pub(super) fn file(&self) -> PathBuf {
        self.source().join(FILE)
    }

    /// Has the kernel drop its own pages of the file.
    pub(super) fn cool(&self) -> Result<(), Failure> {
        let file = File::open(self.file()).map_err(refused)?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(refused)
    }

    /// Mounts the folder.
    pub(super) fn mount(&self, server: Server<'_>) -> Result<Mounted, Failure> {
        let at = self.mountpoint();
        let mut command = Command::new(own_executable()?);
        match server {
            Server::Bare(answers) => {
                command
                    .args(["bench-mount", answers.name()])
                    .args([self.source(), at.clone()]);
            }
            Server::Ours(size) => {
                command.arg("mount").args([self.source(), at.clone()]);
                command.args(["--cache", size, "--devices"]).arg(self.devices());
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        end_with_parent(&mut command, Signal::TERM);
        let mut server = command.spawn().map_err(refused)?;
        let output = server.stdout.take();
        let mounted = Mounted { server, at };
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line).map_err(refused)?;
        }
        if line.is_empty() {
            return Err(refused("a mount does not begin"));
        }
        Ok(mounted)
    }
}

impl Mounted {
    /// A file of the mount.
    pub(super) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.at.join(name)
    }

    fn has_ended(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if !matches!(self.server.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(Pid::from_child(&self.server), Signal::TERM);
        if !self.has_ended() {
            let _ = self.server.kill();
            let _ = self.server.wait();
            let _ = mounts::unmount(&self.at, Unmount::Detach);
        }
    }
}

/// Whether a page read from the file is the one with this number.
pub(super) fn check(bytes: &[u8], page: u64) -> Result<(), Failure> {
    let right = page.to_le_bytes();
    let (first, last) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>());
    if bytes.len() == PAGE && first == Some(&right) && last == Some(&right) {
        Ok(())
    } else {
        Err(refused(format!("page {page} has a content that was never written")))
    }
}
