//! The C library's `mremap`, with which a program moves memory to where other memory may have been.

use core::ffi::{c_int, c_void};

use crate::sys::{self, Answer, Errno};
use crate::{hooks, locks, mailbox, process, start};

const MAY_MOVE: usize = 1;
const FIXED: usize = 2;
/// `MREMAP_FIXED` and `MREMAP_DONTUNMAP`, with which there is a fifth argument.
const WITH_ADDRESS: usize = 6;

/// In place of `mremap`.
pub(crate) extern "C" fn mremap(
    from: *mut c_void,
    before: usize,
    length: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let flags = sys::arg(flags);
    let to = if flags & WITH_ADDRESS == 0 { 0 } else { to as usize };
    let way = (flags & FIXED != 0).then(|| hooks::make_way(to, length));
    let call = || {
        // SAFETY: the program's own call.
        unsafe { sys::call(sys::MREMAP, [from as usize, before, length, flags, to, 0]) }
    };
    let moved = if flags & MAY_MOVE == 0 {
        call()
    } else {
        with_pages_staying(call)
    };
    drop(way);
    let kept = moved.and_then(|at| {
        let may = length <= before || locks::lock_new(at, length, sys::PROT_READ | sys::PROT_WRITE, true);
        if may {
            return Ok(at);
        }
        // Where it is, and as long as it was.
        let flags = if at == from as usize { 0 } else { MAY_MOVE | FIXED };
        // SAFETY: memory of the program's own call, which is told that nothing has changed.
        let back = || unsafe { sys::call(sys::MREMAP, [at, length, before, flags, from as usize, 0]) };
        let _ = with_pages_staying(back);
        Err(Errno::NOMEM)
    });
    match kept {
        Ok(at) => core::ptr::with_exposed_provenance_mut(at),
        Err(errno) => hooks::fail(errno, core::ptr::without_provenance_mut(usize::MAX)),
    }
}

/// Moves memory that is not managed to where other memory may be, which goes.
pub(crate) fn replace(from: usize, length: usize, to: usize) -> Answer {
    let way = hooks::make_way(to, length);
    let moved = with_pages_staying(|| {
        // SAFETY: the caller's memory, in the place that the program has named.
        unsafe { sys::call(sys::MREMAP, [from, length, length, MAY_MOVE | FIXED, to, 0]) }
    });
    drop(way);
    moved
}

/// Makes a call that moves memory, while the agent thread moves none ([`crate::moves`]).
fn with_pages_staying<T>(call: impl FnOnce() -> T) -> T {
    let Some(process) = process::process() else {
        return call();
    };
    // A handler that does not return here would leave the agent waiting for the end of the call.
    let mask = (!hooks::is_filtered()).then(mailbox::block_signals);
    process.moves.begin();
    hooks::wait_for_moves();
    let answer = call();
    let written = start::client_of(process).map_or(0, |client| client.channel().orders.written());
    process.moves.end(written);
    if let Some(mask) = mask {
        mailbox::restore_signals(mask);
    }
    answer
}
