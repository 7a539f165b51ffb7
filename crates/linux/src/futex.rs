//! Futexes: wait for a word to change, wake who waits. Private to this process, or in memory shared with others.

use crate::clock::{self, MonotonicTime};
use crate::{Errno, sys};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

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
    ended(result)
}

fn ended(result: libc::c_long) -> Result<Waited, Errno> {
    match sys::check(result) {
        Ok(_) => Ok(Waited::Woken),
        Err(Errno::AGAIN) => Ok(Waited::Changed),
        Err(Errno::TIMEDOUT) => Ok(Waited::TimedOut),
        Err(Errno::INTR) => Ok(Waited::Interrupted),
        Err(errno) => Err(errno),
    }
}

/// One of the words of a wait on several, as the kernel wants it.
#[repr(C)]
struct WaitedWord {
    expected: u64,
    word: u64,
    flags: u32,
    reserved: u32,
}

/// A word of 32 bits.
const SIZE_32: u32 = 2;

/// How long a wait on the first word lasts where the kernel cannot wait on two.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// As [`wait`], while both words hold what stands beside them; a wake of either ends it. Before Linux 5.16, a change of
/// the second word ends it within 20 ms.
///
/// # Errors
/// As [`wait`].
pub fn wait_either(words: [(&AtomicU32, u32); 2], until: Option<MonotonicTime>) -> Result<Waited, Errno> {
    let each = words.map(|(word, expected)| WaitedWord {
        expected: expected.into(),
        word: word.as_ptr().expose_provenance() as u64,
        flags: SIZE_32 | libc::FUTEX_PRIVATE_FLAG.cast_unsigned(),
        reserved: 0,
    });
    let time = until.map(MonotonicTime::timespec);
    let time_pointer = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: two structures that name live, aligned words for the whole call; the timespec, an absolute time, is valid
    // or null.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex_waitv,
            each.as_ptr(),
            each.len(),
            0_u32,
            time_pointer,
            libc::CLOCK_MONOTONIC,
        )
    };
    let waited = ended(result);
    if waited != Err(Errno::NOSYS) {
        return waited;
    }
    let [(first, expected), (second, other)] = words;
    if second.load(Ordering::Acquire) != other {
        return Ok(Waited::Changed);
    }
    let look = clock::now().saturating_add(LOOK_AGAIN);
    wait(first, expected, Some(until.map_or(look, |until| until.min(look))))
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
    use super::{Waited, wait, wait_either, wake};
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

    #[test]
    fn a_wait_on_two_words_ends_with_either() {
        let words = [&AtomicU32::new(0), &AtomicU32::new(7)];
        let both = [(words[0], 0), (words[1], 7)];
        assert_eq!(wait_either([(words[0], 1), both[1]], None), Ok(Waited::Changed));
        assert_eq!(wait_either([both[0], (words[1], 8)], None), Ok(Waited::Changed));
        let past = Some(MonotonicTime::from_nanos(1));
        assert_eq!(wait_either(both, past), Ok(Waited::TimedOut));
        for word in words {
            let before = word.load(Ordering::Relaxed);
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    while word.load(Ordering::Acquire) == before {
                        let _ = wait_either(both, None).unwrap();
                    }
                });
                word.store(before + 1, Ordering::Release);
                wake(word, 1);
                waiter.join().unwrap();
            });
            word.store(before, Ordering::Release);
        }
    }
}
