//! A program of the experiment under `freehold exec`.

use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use freehold_linux::child::end_with_parent;
use rustix::process::Signal;
use signal_hook::consts::SIGTERM;

use freehold_command::exit_status::Failure;
use freehold_command::process;

/// How often a program whose end is waited for is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long a program that is short of memory may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process, ended when dropped.
#[derive(Debug)]
pub(super) struct Process {
    name: &'static str,
    child: Child,
}

impl Process {
    /// Starts it; it reads nothing.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(name: &'static str, command: &mut Command) -> Result<Self, Failure> {
        end_with_parent(command, Signal::TERM);
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.map_err(|error| Failure::Run(format!("{name} cannot be started: {error}")))?;
        Ok(Self { name, child })
    }

    /// Its standard error, where that is a pipe: once.
    pub(super) fn errors(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// # Errors
    /// It has ended, having said this.
    pub(super) fn must_run(&mut self, said: impl FnOnce() -> String) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Failure::Run(format!("{} ended early: {status}: {}", self.name, said()))),
            Err(error) => Err(Failure::Run(format!("{} cannot be waited for: {error}", self.name))),
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It fails, or a stop.
    pub(super) fn succeed(mut self, stop: &AtomicBool) -> Result<(), Failure> {
        loop {
            match self.child.try_wait() {
                Ok(None) => process::pause(LOOK, stop)?,
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(Failure::Run(format!("{} failed: {status}", self.name))),
                Err(error) => return Err(Failure::Run(format!("{} cannot be waited for: {error}", self.name))),
            }
        }
    }

    /// Ends it by a signal that `freehold exec` passes on, and waits for it.
    pub(super) fn end(&mut self) {
        let asked = Instant::now();
        if let Ok(None) = self.child.try_wait() {
            // Not waited for yet, so the number is still its own.
            let _ = freehold_linux::process::send_signal(self.child.id(), SIGTERM);
        }
        while let Ok(None) = self.child.try_wait() {
            if asked.elapsed() > PATIENCE {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
