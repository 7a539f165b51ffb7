//! The system calls on the words of locks with priority inheritance (`freehold_shm::pi_word`), in memory of this
//! process or shared with others.

use crate::clock::{self, MonotonicTime};
use crate::{Errno, sys};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// From Linux 5.14; `FUTEX_LOCK_PI` has its time limit on the wall clock.
const FUTEX_LOCK_PI2: i32 = 13;

/// How often, and after what pause, a wait is tried again whose owner has died while another waited. The pause lends
/// no priority. A word that was overwritten is refused in the same way, so the tries have an end.
const UNSETTLED_TRIES: u32 = 2000;
const UNSETTLED_PAUSE: Duration = Duration::from_micros(50);

/// How often a release is tried again that the kernel has refused though the word may be right.
const DISTURBED_TRIES: u32 = 100;

/// Who may use a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process.
    Process,
    /// Threads of every process that maps the word's memory.
    Shared,
}

impl Scope {
    const fn flag(self) -> i32 {
        match self {
            Self::Process => libc::FUTEX_PRIVATE_FLAG,
            Self::Shared => 0,
        }
    }
}

/// Why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockWordError {
    /// The time was reached.
    #[error("the owner held the lock until the time limit")]
    TimedOut,
    /// The thread that the word names has ended, or is none.
    #[error("the thread that the lock names has ended")]
    OwnerGone,
    /// The caller's mistake: it owns the lock, or waiting would close a circle.
    #[error("the caller owns the lock, or waiting would close a circle of locks")]
    Deadlock,
    /// The kernel has no memory to wait, no PI futexes, or the word's memory is gone.
    #[error("the kernel refused to wait for the lock: {0}")]
    System(Errno),
}

/// Takes the lock, waiting until `until` (no limit if `None`); the owner meanwhile runs with the caller's priority or
/// deadline. A lock that is free is taken. Async-signal-safe.
///
/// # Errors
/// See [`LockWordError`].
pub fn lock(word: &AtomicU32, scope: Scope, until: Option<MonotonicTime>) -> Result<(), LockWordError> {
    let limit = until.map(MonotonicTime::timespec);
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut unsettled = 0;
    loop {
        // SAFETY: the word is live and aligned, and the limit null or live; the kernel changes the word by the PI
        // protocol, which its users expect.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                FUTEX_LOCK_PI2 | scope.flag(),
                0_u32,
                limit,
            )
        };
        match sys::check(result) {
            Ok(_) => {
                // Orders the caller's reads after the last owner's release, which the kernel passed on.
                word.load(Ordering::Acquire);
                return Ok(());
            }
            // A signal, or the owner is just ending: ask again. The limit is absolute.
            Err(Errno::INTR | Errno::AGAIN) => {}
            // An owner has died and its first waiter has not run yet: until it has, the kernel refuses others.
            Err(Errno::INVAL) if unsettled < UNSETTLED_TRIES => {
                unsettled += 1;
                let again = clock::now().saturating_add(UNSETTLED_PAUSE);
                if until.is_some_and(|until| until < again) {
                    return Err(LockWordError::TimedOut);
                }
                clock::sleep_until(again);
            }
            Err(Errno::TIMEDOUT) => return Err(LockWordError::TimedOut),
            Err(Errno::SRCH) => return Err(LockWordError::OwnerGone),
            Err(Errno::DEADLK) => return Err(LockWordError::Deadlock),
            Err(errno) => return Err(LockWordError::System(errno)),
        }
    }
}

/// Releases a lock that the caller owns and for which somebody waits or waited: the most urgent waiter owns it then.
/// Async-signal-safe.
///
/// # Errors
/// `PERM` where the caller does not own the lock; `INVAL` where the word was overwritten.
pub fn unlock(word: &AtomicU32, scope: Scope) -> Result<(), Errno> {
    let mut disturbed = 0;
    loop {
        // SAFETY: as in `lock`; there is no limit.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_UNLOCK_PI | scope.flag(),
                0_u32,
                std::ptr::null::<libc::timespec>(),
            )
        };
        match sys::check(result) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR | Errno::AGAIN) => {}
            // The first waiter set its bit just after the kernel had read the word. Where an owner has died before, the
            // kernel takes that for a word that was overwritten; the next attempt sees the bit.
            Err(Errno::INVAL) if disturbed < DISTURBED_TRIES => disturbed += 1,
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LockWordError, Scope, lock, unlock};
    use crate::clock::{MonotonicTime, now};
    use crate::{Errno, ThreadId};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    const DIED: u32 = 1 << 30;
    const NOBODY: u32 = DIED - 1;

    #[test]
    fn the_owner_is_waited_for_until_the_limit_and_hands_over() {
        for scope in [Scope::Process, Scope::Shared] {
            let word = &AtomicU32::new(ThreadId::current().get());
            assert_eq!(lock(word, scope, None), Err(LockWordError::Deadlock));
            std::thread::scope(|threads| {
                let past = Some(MonotonicTime::from_nanos(1));
                let early = threads.spawn(move || lock(word, scope, past));
                assert_eq!(early.join().unwrap(), Err(LockWordError::TimedOut));
                let until = now().saturating_add(Duration::from_secs(60));
                let waiter = threads.spawn(move || {
                    lock(word, scope, Some(until)).and_then(|()| {
                        assert_eq!(word.load(Ordering::Relaxed) & NOBODY, ThreadId::current().get());
                        unlock(word, scope).map_err(LockWordError::System)
                    })
                });
                unlock(word, scope).unwrap();
                assert_eq!(waiter.join().unwrap(), Ok(()));
            });
            assert_eq!(word.load(Ordering::Relaxed), 0);
            assert_eq!(unlock(word, scope), Err(Errno::PERM));
        }
    }

    #[test]
    fn a_lock_that_was_a_dead_owners_is_released_also_as_its_first_waiter_comes() {
        const ROUNDS: u32 = 20_000;
        let (word, begun, done) = (&AtomicU32::new(0), &AtomicU32::new(0), &AtomicU32::new(0));
        let own = ThreadId::current().get();
        let mut refused = 0;
        let wait_for = |counter: &AtomicU32, value| {
            while counter.load(Ordering::Acquire) < value {
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(move || {
                for round in 1..=ROUNDS {
                    wait_for(begun, round);
                    lock(word, Scope::Process, None).unwrap();
                    unlock(word, Scope::Process).unwrap();
                    done.store(round, Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                word.store(own | DIED, Ordering::Relaxed);
                begun.store(round, Ordering::Release);
                // Now before, now after the waiter has come.
                (0..round % 400).for_each(|_| std::hint::spin_loop());
                while unlock(word, Scope::Process).is_err() {
                    refused += 1;
                }
                wait_for(done, round);
            }
        });
        assert_eq!(refused, 0);
    }

    #[test]
    fn an_owner_that_has_ended_or_is_no_thread_is_not_waited_for() {
        let ended = std::thread::spawn(|| ThreadId::current().get()).join().unwrap();
        for owner in [ended, NOBODY] {
            let word = AtomicU32::new(owner);
            // A thread that has just been joined may still be on its way out of the kernel.
            let refused = lock(
                &word,
                Scope::Process,
                Some(now().saturating_add(Duration::from_secs(60))),
            );
            assert_eq!(refused, Err(LockWordError::OwnerGone));
        }
    }
}
