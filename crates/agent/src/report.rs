//! Messages on the program's standard error, for what it must not hide.
//!
//! The descriptor 2 of the program's main thread is taken as it is at that moment, from the process itself: so messages
//! go where the program's own go, also to a socket, and behind what others have written to a file. No duplicate is
//! kept: whoever waits for the end of a pipe must not wait for the agent.

use crate::sys::table::Table;
use crate::sys::{self, Answer, Errno};
use crate::threads::mailbox;

const STANDARD_ERROR: i32 = 2;
const BROKEN_PIPE: i32 = 32;

/// Writes one line, where there is room for it within a moment.
pub(crate) fn say(parts: &[&[u8]]) {
    let mut line = [0_u8; 1024];
    let mut length = 0;
    let pieces = [&b"freehold: "[..]]
        .into_iter()
        .chain(parts.iter().copied())
        .chain([&b"\n"[..]]);
    for byte in pieces.flatten() {
        if let Some(place) = line.get_mut(length) {
            *place = *byte;
            length += 1;
        }
    }
    let line = line.get(..length).unwrap_or_default();
    // Without a way to the main thread's descriptor the calling thread's is as good a guess as any, if it has one.
    match standard_error() {
        Ok(fd) => {
            write(fd, line);
            sys::close(fd);
        }
        Err(_) => {
            if let Ok(fd) = sys::open(b"/proc/self/fd/2\0", true) {
                write(fd, line);
                sys::close(fd);
            }
        }
    }
}

/// Says why the program cannot go on, and ends it: it would read wrong bytes, or wait for ever.
pub(crate) fn end(why: &[u8], errno: Errno) -> ! {
    let mut buffer = [0; 20];
    let number = digits(u64::from(errno.0.unsigned_abs()), &mut buffer);
    say(&[why, b", error ", number, b": the program is killed"]);
    sys::kill_self()
}

/// A duplicate of the main thread's descriptor, in the calling thread's table.
fn standard_error() -> Result<i32, Errno> {
    Table::of_the_first()?.duplicate(STANDARD_ERROR)
}

/// Writes as one would to a terminal: where nobody reads, no signal tells the program.
fn write(fd: i32, line: &[u8]) {
    const WRITABLE: u64 = 4 << 32;
    const MILLISECONDS: usize = 200;
    let mut wanted = u64::from(fd.cast_unsigned()) | WRITABLE;
    let place = core::ptr::from_mut(&mut wanted) as usize;
    // SAFETY: the one structure of this call.
    let ready = unsafe { sys::call5(sys::POLL, place, 1, MILLISECONDS, 0, 0) };
    if ready != Ok(1) {
        return;
    }
    let mask = mailbox::block_signals();
    // SAFETY: reads inside the line.
    let written: Answer = unsafe { sys::call5(sys::WRITE, sys::arg(fd), line.as_ptr() as usize, line.len(), 0, 0) };
    if written.is_err_and(|errno| errno.0 == BROKEN_PIPE) && mask & signal_bit() == 0 {
        forget_broken_pipe();
    }
    mailbox::restore_signals(mask);
}

const fn signal_bit() -> u64 {
    const PIPE: u32 = 13;
    1 << (PIPE - 1)
}

/// Takes the signal that a write to a pipe without readers has raised for this thread.
fn forget_broken_pipe() {
    const SIGTIMEDWAIT: usize = 128;
    let (set, none) = (signal_bit(), [0_u64; 2]);
    let (set, none) = (core::ptr::from_ref(&set) as usize, none.as_ptr() as usize);
    // SAFETY: reads the set and the time; nobody wants to know of the signal.
    let _ = unsafe { sys::call5(SIGTIMEDWAIT, set, 0, none, 8, 0) };
}

/// A number in decimal digits, at the end of the buffer.
pub(crate) fn digits(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut start = buffer.len();
    for place in buffer.iter_mut().rev() {
        *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
        start -= 1;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    buffer.get(start..).unwrap_or_default()
}
