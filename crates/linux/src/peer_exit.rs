//! Noticing that the other end of a connection is gone, and ending this process because of it.

use crate::Errno;
use crate::event::Event;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How long a message may take to be written before the process ends without it.
const PATIENCE: Duration = Duration::from_millis(200);

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// The other end is gone, or will send no more.
    Hangup,
    /// The event was signalled; it still is.
    Event,
}

/// Sleeps until the peer of `socket` is gone or `event` is signalled. Reads nothing.
///
/// # Errors
/// The kernel's refusal, which nothing is known to cause.
pub fn wait(socket: BorrowedFd<'_>, event: &Event) -> Result<Noticed, Errno> {
    let mut sources = [
        PollFd::from_borrowed_fd(event.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(socket, PollFlags::RDHUP),
    ];
    loop {
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut sources, None))?;
        if !sources[0].revents().is_empty() {
            return Ok(Noticed::Event);
        }
        if !sources[1].revents().is_empty() {
            return Ok(Noticed::Hangup);
        }
    }
}

/// Sleeps until `socket` can be read from (`write` false) or written to, or its peer is gone, or `patience` is over;
/// false for that.
///
/// # Errors
/// The kernel's refusal, which nothing is known to cause.
pub fn ready(socket: BorrowedFd<'_>, write: bool, patience: Option<Duration>) -> Result<bool, Errno> {
    let wanted = if write { PollFlags::OUT } else { PollFlags::IN };
    let mut sources = [PollFd::from_borrowed_fd(socket, wanted)];
    let limit = patience.map(|span| Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    });
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut sources, limit.as_ref())).map(|ready| ready > 0)
}

/// Ends this process at once by SIGKILL, after `message` on standard error if that takes it soon. No destructor and no
/// exit handler runs: for when another thread of the process may never go on again.
pub fn end_process(message: &str) -> ! {
    let error = std::io::stderr();
    if ready(error.as_fd(), true, Some(PATIENCE)).unwrap_or(false) {
        let _ = rustix::io::write(&error, message.as_bytes());
    }
    loop {
        // Cannot be refused; the signal ends the process before the call returns.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::{Noticed, ready, wait};
    use crate::event::Event;
    use crate::socket::PacketSocket;
    use rustix::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_peer_that_is_gone_is_noticed_and_packets_are_not() {
        let event = Event::new().unwrap();
        let (one, other) = PacketSocket::pair().unwrap();
        other.send(b"packet", &[]).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(one.as_fd(), &event));
            std::thread::sleep(Duration::from_millis(10));
            assert!(!waiter.is_finished());
            drop(other);
            assert_eq!(waiter.join().unwrap(), Ok(Noticed::Hangup));
        });
    }

    #[test]
    fn an_event_ends_the_wait() {
        let event = Event::new().unwrap();
        let (one, _other) = PacketSocket::pair().unwrap();
        event.signal(1);
        assert_eq!(wait(one.as_fd(), &event), Ok(Noticed::Event));
    }

    #[test]
    fn readiness_is_waited_for_and_not_for_ever() {
        let (one, other) = PacketSocket::pair().unwrap();
        let soon = Some(Duration::from_millis(1));
        assert_eq!(ready(one.as_fd(), false, soon), Ok(false));
        assert_eq!(ready(one.as_fd(), true, soon), Ok(true));
        other.send(b"packet", &[]).unwrap();
        assert_eq!(ready(one.as_fd(), false, None), Ok(true));
    }
}
