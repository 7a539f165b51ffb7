//! A counted event (eventfd(2)): any thread, also in a signal handler, rings it; a service thread waits for it.

use crate::Errno;
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// An eventfd that counts rings. Each [`Event::wait`] takes one.
#[derive(Debug)]
pub struct Event {
    fd: OwnedFd,
}

impl Event {
    /// One that nobody has rung.
    ///
    /// # Errors
    /// The kernel's refusal, such as too many open files.
    pub fn new() -> Result<Self, Errno> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?;
        Ok(Self { fd })
    }

    /// Takes over an eventfd that somebody sent, to ring it. What else the descriptor may be, the sender has chosen.
    #[must_use]
    pub fn adopt(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Rings `times` times. Async-signal-safe; one system call, none for 0.
    pub fn ring(&self, times: u64) {
        if times > 0 {
            // The count would have to pass 2^64 - 2 to make this wait, and nothing else makes it fail.
            let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.fd, &times.to_ne_bytes()));
        }
    }

    /// Waits for a ring and takes it.
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

#[cfg(test)]
mod tests {
    use super::Event;

    #[test]
    fn every_ring_wakes_one_waiter() {
        let bell = Event::new().unwrap();
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| bell.wait())).collect();
            bell.ring(0);
            bell.ring(2);
            bell.ring(1);
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), Ok(()));
            }
        });
    }
}
