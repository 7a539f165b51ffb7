//! The monotonic clock, absolute sleeps and the thread's CPU clock.

use crate::{Errno, sys};
use std::time::Duration;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A point on CLOCK_MONOTONIC, in nanoseconds since an arbitrary origin (in practice, boot).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MonotonicTime(u64);

impl MonotonicTime {
    /// The point `nanos` nanoseconds after the origin.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `span` later; the farthest point that exists if that overflows.
    #[must_use]
    pub fn saturating_add(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)),
        )
    }

    /// The time since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn timespec(self) -> libc::timespec {
        libc::timespec {
            // 2^64 ns are 1.8e10 s: both parts always fit.
            tv_sec: (self.0 / NANOS_PER_SECOND).cast_signed(),
            tv_nsec: (self.0 % NANOS_PER_SECOND).cast_signed(),
        }
    }
}

/// How an interruptible sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Slept {
    /// The time was reached.
    Full,
    /// A signal handler ran; the time may not be reached.
    Interrupted,
}

fn read(clock: libc::clockid_t) -> Result<u64, Errno> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that the call fills; any clock number is allowed (bad ones are refused).
    sys::check_int(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    // Both parts are non-negative for these clocks.
    Ok(time.tv_sec.cast_unsigned() * NANOS_PER_SECOND + time.tv_nsec.cast_unsigned())
}

/// The present, on CLOCK_MONOTONIC. No kernel entry where the vDSO serves it. Async-signal-safe.
#[must_use]
pub fn now() -> MonotonicTime {
    // CLOCK_MONOTONIC exists on every Linux and the pointer is valid, so the call cannot fail.
    MonotonicTime(read(libc::CLOCK_MONOTONIC).unwrap_or(0))
}

/// Sleeps until `time`, going back to sleep after signal handlers. Returns at once if it has passed.
pub fn sleep_until(time: MonotonicTime) {
    while sleep_until_or_signal(time) == Slept::Interrupted {}
}

/// Sleeps until `time` or until a signal handler has run, whichever is first.
pub fn sleep_until_or_signal(time: MonotonicTime) -> Slept {
    let request = time.timespec();
    // SAFETY: `request` is a valid timespec; with TIMER_ABSTIME the remaining-time pointer is not used.
    let result = unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const request,
            std::ptr::null_mut(),
        )
    };
    if result == libc::EINTR {
        Slept::Interrupted
    } else {
        Slept::Full
    }
}

/// CPU time consumed by the calling thread. Async-signal-safe; a system call.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    // CLOCK_THREAD_CPUTIME_ID always exists for the caller, so the call cannot fail.
    Duration::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{Duration, MonotonicTime, now, sleep_until};

    #[test]
    fn sleeping_reaches_the_time_and_not_earlier() {
        let target = now().saturating_add(Duration::from_millis(2));
        sleep_until(target);
        assert!(now() >= target);
        sleep_until(MonotonicTime::from_nanos(0));
    }
}
