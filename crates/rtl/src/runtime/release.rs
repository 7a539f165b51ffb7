//! Releases: a thread sleeps until its next one. They never skip: a late thread's next release is one period later.

use std::sync::atomic::Ordering;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::futex;

use super::modules;
use super::nudge;
use super::thread::Thread;

/// No release.
pub(crate) const NEVER: u64 = u64::MAX;

/// From now on `thread` is released at `start` and then each `period`; with period 0 once.
pub(crate) fn make_periodic(thread: &Thread, start: u64, period: u64) {
    thread.release.period.store(period, Ordering::Relaxed);
    thread.release.next.store(start, Ordering::Release);
    modules::with_row(thread, |row| row.period_ns.store(period, Ordering::Relaxed));
    thread.rouse();
}

/// Sleeps until the calling thread's next release, or until it is woken up.
pub(crate) fn wait(thread: &'static Thread) {
    let release = &thread.release;
    let period = release.period.load(Ordering::Relaxed);
    let next = release.next.load(Ordering::Acquire);
    if period != 0 && next != NEVER && release.periods.load(Ordering::Relaxed) > 0 && clock::now().as_nanos() > next {
        let missed = release.missed.fetch_add(1, Ordering::Relaxed) + 1;
        modules::with_row(thread, |row| row.missed.store(missed, Ordering::Relaxed));
    }
    loop {
        let seen = thread.wake.events.load(Ordering::Acquire);
        nudge::cancellation_point(thread);
        if thread.wake.token.swap(false, Ordering::AcqRel) {
            return;
        }
        let next = release.next.load(Ordering::Acquire);
        if next != NEVER && clock::now().as_nanos() >= next {
            released(thread, next);
            return;
        }
        let until = (next != NEVER).then(|| MonotonicTime::from_nanos(next));
        // However it ends, everything is looked at again.
        let _ = futex::wait(&thread.wake.events, seen, until);
    }
}

fn released(thread: &Thread, at: u64) {
    let release = &thread.release;
    let period = release.period.load(Ordering::Relaxed);
    let next = if period == 0 { NEVER } else { at.saturating_add(period) };
    // Another thread may have set another time meanwhile; then that counts.
    let _ = release
        .next
        .compare_exchange(at, next, Ordering::AcqRel, Ordering::Relaxed);
    let periods = release.periods.fetch_add(1, Ordering::Relaxed) + 1;
    modules::with_row(thread, |row| row.periods.store(periods, Ordering::Relaxed));
}

/// Sleeps until `time`; false when a signal's handler ran before.
pub(crate) fn sleep_until(thread: Option<&'static Thread>, time: MonotonicTime) -> bool {
    let Some(thread) = thread else {
        clock::sleep_until(time);
        return true;
    };
    let handled = thread.signals.handled.load(Ordering::Acquire);
    loop {
        let seen = thread.wake.events.load(Ordering::Acquire);
        nudge::cancellation_point(thread);
        if thread.signals.handled.load(Ordering::Acquire) != handled {
            return false;
        }
        if clock::now() >= time {
            return true;
        }
        // However it ends, everything is looked at again.
        let _ = futex::wait(&thread.wake.events, seen, Some(time));
    }
}
