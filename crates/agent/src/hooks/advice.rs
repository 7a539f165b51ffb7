//! The C library's `madvise` and `process_madvise`: advice of which the kernel tells the server nothing, or too little.
//!
//! - Guard pages (Linux 6.13) take the content away without a word: the range is dropped as well, of which the kernel
//!   tells, and which leaves the guards where they are.
//! - `MADV_FREE` is told of as if all had been dropped, and leaves pages that the program may fill again unseen. It may
//!   drop them at any moment, so they are dropped at once.
//! - What children of a fork are to have of a range the kernel keeps to itself, and the server is told by the agent.
//!
//! Everything else either changes no content or is told of (`docs/book/src/memory-calls.md`).

use core::ffi::{c_int, c_void};

use crate::forks::inheritance;
use crate::hooks;
use crate::process::{PAGE, whole_pages};
use crate::sys::{self, Answer, Errno};
use crate::threads::mailbox;

const DONT_NEED: usize = 4;
const FREE: usize = 8;
const DONT_FORK: usize = 10;
const DO_FORK: usize = 11;
const WIPE_ON_FORK: usize = 18;
const KEEP_ON_FORK: usize = 19;
const GUARD_INSTALL: usize = 102;

/// In place of the C library's `madvise`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    match advise(address as usize, length, sys::arg(advice)) {
        Ok(_) => 0,
        Err(errno) => hooks::fail(errno, -1),
    }
}

/// In place of the C library's `process_madvise`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn process_madvise(
    process: c_int,
    parts: *const c_void,
    count: usize,
    advice: c_int,
    flags: u32,
) -> isize {
    let (process, advice) = (sys::arg(process), sys::arg(advice));
    // SAFETY: the caller's word.
    match unsafe { advise_process(process, parts as usize, count, advice, flags as usize) } {
        Ok(bytes) => bytes.cast_signed(),
        Err(errno) => hooks::fail(errno, -1),
    }
}

/// The program's advice, and what the server is to know of it.
pub(crate) fn advise(address: usize, length: usize, advice: usize) -> Answer {
    // SAFETY: the program's own call.
    let answer = unsafe { sys::madvise(address, length, advice) };
    follow(address, length, advice, answer)
}

/// The same for several ranges, of a process. What is followed here the kernel takes of a process itself only.
///
/// # Safety
/// As the kernel's: `parts` are so many ranges, where it takes them.
pub(crate) unsafe fn advise_process(process: usize, parts: usize, count: usize, advice: usize, flags: usize) -> Answer {
    // SAFETY: the program's own call.
    let advised = unsafe { sys::call5(sys::PROCESS_MADVISE, process, parts, count, advice, flags) }?;
    if !is_followed(advice) {
        return Ok(advised);
    }
    let mut left = advised;
    for part in 0..count {
        // SAFETY: the kernel has just read them: an address and a length each.
        let [start, length] = unsafe { *core::ptr::with_exposed_provenance::<[usize; 2]>(parts).add(part) };
        let length = length.min(left);
        left -= length;
        if length > 0 {
            follow(start, length, advice, Ok(0))?;
        }
    }
    Ok(advised)
}

/// Whether more is to be done about an advice than the kernel does.
const fn is_followed(advice: usize) -> bool {
    matches!(
        advice,
        FREE | DONT_FORK | DO_FORK | WIPE_ON_FORK | KEEP_ON_FORK | GUARD_INSTALL
    )
}

fn follow(start: usize, length: usize, advice: usize, answer: Answer) -> Answer {
    // With a hole in the range the kernel has done all that is there, and says so.
    let done = matches!(answer, Ok(_) | Err(Errno::NOMEM));
    let length = whole_pages(length);
    match advice {
        FREE | GUARD_INSTALL if done => drop_range(start, length),
        // It has stopped somewhere.
        GUARD_INSTALL => drop_guarded(start, length),
        DONT_FORK if done => withhold(start, length, mailbox::DONT_FORK, DO_FORK)?,
        WIPE_ON_FORK if done => withhold(start, length, mailbox::WIPE_ON_FORK, KEEP_ON_FORK)?,
        DO_FORK if done => inheritance::give([start, length], mailbox::DO_FORK),
        KEEP_ON_FORK if done => inheritance::give([start, length], mailbox::KEEP_ON_FORK),
        _ => {}
    }
    answer
}

/// Tells the server that what is in the range is gone: the kernel does.
fn drop_range(start: usize, length: usize) {
    // SAFETY: the program has given the content up.
    let _ = unsafe { sys::madvise(start, length, DONT_NEED) };
}

/// Drops what of the range, from its beginning on, can be turned into guard pages, and is.
fn drop_guarded(start: usize, length: usize) {
    for page in (start..start.saturating_add(length)).step_by(PAGE) {
        // SAFETY: the program has asked for just this.
        if unsafe { sys::madvise(page, PAGE, GUARD_INSTALL) }.is_err() {
            return;
        }
        drop_range(page, PAGE);
    }
}

/// Has the server withhold a range from children. Where it cannot, the program's advice is taken back and refused.
fn withhold(start: usize, length: usize, request: u32, undo: usize) -> Result<(), Errno> {
    if length == 0 || inheritance::withhold([start, length], request) {
        return Ok(());
    }
    // SAFETY: what was so before the call.
    let _ = unsafe { sys::madvise(start, length, undo) };
    Err(Errno::NOMEM)
}
