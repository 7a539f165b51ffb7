//! The end of a program whose threads have ended one by one: the kernel waits for the agent's threads, which stay.
//!
//! The C library ends the whole process with its last thread. A thread that ends by a system call of its own, or that a
//! filter of system calls ends (`SECCOMP_RET_KILL_THREAD`, the strict mode), does not, and no descriptor tells of it.

use crate::client::Client;
use crate::kernel_paths::core_file;
use crate::sys;
use crate::threads::mailbox;

const EXIT_GROUP: usize = 231;

/// Ends the process as its first thread has ended.
pub(crate) fn end(status: usize) {
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

/// What `wait` would say of the first thread, where it has ended and all others of the program with it, and so many of
/// this library are left. Done under a filter that binds this thread, too.
pub(crate) fn status(client: &Client, own: u64) -> Option<usize> {
    let mut text = [0_u8; 1024];
    let length = sys::read_at(client.descriptors.stat, &mut text, 0).ok()?;
    let text = text.get(..length)?;
    is_alone(text, own).then(|| exit_code(text))?
}

/// Whether the first thread has ended, and no other is there beside the agent's, by what the kernel says of a process.
/// The first one counts until all have ended.
fn is_alone(stat: &[u8], own: u64) -> bool {
    let rest = stat.rsplit(|byte| *byte == b')').next().unwrap_or_default();
    let mut fields = rest.split(|byte| *byte == b' ').skip(1);
    let has_ended = fields.next() == Some(b"Z");
    let threads = fields.nth(16).and_then(|number| core::str::from_utf8(number).ok());
    has_ended && threads.and_then(|number| number.parse().ok()) == Some(1 + own)
}

/// The last field of what the kernel says of a process.
fn exit_code(stat: &[u8]) -> Option<usize> {
    let number = stat.trim_ascii_end().rsplit(|byte| *byte == b' ').next()?;
    core::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{exit_code, is_alone};

    #[test]
    fn who_is_left_is_known_by_the_line_of_the_process() {
        let line = |name: &str, state: &str, threads: u32| {
            format!("7 ({name}) {state} 1 7 7 0 -1 4 0 0 0 0 0 0 0 0 20 0 {threads} 0 55 8 9 10\n")
        };
        assert!(is_alone(line("a", "Z", 3).as_bytes(), 2));
        assert!(is_alone(line("a", "Z", 2).as_bytes(), 1));
        assert!(is_alone(line("a) R 3 (", "Z", 3).as_bytes(), 2));
        assert!(!is_alone(line("a) Z 3", "S", 3).as_bytes(), 2));
        assert!(!is_alone(line("a", "Z", 4).as_bytes(), 2));
        assert!(!is_alone(line("a", "Z", 3).as_bytes(), 1));
        assert!(!is_alone(line("a", "S", 3).as_bytes(), 2));
        assert_eq!(exit_code(line("a", "Z", 3).as_bytes()), Some(10));
        assert!(!is_alone(b"", 2) && !is_alone(b"7 (a) Z", 2));
    }
}
