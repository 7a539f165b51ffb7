//! Counting semaphores. They return -1 and set `errno`; waits end with EINTR when a signal's handler has run.

use std::sync::atomic::{AtomicU32, Ordering};

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::futex;

use super::{failed, given};
use crate::runtime::nudge;
use crate::runtime::thread::current;
use crate::runtime::waiting::{self, Place};

/// `rtl_sem_t` of the header.
#[repr(C)]
#[derive(Debug)]
pub struct Semaphore {
    value: AtomicU32,
    waiters: AtomicU32,
}

const MOST: u32 = 0x7fff_ffff;

/// `sem_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sem_init(semaphore: *mut Semaphore, _shared: i32, value: u32) -> i32 {
    if semaphore.is_null() || value > MOST {
        return failed(libc::EINVAL);
    }
    let new = Semaphore {
        value: AtomicU32::new(value),
        waiters: AtomicU32::new(0),
    };
    // SAFETY: not null, so valid for writes, as the C API wants it.
    unsafe { semaphore.write(new) };
    0
}

/// `sem_destroy`: EBUSY while somebody waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sem_destroy(semaphore: *const Semaphore) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { given(semaphore) } {
        Some(semaphore) if semaphore.waiters.load(Ordering::Acquire) == 0 => 0,
        Some(_) => failed(libc::EBUSY),
        None => failed(libc::EINVAL),
    }
}

fn try_wait(semaphore: &Semaphore) -> bool {
    let value = &semaphore.value;
    value
        .fetch_update(Ordering::Acquire, Ordering::Relaxed, |value| value.checked_sub(1))
        .is_ok()
}

fn wait(semaphore: &Semaphore, until: Option<MonotonicTime>) -> Result<(), i32> {
    let place = Place {
        waiters: &semaphore.waiters,
        word: &semaphore.value,
        seen: 0,
        mutex: None,
    };
    waiting::during(&place, || wait_at(semaphore, &place, until))
}

fn wait_at(semaphore: &Semaphore, place: &Place<'_>, until: Option<MonotonicTime>) -> Result<(), i32> {
    let thread = current();
    let handled = thread.map(|thread| thread.signals.handled.load(Ordering::Acquire));
    loop {
        let events = thread.map(|thread| thread.wake.events.load(Ordering::Acquire));
        if let Some(thread) = thread {
            nudge::cancellation_point(thread);
        }
        if try_wait(semaphore) {
            return Ok(());
        }
        if thread.map(|thread| thread.signals.handled.load(Ordering::Acquire)) != handled {
            return Err(libc::EINTR);
        }
        if until.is_some_and(|until| clock::now() >= until) {
            return Err(libc::ETIMEDOUT);
        }
        waiting::sleep(place, events, until);
    }
}

fn result(result: Result<(), i32>) -> i32 {
    result.map_or_else(failed, |()| 0)
}

/// `sem_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sem_wait(semaphore: *const Semaphore) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    result(
        unsafe { given(semaphore) }
            .ok_or(libc::EINVAL)
            .and_then(|semaphore| wait(semaphore, None)),
    )
}

/// `sem_trywait`: EAGAIN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sem_trywait(semaphore: *const Semaphore) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { given(semaphore) } {
        Some(semaphore) if try_wait(semaphore) => 0,
        Some(_) => failed(libc::EAGAIN),
        None => failed(libc::EINVAL),
    }
}

/// `sem_timedwait`: ETIMEDOUT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sem_timedwait(semaphore: *const Semaphore, until: *const libc::timespec) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    let (Some(semaphore), Some(until)) = (unsafe { (given(semaphore), given(until)) }) else {
        return failed(libc::EINVAL);
    };
    let until = u64::try_from(super::time::nanoseconds(until)).unwrap_or(0);
    result(wait(semaphore, Some(MonotonicTime::from_nanos(until))))
}

/// `sem_post`: EOVERFLOW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sem_post(semaphore: *const Semaphore) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    let Some(semaphore) = (unsafe { given(semaphore) }) else {
        return failed(libc::EINVAL);
    };
    let more = |value| (value < MOST).then_some(value + 1);
    if semaphore
        .value
        .fetch_update(Ordering::Release, Ordering::Relaxed, more)
        .is_err()
    {
        return failed(libc::EOVERFLOW);
    }
    futex::wake(&semaphore.value, 1);
    0
}

/// `sem_getvalue`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_sem_getvalue(semaphore: *const Semaphore, value: *mut i32) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { (given(semaphore), value.as_mut()) } {
        (Some(semaphore), Some(value)) => {
            *value = semaphore.value.load(Ordering::Acquire).cast_signed();
            0
        }
        _ => failed(libc::EINVAL),
    }
}
