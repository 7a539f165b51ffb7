//! Filters of system calls that the program sets up (seccomp(2)).
//!
//! From then on this library makes no calls of its own on the program's threads, and new memory stays the kernel's.

use core::sync::atomic::{AtomicU32, Ordering};

use freehold_protocol::message::Stranger;

use crate::client::{Client, attach};
use crate::kernel_paths::core_file;
use crate::sys::{self, Answer};
use crate::threads::{alone, mailbox};
use crate::{process, programs};

pub(crate) mod own_calls;

use own_calls::{Instruction, Program};

/// `seccomp` (seccomp(2)).
pub(crate) const SECCOMP: usize = 317;

/// What the table's `filtered` says, in a forked child too: filters are inherited, and this word is not wiped.
static FILTERED: AtomicU32 = AtomicU32::new(0);
/// 1 once a filter may bind the agent's own threads (`SECCOMP_FILTER_FLAG_TSYNC`).
static SYNCHRONISED: AtomicU32 = AtomicU32::new(0);

/// 1 once a filter may be in force, not only tried: it may end whoever makes a call that the program does not make.
static IN_FORCE: AtomicU32 = AtomicU32::new(0);

/// Notes that a filter is being set up. The server is told before.
fn note() {
    core_file::end();
    let Some(process) = process::process() else {
        FILTERED.store(1, Ordering::Relaxed);
        return;
    };
    if !is_there() && process.phase.load(Ordering::Acquire) == process::READY {
        let mut name = [0_u8; 16];
        attach::thread_name(&mut name);
        programs::tell(process, Stranger::Filter, &name);
    }
    FILTERED.store(1, Ordering::SeqCst);
    process.filtered.store(1, Ordering::Relaxed);
}

/// Whether the program has set up a filter.
pub(crate) fn is_there() -> bool {
    FILTERED.load(Ordering::SeqCst) != 0
}

/// Whether a filter may bind the agent's own threads.
pub(crate) fn binds_agent() -> bool {
    SYNCHRONISED.load(Ordering::SeqCst) != 0
}

/// Notes what a call of `prctl` with `PR_SET_SECCOMP` is about to set up.
pub(crate) fn before_prctl(mode: usize, filter: usize) {
    /// `SECCOMP_MODE_FILTER`
    const FILTER: usize = 2;
    // Without a filter it only finds out whether the kernel knows of them.
    if mode != FILTER || filter != 0 {
        note();
        IN_FORCE.store(1, Ordering::Relaxed);
    }
}

/// Makes a call of `seccomp`, and notes before what it is about to set up.
///
/// A program of one thread has no other to synchronise: without that flag the filter does not bind the agent's threads
/// either. Where it does, it lets pass what they do ([`own_calls`]).
pub(crate) fn set_up(operation: usize, flags: usize, filter: usize, rest: [usize; 3]) -> Answer {
    /// `SECCOMP_SET_MODE_FILTER`; the operations behind it only ask.
    const SET_FILTER: usize = 1;
    const SYNCHRONISE: usize = 1;
    /// With this flag the kernel refuses the other, or wants a third beside it.
    const NEW_LISTENER: usize = 8;
    let [d, e, f] = rest;
    let call = |flags, filter| {
        // SAFETY: the program's own call, or one that differs in what lets the agent's calls pass.
        let answer = unsafe { sys::call(SECCOMP, [operation, flags, filter, d, e, f]) };
        if answer.is_ok() && operation <= SET_FILTER {
            IN_FORCE.store(1, Ordering::Relaxed);
        }
        answer
    };
    // Without a filter it only finds out which flags the kernel knows, as libseccomp does first of all.
    if operation > SET_FILTER || operation == SET_FILTER && filter == 0 {
        return call(flags, filter);
    }
    if operation != SET_FILTER || flags & SYNCHRONISE == 0 {
        note();
        return call(flags, filter);
    }
    let alone = flags & NEW_LISTENER == 0 && alone::is_only_thread();
    let flags = if alone { flags & !SYNCHRONISE } else { flags };
    // Under an earlier filter nothing is asked of the kernel: the program's word is taken for it.
    let instructions = instructions(filter, IN_FORCE.load(Ordering::Relaxed) == 0);
    let client = process::process().and_then(attach::client_of);
    let is_first = !is_there();
    note();
    if !alone {
        SYNCHRONISED.store(1, Ordering::SeqCst);
        if let Some(client) = client.filter(|_| is_first) {
            calm(client);
        }
    }
    let set = |changed: Option<usize>| call(flags, changed.unwrap_or(filter));
    match client.zip(instructions) {
        Some((client, instructions)) => own_calls::with(client, instructions, set),
        None => set(None),
    }
}

/// Waits, before the first filter that binds the agent's threads, until neither makes a call that it may not let pass.
/// From here on the agent thread is asked for nothing, and the watcher begins none.
fn calm(client: &Client) {
    if let Some(process) = process::process() {
        mailbox::hold(process, || ());
    }
    client.life.await_watcher();
}

/// The instructions of a program's filter. None where the kernel could not read them, which it says itself.
fn instructions(filter: usize, asks: bool) -> Option<&'static [Instruction]> {
    let may_read = |start, length| !asks || sys::may_read(start, length);
    if !filter.is_multiple_of(align_of::<Program>()) || !may_read(filter, size_of::<Program>()) {
        return None;
    }
    // SAFETY: it may be read, and belongs to the call that the program waits for.
    let Program { length, place } = unsafe { *core::ptr::with_exposed_provenance(filter) };
    let bytes = usize::from(length) * size_of::<Instruction>();
    if length == 0 || !place.is_multiple_of(align_of::<Instruction>()) || !may_read(place, bytes) {
        return None;
    }
    // SAFETY: as above.
    Some(unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(place), usize::from(length)) })
}
