//! Ending a run early.

use std::sync::atomic::{AtomicU32, Ordering};

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::futex;

/// A flag that wakes who sleeps on it.
#[derive(Debug, Default)]
pub struct StopFlag(AtomicU32);

impl StopFlag {
    /// A flag that is down.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Raises the flag: tasks end at their next access or release.
    pub fn raise(&self) {
        self.0.store(1, Ordering::Release);
        futex::wake(&self.0, u32::MAX);
    }

    /// Whether it is up.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Sleeps until `time`, or until the flag is raised.
    pub fn sleep_until(&self, time: MonotonicTime) {
        while !self.is_raised() && clock::now() < time {
            if futex::wait(&self.0, 0, Some(time)).is_err() {
                // Without a futex to sleep on there is still the clock; the flag is seen afterwards.
                clock::sleep_until(time);
            }
        }
    }
}
