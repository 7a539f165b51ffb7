//! Waiting for a word to change.

use core::sync::atomic::AtomicU32;

use super::{FUTEX, call, own};

const FUTEX_WAIT: usize = 0;
const FUTEX_WAKE: usize = 1;

/// Sleeps while `word` is `value`, until woken. May return early.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32) {
    // SAFETY: reads the word only.
    let _ = unsafe { own::call(FUTEX, word.as_ptr() as usize, FUTEX_WAIT, value as usize, 0, 0) };
}

/// The same for a tenth of a second at most.
pub(crate) fn futex_wait_awhile(word: &AtomicU32, value: u32) {
    let span = [0_usize, 100_000_000];
    let place = word.as_ptr() as usize;
    // SAFETY: reads the word, and a `struct timespec` of this call.
    let _ = unsafe { own::call(FUTEX, place, FUTEX_WAIT, value as usize, span.as_ptr() as usize, 0) };
}

/// As [`futex_wait`], for what the agent thread does: the two arguments that this kind of wait ignores say so to
/// whoever looks at why the thread blocks. They stay in its registers until the next call of this module, so signals
/// are to be blocked from before this call until after that one: no call of the program's must carry them.
pub(crate) fn futex_wait_for_agent(word: &AtomicU32, value: u32) {
    let [fifth, sixth] = freehold_protocol::WAIT_MARK;
    let address = word.as_ptr() as usize;
    // SAFETY: reads the word only.
    let _ = unsafe { call(FUTEX, [address, FUTEX_WAIT, value as usize, 0, fifth, sixth]) };
}

/// As [`futex_wait_for_agent`], for a tenth of a second at most.
pub(crate) fn futex_wait_awhile_for_agent(word: &AtomicU32, value: u32) {
    let [fifth, sixth] = freehold_protocol::WAIT_MARK;
    let (address, span) = (word.as_ptr() as usize, [0_usize, 100_000_000]);
    // SAFETY: reads the word, and a `struct timespec` of this call.
    let _ = unsafe {
        call(
            FUTEX,
            [
                address,
                FUTEX_WAIT,
                value as usize,
                span.as_ptr() as usize,
                fifth,
                sixth,
            ],
        )
    };
}

/// Wakes all sleepers on `word`.
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: reads no memory.
    let _ = unsafe { own::call(FUTEX, word.as_ptr() as usize, FUTEX_WAKE, i32::MAX as usize, 0, 0) };
}
