//! A server in this process, whose engine waits for the conductor's word. The threads of the run are its clients, and
//! fault as the clients of any server do.
//!
//! What the conductor learns of a blocked thread in the other placement from the thread itself, in its handler, it asks
//! the engine here: the thread sleeps in the kernel.

use std::cell::Cell;
use std::time::Duration;

use freehold_core::fact::Request;
use freehold_core::pinning::JobReport;
use freehold_linux::clock;
use freehold_scenario::{RegionKind, Scenario, TaskIndex};
use freehold_server::serve::InProcess;
use freehold_server::{ObjectKey, Standing, TaskKey};

use crate::error::LiveError;
use crate::lockstep::placement::{EndedTransfer, LockstepPlacement};
use crate::lockstep::turn::{ANSWERED, BLOCKED, IDLE, RUNNING, Turns};
use crate::placement::server::{Openings, ServerError, ServerPlacement};
use crate::result::{Counts, DeviceCounts};
use crate::watch::Paging;

/// How long the conductor waits for anything before it gives up.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it waits for a thread before it asks the engine, at first, and at last: to ask keeps that from its work.
const LOOK: Duration = Duration::from_micros(50);
const LONGEST_LOOK: Duration = Duration::from_millis(2);

/// The server, and what its engine calls the tasks and regions. A thread's slot is its task's position.
pub(super) struct Served<'a> {
    scenario: &'a Scenario,
    machine: &'a ServerPlacement,
    turns: &'a Turns,
    server: &'a InProcess,
    tasks: Vec<TaskKey>,
    objects: Vec<ObjectKey>,
    /// Pages of files that were read: the simulator's store reads them, a server's does not.
    files_read: Cell<u64>,
}

impl<'a> Served<'a> {
    /// From now on the engine waits.
    pub(super) fn new(
        scenario: &'a Scenario,
        machine: &'a ServerPlacement,
        turns: &'a Turns,
    ) -> Result<Self, ServerError> {
        let server = machine.host().driven();
        let server = server.ok_or_else(|| ServerError::Unnamed("an engine in this process".to_owned()))?;
        let unnamed = |name: &str| ServerError::Unnamed(name.to_owned());
        let task = |name: &str| server.task(name).ok_or_else(|| unnamed(name));
        let object = |name: &String| server.object(name).ok_or_else(|| unnamed(name));
        let tasks = scenario
            .tasks
            .iter()
            .map(|row| task(&row.name))
            .collect::<Result<_, _>>()?;
        let objects = machine.region_names().iter().map(object).collect::<Result<_, _>>()?;
        server.hold(true);
        Ok(Self {
            scenario,
            machine,
            turns,
            server,
            tasks,
            objects,
            files_read: Cell::new(0),
        })
    }

    /// The state of a thread: of one that is at work, the engine knows more. What will change by itself does not count.
    fn state(&self, slot: usize) -> u32 {
        let state = self.turns.state(slot);
        if state != RUNNING {
            return state;
        }
        match self.server.standing(self.tasks[slot]) {
            (Standing::Waits, 0) => BLOCKED,
            (Standing::Answered, 0) => ANSWERED,
            _ => RUNNING,
        }
    }
}

/// Tries until it is done; `what` has not happened where it never is.
fn patiently(what: &str, attempt: impl Fn() -> bool) -> Result<(), String> {
    let until = clock::now().saturating_add(PATIENCE);
    while !attempt() {
        if clock::now() >= until {
            return Err(what.to_owned());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

impl LockstepPlacement for Served<'_> {
    fn wait_for(&self, slot: usize, wanted: &[u32]) -> Option<u32> {
        let until = clock::now().saturating_add(PATIENCE);
        // Who may become idle says so itself; of others the engine knows at once.
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
        let goes = self.server.let_go(self.tasks[slot]);
        goes.then_some(())
            .ok_or_else(|| "the thread does not wait for a word".to_owned())
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
        let object = self.objects[region.get()];
        // A device may still be at it.
        patiently("no such transfer is under way", || {
            self.server.end_transfer(object, page, request)
        })?;
        self.await_orders()?;
        let file = self.scenario.regions[region.get()].kind == RegionKind::File;
        self.files_read
            .set(self.files_read.get() + u64::from(file && request == Request::Fill && !cached));
        Ok(())
    }

    fn await_orders(&self) -> Result<(), String> {
        patiently("the agent does not carry out its orders", || self.server.orders() == 0)
    }

    fn report(&self, task: TaskIndex, report: &JobReport) -> Result<(), String> {
        let pool = self.machine.tasks()[task.get()].pool.as_ref();
        let told = pool.ok_or("the task has no pinned page pool")?.judge(report, None);
        told.map(|_| ()).map_err(|reason| reason.to_string())
    }

    fn device_counts(&self, found: &[Openings]) -> Result<DeviceCounts, LiveError> {
        self.server.spoil_pictures();
        self.machine.device_results(self.scenario, found)
    }

    fn counts(&self) -> Result<Counts, LiveError> {
        self.server.spoil_pictures();
        let mut counts = self.machine.counts(self.scenario, false)?;
        counts.store.reads += self.files_read.get();
        Ok(counts)
    }

    fn release(&self) {
        self.server.hold(false);
    }

    /// The engine does it by itself again.
    fn end_all_transfers(&self) {
        std::thread::sleep(LOOK);
    }
}
