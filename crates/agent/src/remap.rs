//! The C library's `mremap`, with which a program moves memory to where other memory may have been.

use core::ffi::{c_int, c_void};

use crate::inheritance::{self, Alike};
use crate::process::PAGE;
use crate::sys::{self, Answer, Errno};
use crate::{hooks, locks, mailbox, process, start};

const MAY_MOVE: usize = 1;
const FIXED: usize = 2;
const DONT_UNMAP: usize = 4;
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
    let grows = length > before;
    let moved = if flags & MAY_MOVE != 0 && flags & FIXED == 0 && before != 0 && (grows || flags & DONT_UNMAP != 0) {
        somewhere([from as usize, before], [to, length], flags)
    } else if flags & MAY_MOVE == 0 {
        if grows { told(call()) } else { call() }
    } else {
        with_pages_staying(call)
    };
    drop(way);
    let kept = moved.and_then(|at| {
        let may = !grows || locks::lock_new(at, length, sys::PROT_READ | sys::PROT_WRITE, true);
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
    if let Ok(at) = kept {
        spread([from as usize, before], [at, length], flags);
    }
    match kept {
        Ok(at) => core::ptr::with_exposed_provenance_mut(at),
        Err(errno) => hooks::fail(errno, core::ptr::without_provenance_mut(usize::MAX)),
    }
}

/// What children are not to have they have of nothing that has become of it: all is one mapping's, as it was.
fn spread([from, before]: [usize; 2], [at, length]: [usize; 2], flags: usize) {
    let [before, length] = [before, length].map(|bytes| bytes.next_multiple_of(PAGE));
    if before > 0 && length > before {
        inheritance::spread(Alike {
            start: at + before,
            length: length - before,
            other: at,
        });
    }
    if flags & DONT_UNMAP != 0 {
        inheritance::spread(Alike {
            start: from,
            length: before,
            other: at,
        });
    }
}

/// Makes memory longer where it is or, as for `MREMAP_DONTUNMAP`, has it move to where there is room.
///
/// Where the kernel chose the place, another thread's memory may just have been there, of which it has not told the
/// server yet: it would tell of the move first. So the room is made before, and all is told before the move.
fn somewhere([from, before]: [usize; 2], [hint, length]: [usize; 2], flags: usize) -> Answer {
    const PRIVATE: usize = 2;
    const NO_RESERVE: usize = 0x4000;
    let move_with = |flags: usize, to: usize| {
        // SAFETY: the program's own call; what may be at `to` was made for it.
        unsafe { sys::call(sys::MREMAP, [from, before, length, flags, to, 0]) }
    };
    let anywhere = || with_pages_staying(|| move_with(flags, hint));
    if !hooks::is_managed() {
        return anywhere();
    }
    if flags & DONT_UNMAP == 0 {
        match move_with(0, 0) {
            Err(Errno::NOMEM) => {}
            answer => return told(answer),
        }
    }
    let new = PRIVATE | sys::MAP_ANONYMOUS | NO_RESERVE;
    // SAFETY: new memory, which nobody can use.
    let Ok(room) = (unsafe { sys::call(sys::MMAP, [hint, length, 0, new, usize::MAX, 0]) }) else {
        // The program's limits count it beside what is moved.
        return anywhere();
    };
    // Where that is refused, the room may be gone already and be another thread's: it stays.
    told(Ok(room)).and_then(|room| with_pages_staying(|| move_with(flags | FIXED, room)))
}

/// What a call has made, once the server has been told of all that was there before.
fn told(answer: Answer) -> Answer {
    if let (Ok(_), Some(process)) = (answer, hooks::client_process()) {
        mailbox::ask(process, mailbox::AWAIT_TOLD, [0; 2], || ());
    }
    answer
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
