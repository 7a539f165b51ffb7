//! Waits of a thread for a condition or a semaphore: what its end, which can come at any time, has to undo.

use std::sync::atomic::{AtomicU32, Ordering};

use freehold_linux::futex;
use freehold_shm::pi_word::PiWord;

use super::call::Call;
use super::pi_word;
use super::thread::{Thread, current};

/// What is waited for.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// Counts who waits.
    pub(crate) waiters: &'a AtomicU32,
    /// Changes where somebody is to go on.
    pub(crate) word: &'a AtomicU32,
    /// What the word is until then.
    pub(crate) seen: u32,
    /// The mutex that a cancelled thread's cleanup handlers expect to be held.
    pub(crate) mutex: Option<&'a PiWord>,
}

/// A wait, on the stack of the thread that waits.
#[derive(Debug)]
struct Wait<'a> {
    place: &'a Place<'a>,
    /// The wait in which a signal's handler began this one.
    previous: *mut libc::c_void,
}

/// Does `work`, which waits at `place`.
pub(crate) fn during<R>(place: &Place<'_>, work: impl FnOnce() -> R) -> R {
    let Some(thread) = current() else {
        place.waiters.fetch_add(1, Ordering::AcqRel);
        let result = work();
        place.waiters.fetch_sub(1, Ordering::AcqRel);
        return result;
    };
    let innermost = &thread.life.waiting;
    let mut wait = Wait {
        place,
        previous: innermost.load(Ordering::Relaxed),
    };
    {
        // Counted and remembered, or neither.
        let _call = Call::enter();
        place.waiters.fetch_add(1, Ordering::AcqRel);
        innermost.store((&raw mut wait).cast(), Ordering::Relaxed);
    }
    let result = work();
    let _call = Call::enter();
    innermost.store(wait.previous, Ordering::Relaxed);
    place.waiters.fetch_sub(1, Ordering::AcqRel);
    result
}

/// The calling thread ends: it waits for nothing any more. A wake-up that it has used is passed on. Where it was
/// cancelled, it takes the mutex of a condition again.
pub(crate) fn abandon(thread: &Thread, cancelled: bool) {
    loop {
        let wait: *mut Wait<'_> = thread.life.waiting.load(Ordering::Relaxed).cast();
        // SAFETY: null, or on this thread's stack, in a frame that is still there: the end does not unwind.
        let Some(Wait { place, previous }) = (unsafe { wait.as_ref() }) else {
            return;
        };
        thread.life.waiting.store(*previous, Ordering::Relaxed);
        place.waiters.fetch_sub(1, Ordering::AcqRel);
        if place.word.load(Ordering::Acquire) != place.seen {
            futex::wake(place.word, 1);
        }
        if let Some(mutex) = place.mutex.filter(|_| cancelled) {
            // EDEADLK where it holds the mutex: it had not yet given it back.
            let _ = pi_word::take(mutex, None);
        }
    }
}

/// Sleeps until `word` is not `seen` any more, something is asked of the calling thread since it saw `events`, or
/// `until` has come. May end for no reason.
pub(crate) fn sleep(place: &Place<'_>, events: Option<u32>, until: Option<freehold_linux::clock::MonotonicTime>) {
    let word = (place.word, place.seen);
    // However it ends, everything is looked at again.
    let _ = match (current(), events) {
        (Some(thread), Some(events)) => futex::wait_either([word, (&thread.wake.events, events)], until),
        _ => futex::wait(place.word, place.seen, until),
    };
}
