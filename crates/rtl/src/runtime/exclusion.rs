//! What stands for disabled interrupts: a lock of the process's real-time side, whose holder runs above all its other
//! threads. Linux and its own interrupts go on.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use freehold_shm::pi_word::PiWord;

use super::life::system_priority;
use super::pi_word;
use super::thread::current;

/// Above every thread of a module.
const CEILING: i32 = 95;

// SAFETY: a `PiWord` is a word of 32 bits, and zero is a free lock.
static LOCK: PiWord = unsafe { std::mem::transmute::<u32, PiWord>(0) };

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Keeps all other threads of modules from running what they do under exclusion. How deep it was before.
pub(crate) fn exclude() -> u32 {
    let depth = DEPTH.get();
    if depth == 0 {
        set_priority(CEILING);
        // A failure is a circle of waits, which one lock cannot have.
        let _ = pi_word::take(&LOCK, None);
    }
    DEPTH.set(depth + 1);
    depth
}

/// Goes back to `depth`; the lock is given back with the outermost.
pub(crate) fn admit(depth: u32) {
    if DEPTH.get() == 0 || depth >= DEPTH.get() {
        return;
    }
    DEPTH.set(depth);
    if depth == 0 {
        let _ = pi_word::release(&LOCK);
        let own = current().map(|thread| thread.schedule.priority.load(Ordering::Relaxed));
        if let Some(priority) = own {
            set_priority(system_priority(priority));
        }
    }
}

/// How deep the calling thread is in it.
pub(crate) fn depth() -> u32 {
    DEPTH.get()
}

/// Gives back whatever the calling thread holds.
pub(crate) fn release_all() {
    admit(0);
}

fn set_priority(priority: i32) {
    if current().is_none() {
        return;
    }
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: valid parameters for the calling thread. It had a real-time priority before, so it may have this one, or
    // keeps its own.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
}
