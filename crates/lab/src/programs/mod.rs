//! Real programs that experiments run, and the clips that they play. Nothing of either is part of Freehold: the
//! programs must be installed, and ffmpeg makes the clips.

pub(crate) mod cgroup;
mod clips;
mod player;

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use freehold_linux::child::end_with_parent;
use freehold_linux::resident::{self, Process, Resident};
use rustix::process::Signal;

use freehold_command::exit_status::Failure;
use freehold_command::process;

pub(crate) use cgroup::Limited;
pub(crate) use clips::{Clip, Clips};
pub(crate) use player::{Player, under};

/// How Debian installs players and what makes clips.
pub(crate) const INSTALL: &str = "apt-get install -y --no-install-recommends mplayer ffmpeg gstreamer1.0-tools \
                                  gstreamer1.0-plugins-base gstreamer1.0-plugins-good";

/// How often a program is looked at until it has settled.
const LOOK: Duration = Duration::from_millis(500);
/// How many looks it is given to start, and how many there are at most.
const STARTING: u32 = 5;
const LOOKS: u32 = 20;

/// Whether a program is installed: whether some folder of `PATH` has it.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Fails where a program is not installed, with the command by which Debian installs it.
///
/// # Errors
/// A program that is missing.
pub(crate) fn require(programs: &[&str], install: &str) -> Result<(), Failure> {
    let missing: Vec<&str> = programs.iter().copied().filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::Run(format!(
        "{} not installed; on Debian, as root: {install}",
        missing.join(", ")
    )))
}

/// A program that runs until this value is dropped, its output dropped too.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    child: Child,
}

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// A program that cannot be started.
    pub(crate) fn start(command: &mut Command) -> Result<Self, Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        end_with_parent(command, Signal::TERM);
        match command.spawn() {
            Ok(child) => Ok(Self { name, child }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Failure::Run(format!("{name} is not installed; on Debian: {INSTALL}")))
            }
            Err(error) => Err(Failure::Run(format!("{name} cannot be started: {error}"))),
        }
    }

    /// Its pages, once they have stopped growing: a program that starts maps and reads more and more.
    ///
    /// # Errors
    /// A program that has ended, or a stop.
    pub(crate) fn settled(&mut self, stop: &AtomicBool) -> Result<Resident, Failure> {
        let mut before = 0;
        for look in 0..LOOKS {
            process::pause(LOOK, stop)?;
            let resident = self.pages()?;
            let now = resident.total().resident();
            // To the hundredth: a program that plays always takes up and gives back a few.
            if look >= STARTING && now.abs_diff(before) <= now / 100 {
                return Ok(resident);
            }
            before = now;
        }
        self.pages()
    }

    /// Its pages as they are now.
    ///
    /// # Errors
    /// A program that has ended.
    pub(crate) fn pages(&mut self) -> Result<Resident, Failure> {
        let name = &self.name;
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(Failure::Run(format!("{name} ended early: {status}")));
        }
        let looked = Process::open(self.child.id()).and_then(|process| resident::count(&process, &[]));
        looked.map_err(|error| Failure::Run(format!("{name}: {error}")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        process::end(&mut self.child);
    }
}

/// The movie player of the experiments: paced by the frame rate, without picture and sound.
pub(crate) fn player(clip: &Path, rate: u32) -> Command {
    let mut command = Command::new("mplayer");
    command.args(PLAYER).args(["-fps", &rate.to_string()]).arg(clip);
    command
}

/// Options of every player: no picture, no sound, no keyboard, no remote control, no configuration of the user's.
const PLAYER: [&str; 8] = [
    "-vo",
    "null",
    "-nosound",
    "-noconsolecontrols",
    "-nolirc",
    "-nojoystick",
    "-noconfig",
    "all",
];
