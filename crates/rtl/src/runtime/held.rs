//! The locks that a thread holds, for its end to give back. A thread that was deleted cannot do it itself, and its
//! identifier in a lock's word may be another thread's later.

use std::sync::atomic::{AtomicPtr, Ordering};

use freehold_shm::pi_word::PiWord;

use super::thread::{Thread, current};

/// Locks of a thread that are remembered. Those beyond are taken from it when somebody wants them.
const REMEMBERED: usize = 32;

/// How often a lock is given back that the kernel has refused for the moment.
const TRIES: u32 = 100;

/// The locks of one thread. Only the thread itself changes them, and its own handlers of signals.
#[derive(Debug)]
pub(crate) struct Held([AtomicPtr<PiWord>; REMEMBERED]);

/// A lock that the calling thread holds, or is about to.
#[derive(Debug)]
#[must_use]
pub(crate) struct Mark(*mut PiWord);

impl Mark {
    /// Remembers a lock, before it is taken.
    pub(crate) fn set(word: &PiWord) -> Self {
        let mark = Self::of(word);
        if let Some(thread) = current() {
            let free = |place: &AtomicPtr<PiWord>| {
                place
                    .compare_exchange(std::ptr::null_mut(), mark.0, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            };
            let _ = thread.held.0.iter().any(free);
        }
        mark
    }

    /// The mark of a lock that was remembered.
    pub(crate) fn of(word: &PiWord) -> Self {
        Self(std::ptr::from_ref(word).cast_mut())
    }

    /// Forgets the lock, once: a nested attempt has a mark of its own.
    pub(crate) fn clear(self) {
        let Some(thread) = current() else { return };
        let is_it = |place: &AtomicPtr<PiWord>| {
            place
                .compare_exchange(self.0, std::ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        let _ = thread.held.0.iter().rev().any(is_it);
    }
}

impl Held {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicPtr::new(std::ptr::null_mut()) }; REMEMBERED])
    }

    /// Forgets all, for a new thread.
    pub(crate) fn reset(&self) {
        for place in &self.0 {
            place.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
    }
}

/// Gives back what the calling thread holds. A lock that was not taken after all, or whose memory is gone, is refused
/// by the kernel: so the words are not looked at here.
pub(crate) fn release_all(thread: &Thread) {
    for place in &thread.held.0 {
        let word = place.swap(std::ptr::null_mut(), Ordering::Relaxed);
        if !word.is_null() {
            // Refused for good where it is another's or nobody's; a first waiter that comes just now only disturbs.
            let _ = (0..TRIES).find(|_| !matches!(unlock(word), Err(libc::EAGAIN | libc::EINVAL)));
        }
    }
}

fn unlock(word: *mut PiWord) -> Result<(), i32> {
    let operation = libc::FUTEX_UNLOCK_PI | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel checks that the word is there, and that this thread owns it, before it changes it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word,
            operation,
            0_u32,
            std::ptr::null::<libc::timespec>(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    // SAFETY: a valid pointer to this thread's errno.
    Err(unsafe { *libc::__errno_location() })
}
