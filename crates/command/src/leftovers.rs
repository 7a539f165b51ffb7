//! What a command leaves behind when it is killed, and who undoes it.
//!
//! A command that changes the machine (a swap file, a memory cgroup, a setting of the kernel) or fills a folder does
//! so from a [`Workplace`]: a locked folder in which everything that is to be undone is noted before it is done. A
//! process of its own waits for the command's end and undoes what is left; where that is killed too, the next such
//! command does.

use std::ffi::{CString, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use freehold_linux::folder::{self, PrivateFolder};
use freehold_linux::process::send_signal;
use freehold_linux::{swap, zram};

use crate::exit_status::{Failure, Status};

/// What the folders are called, before six random characters.
const PREFIX: &str = "freehold-work";
/// The swap file of a workplace.
const SWAP: &str = "swap";
/// Holds the number of a workplace's swap device in memory.
const ZRAM: &str = "zram";
/// Names the memory cgroup of a workplace.
const GROUP: &str = "cgroup";
/// Holds a setting of the kernel's as it was: its path, and in the next line its value.
const SETTING: &str = "setting";
/// The processes of a memory cgroup.
pub const MEMBERS: &str = "cgroup.procs";
/// How often what is left is tried to be undone: processes that were killed may be about to end.
const LOOKS: u32 = 100;
const LOOK: Duration = Duration::from_millis(20);
/// SIGKILL.
const KILL: i32 = 9;

/// A folder of a command's own in the system's folder for temporary files, and who undoes what is noted there.
#[derive(Debug)]
pub struct Workplace {
    // Dropped last but for the watcher, which then finds nothing to do.
    folder: PrivateFolder,
    _watcher: Watcher,
}

impl Workplace {
    /// Makes a folder, and undoes what commands that were killed have left.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn new() -> Result<Self, Failure> {
        let parent = std::env::temp_dir();
        undo_all(&parent);
        let failed = |error: std::io::Error| Failure::Run(format!("a folder for this command: {error}"));
        let folder = PrivateFolder::new(&parent, PREFIX).map_err(failed)?;
        let watcher = Watcher::start(folder.path()).map_err(failed)?;
        Ok(Self {
            folder,
            _watcher: watcher,
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where its swap file is to be.
    pub fn swap_file(&self) -> PathBuf {
        self.path().join(SWAP)
    }

    /// Notes a memory cgroup that is about to be made: whatever runs in it is killed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note_group(&self, group: &Path) -> Result<(), Failure> {
        self.note(GROUP, group.as_os_str().as_bytes())
    }

    /// Notes the value that a setting of the kernel's has, before it is changed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note_setting(&self, path: &str, value: &str) -> Result<(), Failure> {
        self.note(SETTING, format!("{path}\n{value}").as_bytes())
    }

    /// Notes a swap device in memory that has just been made.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note_zram(&self, number: u32) -> Result<(), Failure> {
        self.note(ZRAM, number.to_string().as_bytes())
    }

    fn note(&self, name: &str, text: &[u8]) -> Result<(), Failure> {
        let path = self.path().join(name);
        fs::write(&path, text).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))
    }
}

/// The process that waits for the command's end: its standard input ends then.
#[derive(Debug)]
struct Watcher(Child);

impl Watcher {
    fn start(folder: &Path) -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("clean-up").arg(folder);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // What the terminal sends to the command is not for it.
        command.process_group(0).spawn().map(Self)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Options of the hidden subcommand.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    folder: PathBuf,
}

/// Waits for the end of standard input, then undoes what is left.
pub fn clean_up(arguments: &Arguments) -> Result<Status, Failure> {
    // However reading ends, the command is gone.
    let _ = std::io::stdin().read(&mut [0]);
    let parent = arguments.folder.parent().unwrap_or(Path::new("/"));
    for _ in 0..LOOKS {
        undo_all(parent);
        if !arguments.folder.exists() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(Status::Done)
}

fn undo_all(parent: &Path) {
    for stale in folder::left_behind(parent, PREFIX) {
        if undo(stale.path()) {
            stale.remove();
        }
    }
}

/// Undoes what is noted in a folder; whether nothing is left.
fn undo(folder: &Path) -> bool {
    if let Ok(setting) = fs::read_to_string(folder.join(SETTING))
        && let Some((path, value)) = setting.split_once('\n')
    {
        let _ = fs::write(path, value);
    }
    let group = fs::read(folder.join(GROUP)).ok();
    let group = group.is_none_or(|path| remove_group(Path::new(&OsString::from_vec(path))));
    let swap = folder.join(SWAP);
    let name = CString::new(swap.as_os_str().as_bytes());
    let swap = !swap.exists() || name.is_ok_and(|name| swap::end_use(&name).is_ok());
    let zram = fs::read_to_string(folder.join(ZRAM)).ok();
    let zram = zram.and_then(|number| number.parse().ok());
    let zram = zram.is_none_or(|number| zram::remove(number).is_ok());
    group && swap && zram
}

/// Kills what runs in a memory cgroup and removes it; whether it is gone.
pub fn remove_group(group: &Path) -> bool {
    (0..LOOKS).any(|look| {
        if look > 0 {
            std::thread::sleep(LOOK);
        }
        let members = fs::read_to_string(group.join(MEMBERS)).unwrap_or_default();
        for member in members.lines().filter_map(|line| line.parse().ok()) {
            // It may have ended.
            let _ = send_signal(member, KILL);
        }
        fs::remove_dir(group).is_ok() || !group.exists()
    })
}
