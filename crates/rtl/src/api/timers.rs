//! POSIX timers: `time.h`. Their signals are RTLinux's own. Errors are `errno`.

use super::{failed, given};
use crate::runtime::nudge;
use crate::runtime::timers::{self, Setting};

fn number(timer: i32) -> usize {
    usize::try_from(timer).unwrap_or(usize::MAX)
}

/// `RTL_SIGNAL_TIMER` of the header: what a timer sends for which nothing else is asked.
const SIGNAL_TIMER: u32 = 5;

/// `timer_create`: EINVAL for no clock, no place, no signal or another way of notification; EAGAIN without room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_timer_create(
    clock: *mut super::time::Clock,
    event: *const libc::sigevent,
    place: *mut i32,
) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    let (event, place) = unsafe { (given(event), place.as_mut()) };
    let signal = match event.map(|event| (event.sigev_notify, event.sigev_signo)) {
        None => Some(SIGNAL_TIMER),
        Some((libc::SIGEV_NONE, _)) => None,
        Some((libc::SIGEV_SIGNAL, signal)) => match u32::try_from(signal) {
            Ok(signal @ 1..=nudge::LARGEST) => Some(signal),
            _ => return failed(libc::EINVAL),
        },
        Some(_) => return failed(libc::EINVAL),
    };
    let Some(place) = place.filter(|_| super::time::is_clock(clock)) else {
        return failed(libc::EINVAL);
    };
    match timers::create(signal) {
        Ok(timer) => {
            *place = i32::try_from(timer).unwrap_or(i32::MAX);
            0
        }
        Err(errno) => failed(errno),
    }
}

/// `timer_delete`: EINVAL for no timer.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_timer_delete(timer: i32) -> i32 {
    timers::delete(number(timer)).map_or_else(failed, |()| 0)
}

fn nanoseconds(time: &libc::timespec) -> Option<u64> {
    let valid = time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec);
    valid.then(|| u64::try_from(super::time::nanoseconds(time)).unwrap_or(u64::MAX))
}

/// `timer_settime`: EINVAL for no timer or no time. A first time of 0 stops the timer; with TIMER_ABSTIME it is a time
/// of the clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_timer_settime(
    timer: i32,
    flags: i32,
    new: *const libc::itimerspec,
    before: *mut libc::itimerspec,
) -> i32 {
    // SAFETY: null or valid, as the C API wants it.
    let Some(new) = (unsafe { given(new) }) else {
        return failed(libc::EINVAL);
    };
    let (Some(first), Some(interval)) = (nanoseconds(&new.it_value), nanoseconds(&new.it_interval)) else {
        return failed(libc::EINVAL);
    };
    let base = if flags & libc::TIMER_ABSTIME == 0 && first != 0 {
        super::time::rtl_gethrtime().unsigned_abs()
    } else {
        0
    };
    let next = first.saturating_add(base);
    match timers::set(number(timer), Setting { next, interval }) {
        Ok(setting) => {
            // SAFETY: null or valid, as the C API wants it.
            unsafe { write(before, setting) };
            0
        }
        Err(errno) => failed(errno),
    }
}

/// `timer_gettime`: what is left until the timer expires; EINVAL for no timer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rtl_timer_gettime(timer: i32, time: *mut libc::itimerspec) -> i32 {
    match timers::setting(number(timer)) {
        Ok(_) if time.is_null() => failed(libc::EINVAL),
        Ok(setting) => {
            // SAFETY: null or valid, as the C API wants it.
            unsafe { write(time, setting) };
            0
        }
        Err(errno) => failed(errno),
    }
}

/// `timer_getoverrun`: how often the timer has expired beyond once when its signal was last sent; EINVAL for no timer.
#[unsafe(no_mangle)]
pub extern "C" fn rtl_timer_getoverrun(timer: i32) -> i32 {
    let overruns = timers::overruns(number(timer));
    overruns.map_or_else(failed, |count| i32::try_from(count).unwrap_or(i32::MAX))
}

/// # Safety
/// `place` is null or can be written.
unsafe fn write(place: *mut libc::itimerspec, setting: Setting) {
    let Setting { next, interval } = setting.left();
    let of = |nanoseconds: u64| super::time::timespec(i64::try_from(nanoseconds).unwrap_or(i64::MAX));
    // SAFETY: the caller's promise.
    if let Some(place) = unsafe { place.as_mut() } {
        place.it_value = of(next);
        place.it_interval = of(interval);
    }
}
