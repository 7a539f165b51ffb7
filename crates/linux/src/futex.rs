//! Futexes: wait for a word to change, wake who waits. Private to this process, or in memory shared with others.

use crate::clock::MonotonicTime;
use crate::{Errno, sys};
use std::sync::atomic::AtomicU32;

/// How a wait ended. Waits may also end for no reason: look at the word again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Waited {
    /// A wake was received.
    Woken,
    /// The word did not hold the expected value; nothing was waited for.
    Changed,
    /// The time was reached.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Sleeps while `word` holds `expected`, until woken or until `until` (no limit if `None`).
///
/// Async-signal-safe. The futex is private to this process.
///
/// # Errors
/// The kernel's refusal, which no valid argument causes.
pub fn wait(word: &AtomicU32, expected: u32, until: Option<MonotonicTime>) -> Result<Waited, Errno> {
    sleep(word, expected, until, libc::FUTEX_PRIVATE_FLAG)
}

/// As [`wait`], for a word in memory that other processes map too and wake with [`wake_shared`].
///
/// # Errors
/// As [`wait`].
pub fn wait_shared(word: &AtomicU32, expected: u32, until: Option<MonotonicTime>) -> Result<Waited, Errno> {
    sleep(word, expected, until, 0)
}

fn sleep(word: &AtomicU32, expected: u32, until: Option<MonotonicTime>, flag: i32) -> Result<Waited, Errno> {
    let time = until.map(MonotonicTime::timespec);
    let time_pointer = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` is a live, aligned 32-bit word for the whole call; the timespec is valid or null. With
    // FUTEX_WAIT_BITSET the time is absolute on CLOCK_MONOTONIC.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET | flag,
            expected,
            time_pointer,
            std::ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    match sys::check(result) {
        Ok(_) => Ok(Waited::Woken),
        Err(Errno::AGAIN) => Ok(Waited::Changed),
        Err(Errno::TIMEDOUT) => Ok(Waited::TimedOut),
        Err(Errno::INTR) => Ok(Waited::Interrupted),
        Err(errno) => Err(errno),
    }
}

/// Wakes up to `count` threads that wait on `word`; returns how many. Async-signal-safe.
pub fn wake(word: &AtomicU32, count: u32) -> usize {
    rouse(word, count, libc::FUTEX_PRIVATE_FLAG)
}

/// As [`wake`], for who sleeps in [`wait_shared`], also in other processes.
pub fn wake_shared(word: &AtomicU32, count: u32) -> usize {
    rouse(word, count, 0)
}

fn rouse(word: &AtomicU32, count: u32, flag: i32) -> usize {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    // SAFETY: `word` is a live, aligned 32-bit word; FUTEX_WAKE neither reads nor writes it.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | flag, count) };
    // A wake of an aligned word that is mapped has no failure.
    sys::check(result).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{Waited, wait, wake};
    use crate::clock::{MonotonicTime, now};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[test]
    fn a_changed_word_is_not_waited_for() {
        assert_eq!(wait(&AtomicU32::new(1), 0, None), Ok(Waited::Changed));
    }

    #[test]
    fn a_passed_time_and_a_near_one_time_out() {
        let word = AtomicU32::new(0);
        assert_eq!(wait(&word, 0, Some(MonotonicTime::from_nanos(1))), Ok(Waited::TimedOut));
        let until = now().saturating_add(Duration::from_millis(1));
        assert_eq!(wait(&word, 0, Some(until)), Ok(Waited::TimedOut));
        assert!(now() >= until);
    }

    #[test]
    fn a_waiter_is_woken() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    let _ = wait(&word, 0, None).unwrap();
                }
            });
            word.store(1, Ordering::Release);
            wake(&word, 1);
            waiter.join().unwrap();
        });
        assert_eq!(wake(&word, 1), 0);
    }
}
