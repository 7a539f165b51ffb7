//! Time: `time.h`, `rtl_time.h`. Every clock of RTLinux is CLOCK_MONOTONIC here.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicI32, Ordering};

use freehold_linux::clock::{self, MonotonicTime};

use super::{failed, given};
use crate::runtime::release;
use crate::runtime::thread::current;

/// `struct rtl_clock` of the header.
#[repr(C)]
#[derive(Debug)]
pub struct Clock {
    gethrtime: extern "C" fn(*mut Clock) -> i64,
    resolution: i64,
    mode: AtomicI32,
    number: i32,
}

const CLOCKS: usize = 7;

static TABLE: [Clock; CLOCKS] = {
    const fn clock(number: i32) -> Clock {
        Clock {
            gethrtime: rtl_clock_gethrtime,
            resolution: 1,
            mode: AtomicI32::new(2),
            number,
        }
    }
    [clock(0), clock(1), clock(2), clock(3), clock(4), clock(5), clock(6)]
};

/// The clock that a macro names.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_clock_by_number(number: i32) -> *const Clock {
    let index = usize::try_from(number).unwrap_or(0).min(CLOCKS - 1);
    &raw const TABLE[index]
}

/// Whether a program's pointer names one of the clocks.
pub(crate) fn is_clock(clock: *const Clock) -> bool {
    TABLE.iter().any(|known| std::ptr::eq(known, clock))
}

/// A time of the header in nanoseconds.
pub(crate) fn nanoseconds(time: &libc::timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

pub(crate) fn timespec(nanoseconds: i64) -> libc::timespec {
    libc::timespec {
        tv_sec: nanoseconds.div_euclid(1_000_000_000),
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000),
    }
}

/// `gethrtime`: nanoseconds since boot.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_gethrtime() -> i64 {
    clock::now().as_nanos().cast_signed()
}

/// `gethrtimeres`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_gethrtimeres() -> i64 {
    1
}

/// `clock_gethrtime`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_clock_gethrtime(_clock: *mut Clock) -> i64 {
    rtl_gethrtime()
}

/// `clock_gettime`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_clock_gettime(_clock: *mut Clock, time: *mut libc::timespec) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    match unsafe { time.as_mut() } {
        Some(time) => {
            *time = timespec(rtl_gethrtime());
            0
        }
        None => failed(libc::EINVAL),
    }
}

/// `clock_settime`: the clock is the machine's.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_clock_settime(_clock: *mut Clock, _time: *const libc::timespec) -> i32 {
    failed(libc::EPERM)
}

/// `clock_getres`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_clock_getres(_clock: *mut Clock, time: *mut libc::timespec) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    if let Some(time) = unsafe { time.as_mut() } {
        *time = timespec(1);
    }
    0
}

fn point(nanoseconds: i64) -> MonotonicTime {
    MonotonicTime::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

/// `clock_nanosleep`: EINTR when a signal's handler has run; then `rest` is what was left of a relative time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_clock_nanosleep(
    _clock: *mut Clock,
    flags: i32,
    time: *const libc::timespec,
    rest: *mut libc::timespec,
) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    let Some(time) = (unsafe { given(time) }) else {
        return libc::EINVAL;
    };
    if !(0..1_000_000_000).contains(&time.tv_nsec) || time.tv_sec < 0 {
        return libc::EINVAL;
    }
    let absolute = flags & libc::TIMER_ABSTIME != 0;
    let base = if absolute { 0 } else { rtl_gethrtime() };
    let until = base.saturating_add(nanoseconds(time));
    if release::sleep_until(current(), point(until)) {
        return 0;
    }
    // SAFETY: null or valid, as the C API wants it.
    if let Some(rest) = unsafe { rest.as_mut() }.filter(|_| !absolute) {
        *rest = timespec((until - rtl_gethrtime()).max(0));
    }
    libc::EINTR
}

/// `nanosleep`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_nanosleep(time: *const libc::timespec, rest: *mut libc::timespec) -> i32 {
    // SAFETY: as this function was called.
    match unsafe { rtl_clock_nanosleep(std::ptr::null_mut(), 0, time, rest) } {
        0 => 0,
        errno => failed(errno),
    }
}

/// `usleep`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_usleep(microseconds: libc::c_ulong) -> i32 {
    let span = i64::try_from(microseconds).unwrap_or(i64::MAX).saturating_mul(1000);
    let until = rtl_gethrtime().saturating_add(span);
    if release::sleep_until(current(), point(until)) {
        0
    } else {
        failed(libc::EINTR)
    }
}

/// `sleep`.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_sleep(seconds: u32) -> u32 {
    rtl_usleep(libc::c_ulong::from(seconds) * 1_000_000);
    0
}

/// The kernel's ticks of the header: a hundredth of a second.
const TICK: i64 = 10_000_000;

/// `schedule_timeout`: sleeps so many ticks; those left when a signal's handler has run.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_schedule_timeout(ticks: libc::c_long) -> libc::c_long {
    let until = rtl_gethrtime().saturating_add(ticks.max(0).saturating_mul(TICK));
    if release::sleep_until(current(), point(until)) {
        return 0;
    }
    (until - rtl_gethrtime()).max(0) / TICK
}

/// `jiffies`: ticks since boot.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_jiffies() -> libc::c_ulong {
    (rtl_gethrtime() / TICK).unsigned_abs()
}

/// `rtl_delay`: computes for so many nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_delay(nanoseconds: libc::c_long) {
    let until = rtl_gethrtime().saturating_add(nanoseconds);
    while rtl_gethrtime() < until {
        std::hint::spin_loop();
    }
}

/// `rtl_setclockmode`: accepted and recorded; the timer is Linux's.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_setclockmode(clock: *const Clock, mode: i32, period: i64) -> i32 {
    match TABLE.iter().find(|known| std::ptr::eq(*known, clock)) {
        Some(clock) if (2..=3).contains(&mode) && period >= 0 => {
            clock.mode.store(mode, Ordering::Relaxed);
            0
        }
        _ => -libc::EINVAL,
    }
}

thread_local! {
    /// Where `hrt2ts` of a thread that is no module's puts a time.
    static SCRATCH: UnsafeCell<libc::timespec> =
        const { UnsafeCell::new(libc::timespec { tv_sec: 0, tv_nsec: 0 }) };
}

/// `hrt2ts`: the time in the calling thread's own structure, until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_hrt2ts(time: i64) -> *mut libc::timespec {
    let place = current().map_or_else(|| SCRATCH.with(UnsafeCell::get), |thread| thread.time.0.get());
    // SAFETY: only the calling thread uses its place.
    unsafe { place.write(timespec(time)) };
    place
}
