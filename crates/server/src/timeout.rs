//! How long a pager thread waits.
//!
//! A time limit makes each wait start and stop a timer of the kernel's. Most that is due is due in a second and hardly
//! ever comes to it. So what is far off is left to a timer that stays set while faults come and go, and only what is
//! near is a limit of the wait itself.

use freehold_linux::clock;
use rustix::event::Timespec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

/// What is due in fewer nanoseconds is near.
const NEAR: u64 = 5_000_000;
/// When a timer expires that is not set.
const NEVER: u64 = u64::MAX;

/// A timer among what a pager thread waits for.
#[derive(Debug)]
pub(crate) struct Timeout {
    timer: OwnedFd,
    /// When it expires, in nanoseconds of the monotonic clock.
    expires: u64,
}

impl Timeout {
    /// One that is not set.
    pub(crate) fn new() -> Result<Self, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self {
            timer: rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?,
            expires: NEVER,
        })
    }

    /// What becomes ready when it expires. It is never read: each time is an edge.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }

    /// It has expired, and is not set any more.
    pub(crate) fn has_expired(&mut self) {
        self.expires = NEVER;
    }

    /// How long to wait for something else at most, where something is due, in nanoseconds of the monotonic clock;
    /// `None` where nothing is, or the timer expires in time. It may expire too early.
    pub(crate) fn timeout(&mut self, due: Option<u64>) -> Option<Timespec> {
        let due = due.filter(|due| *due < self.expires)?;
        let left = due.saturating_sub(clock::now().as_nanos());
        if left < NEAR || self.set(due).is_err() {
            return Some(span(left));
        }
        self.expires = due;
        None
    }

    fn set(&self, at: u64) -> Result<(), Errno> {
        let setting = Itimerspec {
            it_interval: span(0),
            it_value: span(at),
        };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting).map(|_| ())
    }
}

fn span(nanos: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::{NEAR, Timeout};
    use freehold_linux::clock;
    use rustix::event::{PollFd, PollFlags, poll};

    fn expires(timer: &Timeout) -> bool {
        let wait = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
        let mut polled = [PollFd::new(&timer.timer, PollFlags::IN)];
        poll(&mut polled, Some(&wait)).expect("a wait") == 1
    }

    #[test]
    fn what_is_far_off_is_left_to_the_timer() {
        let mut timer = Timeout::new().expect("a timer");
        let now = clock::now().as_nanos();
        assert_eq!(timer.timeout(None), None);
        let near = timer.timeout(Some(now)).expect("it is due");
        assert_eq!((near.tv_sec, near.tv_nsec), (0, 0));
        // A stall between two looks at the clock makes it near.
        let far = now + 100 * NEAR;
        let limits = [far + 1, far, far + 10 * NEAR].map(|due| timer.timeout(Some(due)));
        assert_eq!((limits, timer.expires), ([None; 3], far));
        assert!(timer.timeout(Some(now + 1)).is_some(), "nearer than what it is set to");
        assert!(expires(&timer), "half a second later");
        assert!(clock::now().as_nanos() >= far);
        timer.has_expired();
        assert!(timer.timeout(Some(far)).is_some(), "it is not set any more");
    }
}
