//! Walking through the simulator's schedule.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use freehold_scenario::TaskIndex;
use freehold_sim::{DeviceChange, Step};

use crate::error::LiveError;
use crate::lockstep::devices::{Clients, await_return};
use crate::lockstep::placement::{EndedTransfer, LockstepPlacement};
use crate::lockstep::task_thread::{Command, TaskThreadHandle};
use crate::lockstep::turn::{BLOCKED, IDLE, Turns};
use crate::result::{Counts, DeviceCounts};

/// The counts of the run, and of its device memory.
pub(super) type Snapshot = (Counts, DeviceCounts);

/// Walks through the schedule.
pub(super) struct Conductor<'a> {
    pub(super) placement: &'a dyn LockstepPlacement,
    pub(super) handles: Vec<TaskThreadHandle<'a>>,
    /// Of those who bring pages back, and for whom.
    pub(super) restorers: Vec<(usize, TaskThreadHandle<'a>)>,
    /// Who opens devices.
    pub(super) clients: Clients<'a>,
    pub(super) counts: Option<Snapshot>,
}

impl Conductor<'_> {
    /// Takes all steps; whether it was stopped on the way.
    pub(super) fn follow(&mut self, steps: &[Step], stop: &AtomicBool) -> Result<bool, LiveError> {
        for (number, step) in steps.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Ok(true);
            }
            let diverged = |what| LiveError::Diverged {
                step: number,
                what: format!("{step:?}: {what}"),
            };
            match *step {
                Step::JobStart { task } => self
                    .end_failed_access(task)
                    .and_then(|()| self.tell(task, Command::StartJob)),
                Step::Run { task, accesses } => self.run(task, accesses),
                Step::Begin { task } => self.begin(task),
                Step::JobEnd { task } => self
                    .end_failed_access(task)
                    .and_then(|()| self.tell(task, Command::EndJob))
                    .and_then(|()| self.placement.await_orders()),
                Step::Complete {
                    region,
                    page,
                    request,
                    failed,
                    cached,
                } => {
                    let transfer = EndedTransfer {
                        region,
                        page,
                        request,
                        failed,
                        cached,
                    };
                    self.placement.end_transfer(transfer)
                }
                Step::Report { task, report } => self
                    .placement
                    .report(task, &report)
                    .and_then(|()| self.placement.await_orders()),
                Step::Restore { task } => self.restore(task),
                Step::Device { device, change } => self.change_device(device, change),
                Step::Snapshot => {
                    let devices = self.placement.device_counts(self.clients.openings())?;
                    self.counts = Some((self.placement.counts()?, devices));
                    Ok(())
                }
            }
            .map_err(diverged)?;
        }
        Ok(false)
    }

    /// Opens a device, or closes it and waits until its memory is back.
    fn change_device(&mut self, device: usize, change: DeviceChange) -> Result<(), String> {
        self.clients.change(device, change)?;
        match change {
            DeviceChange::Open { .. } => Ok(()),
            DeviceChange::Close => await_return(device, || self.placement.device_counts(self.clients.openings())),
        }
    }

    fn tell(&mut self, task: TaskIndex, command: Command) -> Result<(), String> {
        self.handles[task.get()].carry_out(self.placement, command)
    }

    /// Who restores for the task brings a page back, now or with a completion.
    fn restore(&mut self, task: TaskIndex) -> Result<(), String> {
        let mut restorers = self.restorers.iter();
        let found = restorers.find(|(owner, _)| *owner == task.get());
        let (_, handle) = found.ok_or("nobody restores for the task")?;
        if self.placement.wait_for(handle.slot, &[IDLE]).is_none() {
            return Err("the restorer's fault before does not end".to_owned());
        }
        handle.command(Command::Restore);
        let ended = self.placement.wait_for(handle.slot, &[IDLE, BLOCKED]);
        ended
            .map(|_| ())
            .ok_or_else(|| "the restorer's fault neither ends nor waits".to_owned())
    }

    /// The task's next accesses, none of which waits. One that waited before is the first of them.
    fn run(&mut self, task: TaskIndex, accesses: u64) -> Result<(), String> {
        let resumed = self.end_pending_access(task)?;
        let left = accesses - u64::from(resumed.min(1)).min(accesses);
        if left == 0 {
            Ok(())
        } else {
            self.tell(task, Command::Run(left))
        }
    }

    /// Lets an access whose fault was answered end. 1 if it was made, or refused only now; 0 if there was none, or its
    /// answer was an error.
    fn end_pending_access(&mut self, task: TaskIndex) -> Result<u32, String> {
        let (placement, handle) = (self.placement, &mut self.handles[task.get()]);
        if !handle.pending {
            return Ok(0);
        }
        let failed = handle.let_go(placement)?;
        match placement.wait_for(handle.slot, &[IDLE, BLOCKED]) {
            Some(IDLE) => {
                handle.pending = false;
                Ok(u32::from(!failed))
            }
            Some(_) => Err("it faults again and waits, in the simulator it did not".to_owned()),
            None => Err("its access does not end".to_owned()),
        }
    }

    /// Before a job ends, an access that was answered with an error is over.
    fn end_failed_access(&mut self, task: TaskIndex) -> Result<(), String> {
        match self.end_pending_access(task)? {
            0 => Ok(()),
            _ => Err("an access is made that the simulator did not make".to_owned()),
        }
    }

    /// The task's next access, or the one that was answered, faults and waits.
    fn begin(&mut self, task: TaskIndex) -> Result<(), String> {
        let (placement, handle) = (self.placement, &mut self.handles[task.get()]);
        if handle.pending {
            let failed = handle.let_go(placement)?;
            match placement.wait_for(handle.slot, &[IDLE, BLOCKED]) {
                Some(BLOCKED) => return Ok(()),
                Some(_) if failed => handle.pending = false,
                Some(_) => return Err("an access is made that the simulator did not make".to_owned()),
                None => return Err("its access does not end".to_owned()),
            }
        }
        handle.command(Command::Run(1));
        handle.pending = true;
        match placement.wait_for(handle.slot, &[IDLE, BLOCKED]) {
            Some(BLOCKED) => Ok(()),
            Some(_) => Err("its access does not wait, in the simulator it did".to_owned()),
            None => Err("its access does not end".to_owned()),
        }
    }

    /// The schedule is over, or lost: every thread goes on by itself, and home.
    pub(super) fn send_home(&self, turns: &Turns) {
        turns.release();
        self.placement.release();
        let restorers = self.restorers.iter().map(|(_, handle)| handle);
        for handle in self.handles.iter().chain(restorers) {
            let _ = handle.commands.send(Command::Finish);
        }
    }

    /// Ends what threads that go on by themselves wait for, for as long as there are any: one that has lost its CPU may
    /// fault only when it has it again.
    pub(super) fn end_transfers_until(&self, over: impl Fn() -> bool) {
        const LOOK: Duration = Duration::from_micros(100);
        while !over() {
            self.placement.end_all_transfers();
            thread::sleep(LOOK);
        }
    }
}
