//! Condition variables.

use std::sync::atomic::{AtomicU32, Ordering};

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::futex;

use super::given;
use super::mutexes::{Mutex, number};
use crate::runtime::thread::current;
use crate::runtime::waiting::{self, Place};
use crate::runtime::{nudge, pi_word};

/// `rtl_pthread_cond_t` of the header: zeros are one that nobody waits for.
#[repr(C)]
#[derive(Debug)]
pub struct Condition {
    sequence: AtomicU32,
    waiters: AtomicU32,
}

/// `pthread_cond_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_cond_init(condition: *mut Condition, _attributes: *const libc::c_void) -> i32 {
    if condition.is_null() {
        return libc::EINVAL;
    }
    let new = Condition {
        sequence: AtomicU32::new(0),
        waiters: AtomicU32::new(0),
    };
    // SAFETY: not null, so valid for writes, as the C API wants it.
    unsafe { condition.write(new) };
    0
}

/// `pthread_cond_destroy`: EBUSY while somebody waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_cond_destroy(condition: *const Condition) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { given(condition) } {
        Some(condition) if condition.waiters.load(Ordering::Acquire) == 0 => 0,
        Some(_) => libc::EBUSY,
        None => libc::EINVAL,
    }
}

fn wait(condition: &Condition, mutex: &Mutex, until: Option<MonotonicTime>) -> Result<(), i32> {
    let place = Place {
        waiters: &condition.waiters,
        word: &condition.sequence,
        seen: condition.sequence.load(Ordering::Acquire),
        mutex: Some(&mutex.word),
    };
    let waited: Result<bool, i32> = waiting::during(&place, || {
        pi_word::release(&mutex.word)?;
        Ok(wait_for_change(&place, until))
    });
    let in_time = waited?;
    pi_word::take(&mutex.word, None)?;
    if in_time { Ok(()) } else { Err(libc::ETIMEDOUT) }
}

/// Whether the condition was signalled by `until`.
pub(crate) fn wait_for_change(place: &Place<'_>, until: Option<MonotonicTime>) -> bool {
    let thread = current();
    loop {
        let events = thread.map(|thread| thread.wake.events.load(Ordering::Acquire));
        if let Some(thread) = thread {
            nudge::cancellation_point(thread);
        }
        if place.word.load(Ordering::Acquire) != place.seen {
            return true;
        }
        if until.is_some_and(|until| clock::now() >= until) {
            return false;
        }
        waiting::sleep(place, events, until);
    }
}

/// `pthread_cond_wait`: EPERM when the calling thread does not hold the mutex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_cond_wait(condition: *const Condition, mutex: *const Mutex) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { (given(condition), given(mutex)) } {
        (Some(condition), Some(mutex)) => number(wait(condition, mutex, None)),
        _ => libc::EINVAL,
    }
}

/// `pthread_cond_timedwait`: ETIMEDOUT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_cond_timedwait(
    condition: *const Condition,
    mutex: *const Mutex,
    until: *const libc::timespec,
) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { (given(condition), given(mutex), given(until)) } {
        (Some(condition), Some(mutex), Some(until)) => {
            let until = u64::try_from(super::time::nanoseconds(until)).unwrap_or(0);
            number(wait(condition, mutex, Some(MonotonicTime::from_nanos(until))))
        }
        _ => libc::EINVAL,
    }
}

fn wake(condition: *const Condition, count: u32) -> i32 {
    // SAFETY: null or valid, as the C API wants it of both callers.
    match unsafe { given(condition) } {
        Some(condition) => {
            condition.sequence.fetch_add(1, Ordering::Release);
            futex::wake(&condition.sequence, count);
            0
        }
        None => libc::EINVAL,
    }
}

/// `pthread_cond_signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_cond_signal(condition: *const Condition) -> i32 {
    wake(condition, 1)
}

/// `pthread_cond_broadcast`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_pthread_cond_broadcast(condition: *const Condition) -> i32 {
    wake(condition, u32::MAX)
}
