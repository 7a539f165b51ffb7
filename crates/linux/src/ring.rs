//! io_uring: reads and writes of one file that go on while their thread does something else.
//!
//! A ring belongs to one thread, which begins transfers and waits for their ends. The kernel does what is left to do
//! for a transfer in the context of the thread that began it, when that thread gets a CPU. If tasks began transfers
//! themselves, an urgent task that waits for the same page would wait for a preempted one, and system calls of the
//! application would be interrupted by transfers it knows nothing of.

use crate::event::Event;
use crate::memory::PageLease;
use crate::{Errno, PAGE_SIZE};
use io_uring::{IoUring, opcode, types};
use rustix::fd::{AsRawFd, OwnedFd};
use std::fmt;
use std::io;
use std::sync::Arc;

/// The mark of the request that listens to the event.
const EVENT: u64 = u64::MAX;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the file to the page.
    Read,
    /// From the page to the file.
    Write,
}

/// One transfer to begin.
#[derive(Debug)]
pub struct Transfer {
    /// Comes back with the end.
    pub tag: u32,
    /// Which way.
    pub direction: Direction,
    /// The page.
    pub page: PageLease,
    /// Bytes from the beginning of the page on; more than a page means a page.
    pub length: usize,
    /// The place in the file, in bytes.
    pub offset: u64,
}

/// A transfer that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The transfer's.
    pub tag: u32,
    /// The transfer's.
    pub direction: Direction,
    /// The page, given back.
    pub page: PageLease,
    /// Bytes transferred, perhaps fewer than asked for.
    pub result: Result<usize, Errno>,
}

#[derive(Debug)]
struct Flight {
    tag: u32,
    direction: Direction,
    page: PageLease,
}

/// A ring for the transfers of one file. Dropping it waits for those under way.
pub struct Ring {
    // Dropped before the file and the flights.
    io: IoUring,
    file: OwnedFd,
    event: Arc<Event>,
    /// Transfers under way, by the mark that the kernel returns.
    flights: Box<[Option<Flight>]>,
    vacant: Vec<u32>,
    /// The kernel listens to the event.
    listening: bool,
}

impl Ring {
    /// A ring for up to `capacity` transfers of `file` at a time, which also wakes up when `event` is signalled. To be
    /// made, used and dropped by one thread.
    ///
    /// # Errors
    /// The kernel's refusal: `NOSYS` without io_uring, `PERM` where it or its use is forbidden, `NOMEM`.
    pub fn new(file: OwnedFd, event: Arc<Event>, capacity: u16) -> Result<Self, Errno> {
        let entries = (u32::from(capacity) + 1).next_power_of_two();
        let deferred = IoUring::builder()
            .dontfork()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries);
        let io = match deferred {
            // Older than 6.1: the ends come as interruptions of this thread, which does nothing else.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::builder().dontfork().build(entries),
            other => other,
        };
        let mut io = io.map_err(|error| errno(&error))?;
        // A filter may forbid to hand anything to a ring that it let be made.
        try_nothing(&mut io)?;
        Ok(Self {
            io,
            file,
            event,
            flights: (0..capacity).map(|_| None).collect(),
            vacant: (0..u32::from(capacity)).rev().collect(),
            listening: false,
        })
    }

    /// Whether another transfer can begin.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.vacant.is_empty()
    }

    /// Puts a transfer into the queue; [`Ring::wait`] hands it to the kernel. Allocates nothing.
    ///
    /// # Errors
    /// The transfer is given back if [`Ring::has_room`] is false.
    pub fn begin(&mut self, transfer: Transfer) -> Result<(), Transfer> {
        let Some(at) = self.vacant.pop() else {
            return Err(transfer);
        };
        let file = types::Fd(self.file.as_raw_fd());
        // A page is far shorter than 2^32 bytes.
        let length = u32::try_from(transfer.length.min(PAGE_SIZE)).unwrap_or(0);
        let start = transfer.page.start();
        let entry = match transfer.direction {
            Direction::Read => opcode::Read::new(file, start, length).offset(transfer.offset).build(),
            Direction::Write => opcode::Write::new(file, start, length).offset(transfer.offset).build(),
        };
        // SAFETY: the page is lent until `flights` gives it back, which is after the kernel has said that the transfer
        // has ended, and `length` is at most its length. The file is open as long as the ring.
        let pushed = unsafe { self.io.submission().push(&entry.user_data(u64::from(at))) };
        debug_assert!(pushed.is_ok(), "the queue is longer than the transfers there can be");
        let Transfer {
            tag, direction, page, ..
        } = transfer;
        if pushed.is_err() {
            self.vacant.push(at);
            let (length, offset) = (length as usize, transfer.offset);
            return Err(Transfer {
                tag,
                direction,
                page,
                length,
                offset,
            });
        }
        self.flights[at as usize] = Some(Flight { tag, direction, page });
        Ok(())
    }

    /// Hands what was begun to the kernel, and waits until a transfer has ended or the event is signalled; may return
    /// for no reason. A signal of the event is taken.
    ///
    /// # Errors
    /// The kernel's refusal, which nothing but a lack of its memory is known to cause; call again.
    pub fn wait(&mut self) -> Result<(), Errno> {
        if !self.listening {
            self.listen();
        }
        match self.io.submit_and_wait(1) {
            Ok(_) => Ok(()),
            // A signal, or more ends than the queue holds: take those that are there.
            Err(error) if matches!(errno(&error), Errno::INTR | Errno::BUSY) => Ok(()),
            Err(error) => Err(errno(&error)),
        }
    }

    /// The next transfer that has ended.
    pub fn next_ended(&mut self) -> Option<Ended> {
        loop {
            let end = self.io.completion().next()?;
            if end.user_data() == EVENT {
                self.listening = false;
                // There is a ring to take, unless the poll itself failed; then there is none, and reading would wait.
                if end.result() > 0 {
                    let _ = self.event.wait();
                }
                continue;
            }
            let at = u32::try_from(end.user_data()).unwrap_or(u32::MAX);
            let Some(flight) = self.flights.get_mut(at as usize).and_then(Option::take) else {
                continue;
            };
            self.vacant.push(at);
            let result = usize::try_from(end.result()).map_err(|_| Errno::from_raw_os_error(-end.result()));
            return Some(Ended {
                tag: flight.tag,
                direction: flight.direction,
                page: flight.page,
                result,
            });
        }
    }

    fn listen(&mut self) {
        let event = types::Fd(std::os::fd::AsFd::as_fd(&*self.event).as_raw_fd());
        let readable = u32::from(libc::POLLIN.cast_unsigned());
        let entry = opcode::PollAdd::new(event, readable).build().user_data(EVENT);
        // SAFETY: the entry names no memory, and the event is open as long as the ring.
        self.listening = unsafe { self.io.submission().push(&entry) }.is_ok();
    }
}

impl Drop for Ring {
    /// The kernel must not write to pages that are no longer lent.
    fn drop(&mut self) {
        let mut failures = 0;
        while self.flights.iter().any(Option::is_some) {
            if self
                .io
                .submit_and_wait(1)
                .is_err_and(|error| errno(&error) != Errno::INTR)
            {
                failures += 1;
            }
            while self.next_ended().is_some() {}
            if failures > 1000 {
                // Their pages would be reused while the kernel transfers.
                crate::pi_mutex::die(b"freehold: transfers under way cannot be waited for\n");
            }
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("file", &self.file)
            .field("capacity", &self.flights.len())
            .field("under_way", &(self.flights.len() - self.vacant.len()))
            .finish_non_exhaustive()
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Has the kernel do nothing once, through the ring.
fn try_nothing(io: &mut IoUring) -> Result<(), Errno> {
    // SAFETY: the entry names no memory.
    let pushed = unsafe { io.submission().push(&opcode::Nop::new().build()) };
    pushed.map_err(|_| Errno::NOSPC)?;
    while io.completion().next().is_none() {
        match io.submit_and_wait(1) {
            Err(error) if errno(&error) != Errno::INTR => return Err(errno(&error)),
            _ => {}
        }
    }
    Ok(())
}
