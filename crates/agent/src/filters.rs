//! Filters of system calls that the program sets up (seccomp(2)).
//!
//! From then on this library makes no calls of its own on the program's threads, and new memory stays the kernel's.

use core::sync::atomic::Ordering;

use freehold_protocol::message::Stranger;

use crate::{core_file, process, programs, start, sys};

/// Notes that a filter is being set up. The server is told before.
pub(crate) fn note() {
    core_file::end();
    let Some(process) = process::process() else {
        process::FILTERED.store(1, Ordering::Relaxed);
        return;
    };
    if !is_there() && process.phase.load(Ordering::Acquire) == process::READY {
        let mut name = [0_u8; 16];
        start::thread_name(&mut name);
        programs::tell(process, Stranger::Filter, &name);
    }
    process::FILTERED.store(1, Ordering::Relaxed);
    process.filtered.store(1, Ordering::Relaxed);
}

/// Whether the program has set up a filter.
pub(crate) fn is_there() -> bool {
    process::FILTERED.load(Ordering::Relaxed) != 0
}

/// Notes what a call of `seccomp` is about to set up, and tells with which flags it is to be made. A program of one
/// thread has no other to synchronise: without that flag the filter does not bind the agent's threads either.
pub(crate) fn before(operation: usize, flags: usize) -> usize {
    /// `SECCOMP_SET_MODE_FILTER`; the operations behind it only ask.
    const SET_FILTER: usize = 1;
    const SYNCHRONISE: usize = 1;
    /// With this flag the kernel refuses the other, or wants a third beside it.
    const NEW_LISTENER: usize = 8;
    if operation > SET_FILTER {
        return flags;
    }
    let synchronises = operation == SET_FILTER && flags & SYNCHRONISE != 0;
    let alone = synchronises && flags & NEW_LISTENER == 0 && is_only_thread();
    if synchronises && !alone {
        process::SYNCHRONISED.store(1, Ordering::Relaxed);
    }
    note();
    if alone { flags & !SYNCHRONISE } else { flags }
}

/// Whether the program has this thread only, beside the agent's two.
fn is_only_thread() -> bool {
    // The directory itself has two names.
    const THREE: u64 = 2 + 3;
    let ready = |process: &process::Process| process.phase.load(Ordering::Acquire) == process::READY;
    !is_there() && process::process().is_some_and(ready) && sys::links(b"/proc/self/task\0") == Ok(THREE)
}
