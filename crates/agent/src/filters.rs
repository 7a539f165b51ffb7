//! Filters of system calls that the program sets up (seccomp(2)).
//!
//! From then on this library makes no calls of its own on the program's threads, and new memory stays the kernel's.

use core::sync::atomic::{AtomicU32, Ordering};

use freehold_protocol::message::Stranger;

use crate::{core_file, process, programs, start, sys};

/// What the table's `filtered` says, in a forked child too: filters are inherited, and this word is not wiped.
static FILTERED: AtomicU32 = AtomicU32::new(0);
/// 1 once a filter may bind the agent's own threads (`SECCOMP_FILTER_FLAG_TSYNC`).
static SYNCHRONISED: AtomicU32 = AtomicU32::new(0);

/// Notes that a filter is being set up. The server is told before.
fn note() {
    core_file::end();
    let Some(process) = process::process() else {
        FILTERED.store(1, Ordering::Relaxed);
        return;
    };
    if !is_there() && process.phase.load(Ordering::Acquire) == process::READY {
        let mut name = [0_u8; 16];
        start::thread_name(&mut name);
        programs::tell(process, Stranger::Filter, &name);
    }
    FILTERED.store(1, Ordering::Relaxed);
    process.filtered.store(1, Ordering::Relaxed);
}

/// Whether the program has set up a filter.
pub(crate) fn is_there() -> bool {
    FILTERED.load(Ordering::Relaxed) != 0
}

/// Whether a filter may bind the agent's own threads.
pub(crate) fn binds_agent() -> bool {
    SYNCHRONISED.load(Ordering::Relaxed) != 0
}

/// Notes what a call of `prctl` with `PR_SET_SECCOMP` is about to set up.
pub(crate) fn before_prctl(mode: usize, filter: usize) {
    /// `SECCOMP_MODE_FILTER`
    const FILTER: usize = 2;
    // Without a filter it only finds out whether the kernel knows of them.
    if mode != FILTER || filter != 0 {
        note();
    }
}

/// Notes what a call of `seccomp` is about to set up, and tells with which flags it is to be made. A program of one
/// thread has no other to synchronise: without that flag the filter does not bind the agent's threads either.
pub(crate) fn before_seccomp(operation: usize, flags: usize, filter: usize) -> usize {
    /// `SECCOMP_SET_MODE_FILTER`; the operations behind it only ask.
    const SET_FILTER: usize = 1;
    const SYNCHRONISE: usize = 1;
    /// With this flag the kernel refuses the other, or wants a third beside it.
    const NEW_LISTENER: usize = 8;
    // Without a filter it only finds out which flags the kernel knows, as libseccomp does first of all.
    if operation > SET_FILTER || operation == SET_FILTER && filter == 0 {
        return flags;
    }
    let synchronises = operation == SET_FILTER && flags & SYNCHRONISE != 0;
    let alone = synchronises && flags & NEW_LISTENER == 0 && is_only_thread();
    if synchronises && !alone {
        SYNCHRONISED.store(1, Ordering::Relaxed);
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
