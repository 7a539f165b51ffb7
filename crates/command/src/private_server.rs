//! A memory server of an experiment's own, and what it says of the programs under it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use freehold_client::{ConnectError, Observer, Options};
use freehold_core::units::FrameCount;
use freehold_linux::folder::{self, PrivateFolder};
use freehold_report::status::{StatusDocument, TaskStatus};

use crate::ask;
use crate::exit_status::Failure;
use crate::options;
use crate::process;

/// How often a server that starts, or a client that is to appear, is looked for, and how many times at most.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: u32 = 500;
/// What its folder is called, before six random characters.
const PREFIX: &str = "freehold-experiment";

/// A server that ends when this value is dropped.
#[derive(Debug)]
pub struct PrivateServer {
    child: Child,
    folder: PrivateFolder,
    observer: Observer,
}

/// What happened to a program's tasks so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Pages read from files for the first time.
    pub file_reads: u64,
    /// Pages brought in again, from the store or, where they are clean, from the file.
    pub swap_ins: u64,
    /// Of these, pages that another's eviction had taken.
    pub lost: u64,
    /// Faults on resident pages.
    pub soft_faults: u64,
    /// Pages taken from its own lists.
    pub evictions: u64,
}

impl Served {
    /// Pages that had to be brought from somewhere: what the paper calls major faults.
    pub fn brought(&self) -> u64 {
        self.file_reads.saturating_add(self.swap_ins)
    }
}

impl PrivateServer {
    /// Starts one with a pool of so many bytes, which `option` of this command asks for, and waits until it answers.
    ///
    /// # Errors
    /// Memory that is not there, a server that cannot be started or does not answer, or a stop.
    pub fn start(option: &str, pool: u64, stop: &AtomicBool) -> Result<Self, Failure> {
        Self::start_with(option, pool, &[], stop)
    }

    /// The same with these options of `freehold serve` besides.
    ///
    /// # Errors
    /// As [`PrivateServer::start`].
    pub fn start_with(option: &str, pool: u64, more: &[String], stop: &AtomicBool) -> Result<Self, Failure> {
        let frames = u32::try_from(pool.div_ceil(4096)).unwrap_or(u32::MAX);
        options::refuse_what_is_not_there(option, FrameCount::new(frames))?;
        let parent = folder::runtime_directory();
        let folder = PrivateFolder::afresh(&parent, PREFIX).map_err(|error| failed("the server's folder", &error))?;
        let executable = process::own_executable()?;
        let mut options = Options::named("freehold experiment");
        let socket = folder.path().join("socket");
        let mut command = Command::new(executable);
        // With this command's end its input ends, and it ends with the last client then.
        command
            .args(["serve", "--log-level", "warn", "--own-folder"])
            .arg(folder.path())
            .args(["--pool", &format!("{pool}B")])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0);
        let spawned = command.spawn();
        options.socket = Some(socket);
        let mut child = spawned.map_err(|error| failed("the memory server cannot be started", &error))?;
        match connect(&options, &mut child, stop) {
            Ok(observer) => Ok(Self {
                child,
                folder,
                observer,
            }),
            Err(failure) => {
                process::end(&mut child);
                Err(failure)
            }
        }
    }

    /// The command that runs a program under it: with a reservation of so many bytes, and these options besides.
    ///
    /// # Errors
    /// This command's own file cannot be found.
    pub fn exec(&self, reserve: u64, options: &[String]) -> Result<Vec<OsString>, Failure> {
        let mut all: Vec<OsString> = vec!["--reserve".into(), format!("{reserve}B").into()];
        all.extend(options.iter().map(OsString::from));
        self.exec_with(&all)
    }

    /// The same with these options only.
    ///
    /// # Errors
    /// As [`PrivateServer::exec`].
    pub fn exec_with(&self, options: &[OsString]) -> Result<Vec<OsString>, Failure> {
        let socket = ["--socket".into(), self.folder.path().join("socket").into()];
        let options: Vec<OsString> = socket.into_iter().chain(options.iter().cloned()).collect();
        exec_words(&options)
    }

    /// The connection that asks.
    pub fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Everything that it knows.
    ///
    /// # Errors
    /// A server that does not answer, or not as agreed.
    pub fn status(&self) -> Result<StatusDocument, Failure> {
        ask::status(&self.observer)
    }

    /// The process ids of the programs under it.
    ///
    /// # Errors
    /// As [`PrivateServer::status`].
    pub fn programs(&self) -> Result<Vec<u64>, Failure> {
        let clients = self.status()?.clients;
        let programs = clients.iter().filter(|client| client.role == "program");
        Ok(programs.map(|client| u64::from(client.pid)).collect())
    }

    /// Waits for a program that is not among `known`.
    ///
    /// # Errors
    /// None appears, or a stop.
    pub fn next_program(&self, known: &[u64], stop: &AtomicBool) -> Result<u64, Failure> {
        for _ in 0..LOOKS {
            if let Some(pid) = self.programs()?.into_iter().find(|pid| !known.contains(pid)) {
                return Ok(pid);
            }
            process::pause(LOOK, stop)?;
        }
        Err(Failure::Run(
            "a program did not come under the memory server".to_owned(),
        ))
    }

    /// What happened to a program so far; nothing once it has ended.
    ///
    /// # Errors
    /// As [`PrivateServer::status`].
    pub fn served(&self, pid: u64) -> Result<Option<Served>, Failure> {
        let clients = self.status()?.clients;
        let found = clients.iter().find(|client| u64::from(client.pid) == pid);
        Ok(found.map(|client| served(&client.tasks)))
    }
}

/// `freehold exec` with these options, up to the program.
///
/// # Errors
/// This command's own file cannot be found.
pub fn exec_words(options: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let executable = process::own_executable()?;
    let mut words: Vec<OsString> = vec![executable.into(), "exec".into()];
    words.extend(options.iter().cloned());
    words.push("--".into());
    Ok(words)
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Run(format!("{what}: {error}"))
}

/// Connects once the server listens.
fn connect(options: &Options, child: &mut Child, stop: &AtomicBool) -> Result<Observer, Failure> {
    for _ in 0..LOOKS {
        match Observer::connect(options) {
            Ok(observer) => return Ok(observer),
            Err(ConnectError::NoServer { .. }) => {}
            Err(error) => return Err(failed("the memory server", &error)),
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(failed("the memory server ended early", &status));
        }
        process::pause(LOOK, stop)?;
    }
    Err(Failure::Run("the memory server does not answer".to_owned()))
}

/// The sums over a client's tasks.
fn served(tasks: &[TaskStatus]) -> Served {
    let sum = |of: fn(&TaskStatus) -> u64| tasks.iter().map(of).sum();
    Served {
        file_reads: sum(|task| task.file_reads),
        swap_ins: sum(|task| task.swap_ins),
        lost: sum(|task| task.shared_swap_ins),
        soft_faults: sum(|task| task.soft_faults),
        evictions: sum(|task| task.evictions),
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        process::end(&mut self.child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_tasks_are_added_up() {
        let first = TaskStatus {
            file_reads: 3,
            swap_ins: 2,
            shared_swap_ins: 1,
            soft_faults: 9,
            evictions: 1,
            ..TaskStatus::default()
        };
        let second = TaskStatus {
            file_reads: 1,
            ..TaskStatus::default()
        };
        let served = served(&[first, second]);
        assert_eq!((served.brought(), served.soft_faults, served.evictions), (6, 9, 1));
        assert_eq!(served.lost, 1);
    }
}
