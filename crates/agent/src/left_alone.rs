//! The end of a program whose threads have ended one by one: the kernel waits for the agent's threads, which stay.
//!
//! The C library ends the whole process with its last thread. A thread that ends by a system call of its own, or that a
//! filter of system calls ends (`SECCOMP_RET_KILL_THREAD`, the strict mode), does not, and no descriptor tells of it.

use crate::{core_file, mailbox, sys, watch};

const EXIT_GROUP: usize = 231;

/// Ends the process as its first thread has ended, where no other thread of the program is left.
pub(crate) fn end() {
    let Some(status) = status() else { return };
    let signal = status & 0x7F;
    if signal != 0 {
        core_file::end_by(signal);
        // Whatever else is pending stays so: handlers of the program are not for this thread.
        mailbox::restore_signals(!(1 << (signal - 1)));
        // SAFETY: touches no memory.
        let _ = unsafe {
            let process = sys::call5(sys::GETPID, 0, 0, 0, 0, 0).unwrap_or(0);
            sys::call5(sys::KILL, process, signal, 0, 0, 0)
        };
        mailbox::block_signals();
    }
    // SAFETY: ends the process as its last thread would have.
    let _ = unsafe { sys::call5(EXIT_GROUP, status >> 8 & 0xFF, 0, 0, 0, 0) };
}

/// What `wait` would say of the first thread, where it has ended and all others of the program with it.
fn status() -> Option<usize> {
    // The directory itself has two names; the first thread counts until all have ended.
    const FEW: u64 = 2 + 1 + watch::THREADS;
    let mut text = [0_u8; 1024];
    if sys::links(b"/proc/self/task\0").is_ok_and(|links| links > FEW) {
        return None;
    }
    let fd = sys::open(b"/proc/self/stat\0", false).ok()?;
    let length = sys::read(fd, &mut text).unwrap_or(0);
    sys::close(fd);
    let text = text.get(..length)?;
    if !text.windows(4).any(|part| part == b") Z ") {
        return None;
    }
    // The last field.
    let number = text.trim_ascii_end().rsplit(|byte| *byte == b' ').next()?;
    core::str::from_utf8(number).ok()?.parse().ok()
}
