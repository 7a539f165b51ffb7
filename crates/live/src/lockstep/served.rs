//! A pager in a process of its own, whose pace this one sets.
//!
//! What the conductor learns of a blocked thread in the other placement from the thread itself, in its handler, it asks
//! the server here: the thread sleeps in the kernel.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use freehold_client::{RequestError, Standing};
use freehold_core::fact::Request;
use freehold_core::pinning::JobReport;
use freehold_linux::clock;
use freehold_scenario::{RegionKind, Scenario, TaskIndex};
use freehold_sim::DeviceChange;

use super::devices::{Clients, await_return};
use super::stage::{EndedTransfer, Stage};
use super::turn::{ANSWERED, BLOCKED, IDLE, RUNNING, Turns};
use crate::collect::{Counts, DeviceCounts};
use crate::error::LiveError;
use crate::served::ServerPlacement;
use crate::watch::Paging;

/// How long the conductor waits for anything before it gives up.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it waits for a thread before it asks the server, at first, and at last: to ask keeps the server from its
/// work.
const LOOK: Duration = Duration::from_micros(50);
const LONGEST_LOOK: Duration = Duration::from_millis(2);

/// A server that was started for the run. A thread's slot is its task's position.
pub(super) struct Served<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) machine: &'a ServerPlacement,
    pub(super) turns: &'a Turns,
    /// Pages of files that were read: the simulator's store reads them, a server's does not.
    pub(super) files_read: Cell<u64>,
    /// Who opens devices.
    pub(super) clients: RefCell<Clients<'a>>,
}

impl Served<'_> {
    /// The state of a thread: of one that is at work, the server knows more. What will change by itself does not count.
    fn state(&self, slot: usize) -> u32 {
        let state = self.turns.state(slot);
        if state != RUNNING {
            return state;
        }
        match self.machine.tasks()[slot].task.stands() {
            Ok(stands) if stands.orders > 0 => RUNNING,
            Ok(stands) => match stands.standing {
                Standing::Runs => RUNNING,
                Standing::Waits => BLOCKED,
                Standing::Answered => ANSWERED,
            },
            // Without an answer nothing changes any more: patience ends.
            Err(_) => RUNNING,
        }
    }
}

/// Tries until it is done, while the server says that it cannot be yet.
fn patiently(mut attempt: impl FnMut() -> Result<bool, RequestError>) -> Result<(), String> {
    let until = clock::now().saturating_add(PATIENCE);
    loop {
        let failed = match attempt() {
            Ok(true) => return Ok(()),
            Ok(false) => "the agent does not carry out its orders".to_owned(),
            Err(RequestError::Refused { text, .. }) => text,
            Err(reason) => return Err(reason.to_string()),
        };
        if clock::now() >= until {
            return Err(failed);
        }
        std::thread::sleep(LOOK);
    }
}

impl Stage for Served<'_> {
    fn wait_for(&self, slot: usize, wanted: &[u32]) -> Option<u32> {
        let until = clock::now().saturating_add(PATIENCE);
        // Who may become idle says so itself; of others the server knows at once.
        let mut pause = if wanted.contains(&IDLE) { LOOK } else { Duration::ZERO };
        loop {
            let soon = clock::now().saturating_add(pause);
            pause = (pause * 2).clamp(LOOK, LONGEST_LOOK);
            if let Some(state) = self.turns.wait_until(slot, wanted, soon) {
                return Some(state);
            }
            let state = self.state(slot);
            if wanted.contains(&state) {
                return Some(state);
            }
            if clock::now() >= until {
                return None;
            }
        }
    }

    fn let_go(&self, slot: usize) -> Result<(), String> {
        self.machine.tasks()[slot]
            .task
            .let_go()
            .map_err(|reason| reason.to_string())
    }

    fn end_transfer(&self, transfer: EndedTransfer) -> Result<(), String> {
        let EndedTransfer {
            region,
            page,
            request,
            failed,
            cached,
        } = transfer;
        if failed {
            return Err("a server's transfers fail only if they really do".to_owned());
        }
        let eviction = request == Request::Evict;
        let object = &self.machine.regions()[region.get()];
        // A device may still be at it.
        let mut orders = 0;
        patiently(|| {
            orders = object.end_transfer(page.get(), eviction)?;
            Ok(true)
        })?;
        if orders > 0 {
            self.await_orders()?;
        }
        let file = self.scenario.regions[region.get()].kind == RegionKind::File;
        self.files_read
            .set(self.files_read.get() + u64::from(file && !eviction && !cached));
        Ok(())
    }

    fn await_orders(&self) -> Result<(), String> {
        let Some(task) = self.machine.tasks().first() else {
            return Ok(());
        };
        patiently(|| Ok(task.task.stands()?.orders == 0))
    }

    fn report(&self, task: TaskIndex, report: &JobReport) -> Result<(), String> {
        let pool = self.machine.tasks()[task.get()].pool.as_ref();
        let told = pool.ok_or("the task has no pinned page pool")?.judge(report, None);
        told.map(|_| ()).map_err(|reason| reason.to_string())
    }

    fn change_device(&self, device: usize, change: DeviceChange) -> Result<(), String> {
        self.clients.borrow_mut().change(device, change)?;
        match change {
            DeviceChange::Open { .. } => Ok(()),
            DeviceChange::Close => await_return(device, || self.device_counts()),
        }
    }

    fn device_counts(&self) -> Result<DeviceCounts, LiveError> {
        self.machine
            .device_results(self.scenario, self.clients.borrow().openings())
    }

    fn counts(&self) -> Result<Counts, LiveError> {
        let mut counts = self.machine.counts(self.scenario, false)?;
        counts.store.reads += self.files_read.get();
        Ok(counts)
    }

    fn release(&self) {
        // Where it is refused the server is gone, and with it the run.
        let _ = self.machine.set_pace(false);
    }

    /// The server does it by itself again.
    fn end_all_transfers(&self) {
        std::thread::sleep(LOOK);
    }
}
