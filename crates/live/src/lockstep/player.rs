//! One task's thread in lockstep.

use std::sync::mpsc::{Receiver, Sender};

use freehold_rt::stop::StopFlag;
use freehold_scenario::Scenario;

use super::baton::{BLOCKED, Batons, IDLE, RUNNING};
use crate::error::LiveError;
use crate::machine::LiveTask;
use crate::worker::{Harvest, Worker};

/// What the coordinator has a thread do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    /// Begin a job.
    StartJob,
    /// Make so many accesses.
    Run(u64),
    /// End the job.
    EndJob,
    /// Go home.
    Finish,
}

/// A thread's side.
pub(crate) struct Player<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) position: usize,
    pub(crate) task: &'a LiveTask,
    pub(crate) batons: &'a Batons,
}

impl Player<'_> {
    /// Carries out commands until told to finish. Accesses that ended with an error are reported through `errors`.
    pub(crate) fn main(&self, commands: &Receiver<Command>, errors: &Sender<u64>) -> Result<Harvest, LiveError> {
        let slot = self.task.handle.id().index();
        let refused = |reason| LiveError::Enter {
            name: self.scenario.tasks[self.position].name.clone(),
            reason,
        };
        let bound = self.task.handle.enter().map_err(refused);
        let bound = match bound {
            Ok(bound) => bound,
            Err(error) => {
                self.batons.set(slot, IDLE);
                return Err(error);
            }
        };
        let stop = StopFlag::new();
        let mut worker = Worker::new(self.scenario, self.position, &bound, &self.task.regions, &stop);
        while let Ok(command) = commands.recv() {
            match command {
                Command::StartJob => worker.begin_job(),
                Command::Run(accesses) => (0..accesses).for_each(|_| {
                    let _ = worker.next_access();
                }),
                Command::EndJob => {
                    worker.end_job();
                    bound.job_end();
                }
                Command::Finish => break,
            }
            // The coordinator reads this once the state is idle.
            let _ = errors.send(worker.errors());
            self.batons.set(slot, IDLE);
        }
        Ok(worker.harvest())
    }
}

/// The coordinator's side of one thread.
#[derive(Debug)]
pub(crate) struct Reins<'a> {
    pub(crate) slot: usize,
    pub(crate) commands: Sender<Command>,
    pub(crate) errors: Receiver<u64>,
    pub(crate) batons: &'a Batons,
    /// Errors of the task known of.
    seen_errors: u64,
    /// An access has begun and is not known to have ended.
    pub(crate) pending: bool,
}

impl<'a> Reins<'a> {
    pub(crate) fn new(slot: usize, commands: Sender<Command>, errors: Receiver<u64>, batons: &'a Batons) -> Self {
        Self {
            slot,
            commands,
            errors,
            batons,
            seen_errors: 0,
            pending: false,
        }
    }

    /// Gives a command; the thread is idle.
    pub(crate) fn command(&self, command: Command) {
        self.batons.set(self.slot, RUNNING);
        // A thread that is gone shows by never becoming idle.
        let _ = self.commands.send(command);
    }

    /// Gives a command and waits until it is carried out.
    pub(crate) fn carry_out(&mut self, command: Command) -> Result<(), String> {
        self.command(command);
        match self.batons.wait_for(self.slot, &[IDLE, BLOCKED]) {
            Some(IDLE) => {
                self.take_errors();
                Ok(())
            }
            Some(_) => Err(format!("{command:?} waits for a page, in the simulator it did not")),
            None => Err(format!("{command:?} does not end")),
        }
    }

    /// Whether an access ended with an error since the last time.
    pub(crate) fn take_errors(&mut self) -> bool {
        let now = self.errors.try_iter().last().unwrap_or(self.seen_errors);
        let new = now > self.seen_errors;
        self.seen_errors = now;
        new
    }
}
