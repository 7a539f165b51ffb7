//! Event descriptors (eventfd(2)): any thread, also in a signal handler, signals one; a service thread waits for it.

use crate::Errno;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// An eventfd that counts signals. Each [`Event::wait`] takes one.
#[derive(Debug)]
pub struct Event {
    fd: OwnedFd,
}

impl Event {
    /// One that nobody has signalled.
    ///
    /// # Errors
    /// The kernel's refusal, such as too many open files.
    pub fn new() -> Result<Self, Errno> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?;
        Ok(Self { fd })
    }

    /// Takes over an eventfd that somebody sent, to signal it. What else the descriptor may be, the sender has chosen.
    #[must_use]
    pub fn adopt(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Signals it `times` times. Async-signal-safe; one system call, none for 0.
    pub fn signal(&self, times: u64) {
        if times > 0 {
            // The count would have to pass 2^64 - 2 to make this wait, and nothing else makes it fail.
            let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.fd, &times.to_ne_bytes()));
        }
    }

    /// Waits for a signal and takes it.
    ///
    /// # Errors
    /// The kernel's refusal, which nothing is known to cause.
    pub fn wait(&self) -> Result<(), Errno> {
        let mut count = [0; 8];
        rustix::io::retry_on_intr(|| rustix::io::read(&self.fd, &mut count)).map(|_| ())
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An eventfd that says that there is something to be looked at: any number of signals are one until it is cleared.
#[derive(Debug)]
pub struct Wakeup {
    fd: OwnedFd,
}

impl Wakeup {
    /// One that nobody has signalled.
    ///
    /// # Errors
    /// The kernel's refusal, such as too many open files.
    pub fn new() -> Result<Self, Errno> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd })
    }

    /// Another descriptor of the same.
    ///
    /// # Errors
    /// The kernel's refusal, such as too many open files.
    pub fn try_clone(&self) -> Result<Self, Errno> {
        let fd = rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)?;
        Ok(Self { fd })
    }

    /// Makes it readable. Async-signal-safe; one system call.
    pub fn signal(&self) {
        // Full after 2^64 signals, and then it is readable already.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.fd, &1_u64.to_ne_bytes()));
    }

    /// Has it not be readable any more. What is signalled later makes it readable again.
    pub fn clear(&self) {
        // Refused where nobody has signalled it.
        let _ = rustix::io::read(&self.fd, &mut [0_u8; 8]);
    }

    /// Waits until it is readable, at most so long; whether it is. An interruption counts as a signal.
    #[must_use]
    pub fn wait(&self, most: Option<Duration>) -> bool {
        let timeout = most.and_then(|most| Timespec::try_from(most).ok());
        rustix::event::poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], timeout.as_ref()) != Ok(0)
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Wakeup};
    use std::time::Duration;

    #[test]
    fn signals_are_one_until_they_are_cleared() {
        let wakeup = Wakeup::new().unwrap();
        let at_once = Some(Duration::ZERO);
        assert!(!wakeup.wait(at_once));
        wakeup.try_clone().unwrap().signal();
        wakeup.signal();
        assert!(wakeup.wait(None) && wakeup.wait(at_once), "waiting takes nothing");
        wakeup.clear();
        assert!(!wakeup.wait(at_once));
        wakeup.clear();
        wakeup.signal();
        assert!(wakeup.wait(None));
    }

    #[test]
    fn every_signal_wakes_one_waiter() {
        let event = Event::new().unwrap();
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| event.wait())).collect();
            event.signal(0);
            event.signal(2);
            event.signal(1);
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), Ok(()));
            }
        });
    }
}
