//! `mremap`, and orders that were given before it.
//!
//! An order names an address, and what it takes from there must be what it was given for. New memory is no danger: the
//! server puts nothing at an address while an order for it is unanswered. But with `mremap` a program puts pages there
//! itself. Taken in place of what was there before, they would be lost, because the server believes them to be where
//! they were moved to.
//!
//! So no page is moved out while a call is under way, and what was ordered before one has ended is refused. The kernel
//! lets the call return when the server has read of it: what is ordered afterwards means what is there now.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use freehold_protocol::channel::is_before;

use crate::{hooks, mailbox, process, start, sys};

const MAY_MOVE: usize = 1;
const FIXED: usize = 2;
/// `MREMAP_FIXED` and `MREMAP_DONTUNMAP`, with which there is a fifth argument.
const WITH_ADDRESS: usize = 6;

/// Calls of `mremap` that may move memory.
#[derive(Debug)]
pub(crate) struct Remaps {
    begun: AtomicU32,
    ended: AtomicU32,
    /// Orders that the server had written when the last one ended, modulo 2³².
    written: AtomicU32,
}

/// What there was of such calls while none was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    ended: u32,
    /// Orders that are older, modulo 2³².
    pub(crate) written: u32,
}

impl Remaps {
    /// What there was so far, where none is under way.
    pub(crate) fn settled(&self) -> Option<Settled> {
        let ended = self.ended.load(Ordering::SeqCst);
        let written = self.written.load(Ordering::SeqCst);
        // Last: none has begun that had not ended at first.
        (self.begun.load(Ordering::SeqCst) == ended).then_some(Settled { ended, written })
    }

    fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// One has ended; so many orders had been written then.
    fn end(&self, written: u32) {
        // Of two that end together, what the later one has seen stays.
        let later = |before| is_before(before, written).then_some(written);
        let _ = self.written.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// In place of the C library's.
pub(crate) extern "C" fn mremap(
    from: *mut c_void,
    before: usize,
    length: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let flags = sys::arg(flags);
    let to = if flags & WITH_ADDRESS == 0 { 0 } else { to as usize };
    if flags & FIXED != 0 {
        hooks::make_way(to, length);
    }
    let call = || {
        // SAFETY: the program's own call.
        unsafe { sys::call(sys::MREMAP, [from as usize, before, length, flags, to, 0]) }
    };
    let moved = if flags & MAY_MOVE == 0 {
        call()
    } else {
        with_pages_staying(call)
    };
    match moved {
        Ok(at) => core::ptr::with_exposed_provenance_mut(at),
        Err(errno) => hooks::fail(errno, core::ptr::without_provenance_mut(usize::MAX)),
    }
}

/// Makes a call that moves memory, while the agent thread moves none.
fn with_pages_staying<T>(call: impl FnOnce() -> T) -> T {
    let Some(process) = process::process() else {
        return call();
    };
    // A handler that does not return here would leave the agent waiting for the end of the call.
    let mask = (!hooks::is_filtered()).then(mailbox::block_signals);
    process.remaps.begin();
    hooks::wait_for_moves();
    let answer = call();
    let written = start::client_of(process).map_or(0, |client| client.channel().orders.written());
    process.remaps.end(written);
    if let Some(mask) = mask {
        mailbox::restore_signals(mask);
    }
    answer
}
