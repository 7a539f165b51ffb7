//! One task's thread in lockstep.

use std::sync::mpsc::{Receiver, Sender};

use freehold_pager::{EnterError, TaskHandle};
use freehold_rt::stop::StopFlag;
use freehold_scenario::Scenario;

use crate::error::LiveError;
use crate::lockstep::placement::LockstepPlacement;
use crate::lockstep::turn::{ANSWERED, BLOCKED, IDLE, RUNNING, Turns};
use crate::placement::task_memory::PlacedTask;
use crate::worker::{TaskOutput, Worker};

/// What the coordinator has a thread do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    /// Begin a job.
    StartJob,
    /// Make so many accesses.
    Run(u64),
    /// End the job.
    EndJob,
    /// Bring back the next page that the last jobs needed.
    Restore,
    /// Go home.
    Finish,
}

/// A thread's side.
pub(crate) struct TaskThread<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) position: usize,
    pub(crate) slot: usize,
    pub(crate) placed: PlacedTask<'a>,
    pub(crate) turns: &'a Turns,
}

impl TaskThread<'_> {
    /// Carries out commands until told to finish.
    pub(crate) fn main(&self, commands: &Receiver<Command>) -> Result<TaskOutput, LiveError> {
        let slot = self.slot;
        let refused = |reason| LiveError::Enter {
            name: self.scenario.tasks[self.position].name.clone(),
            reason,
        };
        let pages = match self.placed.take().map_err(refused) {
            Ok(pages) => pages,
            Err(error) => {
                self.turns.set(slot, IDLE);
                return Err(error);
            }
        };
        let stop = StopFlag::new();
        let mut worker = Worker::new(self.scenario, self.position, pages, &stop);
        while let Ok(command) = commands.recv() {
            match command {
                Command::StartJob => worker.begin_job(),
                Command::Run(accesses) => (0..accesses).for_each(|_| {
                    let _ = worker.next_access();
                }),
                Command::EndJob => worker.end_untimed_job(),
                // Only who is there for it does.
                Command::Restore => {}
                Command::Finish => break,
            }
            self.turns.set(slot, IDLE);
        }
        Ok(worker.output())
    }
}

/// A restorer's side. Its faults end by themselves: it makes no access that would need permission.
pub(crate) fn restore(restorer: &TaskHandle, turns: &Turns, commands: &Receiver<Command>) -> Result<(), EnterError> {
    let slot = restorer.id().index();
    let bound = restorer.enter().inspect_err(|_| turns.set(slot, IDLE))?;
    while let Ok(command) = commands.recv() {
        match command {
            Command::Restore => {
                bound.restore_next();
            }
            Command::Finish => break,
            _ => {}
        }
        turns.set(slot, IDLE);
    }
    Ok(())
}

/// The coordinator's side of one thread.
#[derive(Debug)]
pub(crate) struct TaskThreadHandle<'a> {
    pub(crate) slot: usize,
    pub(crate) commands: Sender<Command>,
    turns: &'a Turns,
    /// An access has begun and is not known to have ended.
    pub(crate) pending: bool,
}

impl<'a> TaskThreadHandle<'a> {
    pub(crate) fn new(slot: usize, commands: Sender<Command>, turns: &'a Turns) -> Self {
        Self {
            slot,
            commands,
            turns,
            pending: false,
        }
    }

    /// Gives a command; the thread is idle.
    pub(crate) fn command(&self, command: Command) {
        self.turns.set(self.slot, RUNNING);
        // A thread that is gone shows by never becoming idle.
        let _ = self.commands.send(command);
    }

    /// Gives a command and waits until it is carried out.
    pub(super) fn carry_out(&self, placement: &dyn LockstepPlacement, command: Command) -> Result<(), String> {
        self.command(command);
        match placement.wait_for(self.slot, &[IDLE, BLOCKED]) {
            Some(IDLE) => Ok(()),
            Some(_) => Err(format!("{command:?} waits for a page, in the simulator it did not")),
            None => Err(format!("{command:?} does not end")),
        }
    }

    /// Lets a thread whose fault was answered go on; whether the answer was an error.
    pub(super) fn let_go(&self, placement: &dyn LockstepPlacement) -> Result<bool, String> {
        let answered = placement.wait_for(self.slot, &[ANSWERED]);
        answered.ok_or_else(|| format!("its fault is not answered (state {})", self.turns.state(self.slot)))?;
        let failed = self.turns.has_failed(self.slot);
        self.turns.set(self.slot, RUNNING);
        placement.let_go(self.slot)?;
        Ok(failed)
    }
}
