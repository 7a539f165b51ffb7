//! The turn that lets one task's thread run at a time.
//!
//! The coordinator gives a thread a command, and waits until the thread is idle again or blocked in a fault. A thread
//! whose fault was answered does not go on by itself: it waits, in the handler, for the coordinator's permission,
//! because the simulator makes the access only when the task has a CPU again.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use freehold_core::id::TaskId;
use freehold_linux::clock::MonotonicTime;
use freehold_linux::{clock, futex};
use freehold_pager::Watch;

/// Waiting for a command.
pub(crate) const IDLE: u32 = 0;
/// Carrying one out.
pub(crate) const RUNNING: u32 = 1;
/// In a fault that waits.
pub(crate) const BLOCKED: u32 = 2;
/// Its fault was answered and the answer is carried out; it waits for permission.
pub(crate) const ANSWERED: u32 = 3;
/// How long the coordinator waits for a thread before it gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The states of all tasks' threads, by the core's task slots.
#[derive(Debug)]
pub(crate) struct Turns {
    states: Box<[AtomicU32]>,
    /// Whether the fault answered last was answered with an error.
    failed: Box<[AtomicBool]>,
    /// Nobody waits for permission any more: the schedule is over.
    released: AtomicBool,
}

impl Turns {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            states: (0..slots).map(|_| AtomicU32::new(IDLE)).collect(),
            failed: (0..slots).map(|_| AtomicBool::new(false)).collect(),
            released: AtomicBool::new(false),
        }
    }

    pub(crate) fn state(&self, slot: usize) -> u32 {
        self.states[slot].load(Ordering::Acquire)
    }

    /// Whether the fault answered last was answered with an error: its access is over.
    pub(crate) fn has_failed(&self, slot: usize) -> bool {
        self.failed[slot].load(Ordering::Acquire)
    }

    /// Sets a state and wakes whoever waits for a change. Async-signal-safe.
    pub(crate) fn set(&self, slot: usize, state: u32) {
        self.states[slot].store(state, Ordering::Release);
        futex::wake(&self.states[slot], u32::MAX);
    }

    /// Waits until the thread's state is one of `wanted`; `None` where it does not come to that.
    pub(crate) fn wait_for(&self, slot: usize, wanted: &[u32]) -> Option<u32> {
        self.wait_until(slot, wanted, clock::now().saturating_add(PATIENCE))
    }

    /// The same, until then at most.
    pub(crate) fn wait_until(&self, slot: usize, wanted: &[u32], until: MonotonicTime) -> Option<u32> {
        loop {
            let state = self.state(slot);
            if wanted.contains(&state) {
                return Some(state);
            }
            if clock::now() >= until {
                return None;
            }
            // Woken, changed, timed out or interrupted: the state decides.
            let _ = futex::wait(&self.states[slot], state, Some(until));
        }
    }

    /// Lets every thread go on without permission.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::Release);
        for slot in 0..self.states.len() {
            if self.state(slot) == ANSWERED {
                self.set(slot, RUNNING);
            }
        }
    }
}

impl Watch for Turns {
    fn blocked(&self, task: TaskId) {
        self.set(task.index(), BLOCKED);
    }

    fn answered(&self, slot: usize) {
        // Who needs no permission may be in its next fault by now. There is no simulator left to keep up with.
        if self.released.load(Ordering::Acquire) {
            return;
        }
        // What was decided together with the answer must not overtake it: in the simulator the page is mapped by now.
        let _ = self.wait_for(slot, &[ANSWERED, RUNNING, IDLE]);
    }

    fn resumed(&self, task: TaskId, failed: bool) {
        let slot = task.index();
        self.failed[slot].store(failed, Ordering::Release);
        self.set(slot, ANSWERED);
        while self.state(slot) == ANSWERED && !self.released.load(Ordering::Acquire) {
            let soon = clock::now().saturating_add(Duration::from_millis(100));
            let _ = futex::wait(&self.states[slot], ANSWERED, Some(soon));
        }
        self.set(slot, RUNNING);
    }
}
