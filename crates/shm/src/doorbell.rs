//! Waking the reader of a ring only when it sleeps: two words beside the ring, the doorbell and whether the reader
//! sleeps.
//!
//! The writer pushes, increments the doorbell and wakes the futex on it if the reader is asleep. The reader says that
//! it goes to sleep, looks once more, and sleeps only as long as the doorbell is what it was before it looked. Both
//! sides order their two steps with a fence that is the same for everybody, so at least one of them sees the other.

use crate::sync::{AtomicU32, Ordering, fence};

/// The writer's part, after entries were pushed. Returns whether the futex on `doorbell` is to be woken.
#[must_use = "a reader that is not woken sleeps for ever"]
pub fn announce(doorbell: &AtomicU32, asleep: &AtomicU32) -> bool {
    doorbell.fetch_add(1, Ordering::Release);
    fence(Ordering::SeqCst);
    asleep.load(Ordering::Relaxed) != 0
}

/// The reader's part, where the ring is empty. Returns the value of `doorbell` with which to wait on its futex, or
/// nothing where `still_empty` finds an entry: then nobody sleeps.
#[must_use = "the reader is announced as asleep until it has woken"]
pub fn doze(doorbell: &AtomicU32, asleep: &AtomicU32, still_empty: impl FnOnce() -> bool) -> Option<u32> {
    let before = doorbell.load(Ordering::Acquire);
    asleep.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if still_empty() {
        return Some(before);
    }
    asleep.store(0, Ordering::Relaxed);
    None
}

/// The reader is awake again.
pub fn woke(asleep: &AtomicU32) {
    asleep.store(0, Ordering::Relaxed);
}
