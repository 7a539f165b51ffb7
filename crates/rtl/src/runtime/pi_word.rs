//! Locks with priority inheritance in a word of a program's own structures, so that they need no initialisation but
//! zeros. The word follows the kernel's protocol. Errors are numbers of `errno`.
//!
//! A thread that ends, however it does, gives back what it holds (see [`super::held`]). What it could not give back is
//! taken from it by the next: only from an owner that the kernel calls dead, and only as long as the word names it.

use freehold_linux::ThreadId;
use freehold_linux::clock::MonotonicTime;
use freehold_linux::pi_word::{LockWordError, Scope, lock, unlock};
use freehold_shm::pi_word::{PiWord, State};

use super::held::Mark;

/// A time that has passed: the kernel is asked, and nothing is waited for.
const AT_ONCE: Option<MonotonicTime> = Some(MonotonicTime::from_nanos(1));

/// Takes the lock if it is free, or if its owner has ended.
pub(crate) fn try_take(word: &PiWord) -> Result<(), i32> {
    let own = ThreadId::current().get();
    marked(word, || match word.take(own) {
        Ok(()) => Ok(()),
        Err(State::Owned(owner)) if owner.thread == own => Err(libc::EDEADLK),
        Err(State::Owned(owner)) if lives(owner.thread) => Err(libc::EBUSY),
        Err(_) => wait_for(word, own, AT_ONCE).map_err(|errno| match errno {
            libc::ETIMEDOUT => libc::EBUSY,
            other => other,
        }),
    })
}

/// Takes the lock, until `until` at most. Goes on waiting when a signal's handler has run.
pub(crate) fn take(word: &PiWord, until: Option<MonotonicTime>) -> Result<(), i32> {
    let own = ThreadId::current().get();
    marked(word, || wait_for(word, own, until))
}

/// Takes the lock by `attempt`. From before that begins until it has failed, the calling thread's end gives the lock
/// back.
fn marked(word: &PiWord, attempt: impl FnOnce() -> Result<(), i32>) -> Result<(), i32> {
    let mark = Mark::set(word);
    let result = attempt();
    if result.is_err() {
        mark.clear();
    }
    result
}

fn wait_for(word: &PiWord, own: u32, until: Option<MonotonicTime>) -> Result<(), i32> {
    loop {
        let Err(before) = word.take(own) else { return Ok(()) };
        match before {
            State::Owned(owner) if owner.thread == own => return Err(libc::EDEADLK),
            State::Withdrawn => return Err(libc::EINVAL),
            State::Owned(_) | State::Free => {}
        }
        match lock(word.raw(), Scope::Process, until) {
            Ok(()) => return Ok(()),
            Err(LockWordError::OwnerGone) => {
                // The owner that was seen before the kernel looked, and no other: another thread may have taken the
                // lock from the dead one meanwhile. These words have no count of their uses to tell two of one thread.
                if matches!(before, State::Owned(dead) if word.take_from_dead(dead, own, || true)) {
                    return Ok(());
                }
            }
            Err(LockWordError::TimedOut) => return Err(libc::ETIMEDOUT),
            Err(LockWordError::Deadlock) => return Err(libc::EDEADLK),
            Err(LockWordError::System(errno)) => return Err(errno.raw_os_error()),
        }
    }
}

/// Gives the lock back: EPERM when another thread holds it, or nobody.
pub(crate) fn release(word: &PiWord) -> Result<(), i32> {
    let own = ThreadId::current().get();
    if !word.is_owned_by(own) {
        return Err(libc::EPERM);
    }
    if !word.release(own) {
        unlock(word.raw(), Scope::Process).map_err(|errno| errno.raw_os_error())?;
    }
    Mark::of(word).clear();
    Ok(())
}

/// Whether a thread that has not ended holds the lock.
pub(crate) fn is_held(word: &PiWord) -> bool {
    matches!(word.state(), State::Owned(owner) if lives(owner.thread))
}

/// Whether a thread of this process has not ended.
fn lives(thread: u32) -> bool {
    // SAFETY: touches no memory; no signal is sent.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) == 0 }
}
