//! Service threads: threads of Freehold's own in somebody else's process.

use crate::Errno;
use crate::thread::{self, Thread};
use std::io;

/// Makes a thread that takes no signals of the process, so that handlers of the application never run in it.
///
/// # Errors
/// The system's refusal of a thread.
pub fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Thread<T>> {
    // The new thread inherits the mask.
    with_signals_blocked(|| thread::spawn(name, work))?
}

/// Does `work` with every signal blocked in the calling thread. What it has blocked afterwards is what it had before.
///
/// # Errors
/// The kernel's refusal of a mask, which nothing is known to cause.
pub(crate) fn with_signals_blocked<R>(work: impl FnOnce() -> R) -> Result<R, Errno> {
    let before = block_all_signals()?;
    let result = work();
    restore_signals(&before);
    Ok(result)
}

/// Blocks every signal in the calling thread; returns the mask before.
fn block_all_signals() -> Result<libc::sigset_t, Errno> {
    // SAFETY: an all-zero sigset_t is a valid value; the calls only write the sets they are given and read the first.
    let (result, before) = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        let result = libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        (result, before)
    };
    match result {
        0 => Ok(before),
        error => Err(Errno::from_raw_os_error(error)),
    }
}

fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: the mask is one that `block_all_signals` filled; the old one is not asked for.
    let result = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
    debug_assert_eq!(result, 0, "setting a mask that was in force has no failure");
}

#[cfg(test)]
mod tests {
    use super::spawn;

    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn a_service_thread_takes_no_signals_and_its_maker_still_does() {
        let before = blocked();
        let inside = spawn("service", blocked).unwrap().join().unwrap();
        assert_eq!(blocked(), before);
        // Every standard signal but SIGKILL and SIGSTOP, which nobody blocks.
        let unblockable = (1 << 8) | (1 << 18);
        assert_eq!(inside & 0x7fff_ffff, 0x7fff_ffff & !unblockable);
    }
}
