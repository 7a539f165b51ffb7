//! A store in a file.
//!
//! Bytes go straight between the device and the caller's page: no copy is made on the way. Requests wait in memory, the
//! most urgent in front, and only a few are at the device at a time, so that one for which somebody waits does not
//! queue behind many that nobody misses.
//!
//! # Threads
//! The store has a thread of its own that begins transfers and takes their ends, through io_uring; where there is none,
//! a few threads that read and write. Submitters only enter requests and signal an event: see [`freehold_linux::ring`]
//! for why tasks do not begin transfers themselves. These threads touch no page; they hold the locks of the queue and
//! of the completion's tables for a few steps at a time. They have a real-time priority only while somebody hurries.
//!
//! # What can go wrong
//! A transfer that moves less than a record is begun again from the front, a few times. An error is the transfer's
//! result. A record of which only a part reached the device, though the device said otherwise, shows by its checksum,
//! which is kept in memory; so does a record read from the wrong place. The file has no name and does not outlive the
//! store: nothing is ever flushed, and a crash loses nothing that anybody could ask for.

mod backing;
mod board;
mod boost;
mod workers;

use self::backing::Backing;
use self::board::Board;
use self::workers::{NoRing, Workers};
use crate::description::{Backend, Description, Kind, Shortfall};
use crate::error::{SetupError, StoreError};
use crate::faults::Faults;
use crate::slots::{Mark, Slot};
use crate::store::{Completion, Due, Store, Urgency};
use crate::tally::StoreStats;
use crate::{RECORD_SIZE, Record, checksum};
use freehold_core::units::{Duration, Instant};
use freehold_linux::event::Event;
use freehold_linux::memory::PageLease;
use rustix::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Most threads where there is no io_uring.
const MOST_THREADS: u16 = 8;

/// Shape of a [`FileStore`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileConfig {
    /// Records it can hold, at least 1.
    pub slots: u32,
    /// Where the file is made. It has no name there.
    pub directory: PathBuf,
    /// Transfers at the device at a time, at least 1.
    pub parallel: u16,
    /// Try io_uring first.
    pub io_uring: bool,
    /// Try to pass the page cache by.
    pub direct: bool,
    /// Set room aside for every record now. Without, a write may find the file system full.
    pub preallocate: bool,
    /// The SCHED_FIFO priority of the store's threads while a request is under way that is not background; `None`
    /// leaves them to time sharing always.
    pub priority: Option<u32>,
}

impl FileConfig {
    /// A file of `slots` records in `directory`: 8 at a time, everything tried, no real-time priority.
    #[must_use]
    pub fn new(slots: u32, directory: PathBuf) -> Self {
        Self {
            slots,
            directory,
            parallel: 8,
            io_uring: true,
            direct: true,
            preallocate: true,
            priority: None,
        }
    }
}

/// Keeps evicted pages in a file. Dropping it ends what is at the device; what waits is forgotten.
#[derive(Debug)]
pub struct FileStore {
    board: Arc<Board>,
    workers: Workers,
    /// For set-up and tests; the threads have their own descriptor.
    file: OwnedFd,
    backend: Backend,
    direct: bool,
    shortfalls: Vec<Shortfall>,
}

impl FileStore {
    /// Makes the file and starts the threads. `completion` is told of every transfer that ends.
    ///
    /// # Errors
    /// See [`SetupError`]; nothing is left behind.
    pub fn new(config: &FileConfig, completion: Arc<dyn Completion>) -> Result<Self, SetupError> {
        if config.slots == 0 {
            return Err(SetupError::NoSlots);
        }
        if config.parallel == 0 {
            return Err(SetupError::NoChannels);
        }
        let Backing {
            file,
            direct,
            mut shortfalls,
        } = Backing::new(config)?;
        let event = Arc::new(Event::new().map_err(SetupError::Threads)?);
        let board = Arc::new(Board::new(config.slots, event, completion));
        let (workers, backend) = start(config, &board, &file, &mut shortfalls)?;
        shortfalls.extend(workers.priority.err().map(Shortfall::Priority));
        Ok(Self {
            board,
            workers,
            file,
            backend,
            direct,
            shortfalls,
        })
    }

    fn note(&self, slot: Slot, mark: Mark, wanted: bool) {
        if wanted {
            self.board.slots.set(slot, mark);
        } else {
            self.board.slots.clear(slot, mark);
        }
    }
}

fn start(
    config: &FileConfig,
    board: &Arc<Board>,
    file: &OwnedFd,
    shortfalls: &mut Vec<Shortfall>,
) -> Result<(Workers, Backend), SetupError> {
    let descriptor = || {
        file.try_clone()
            .map_err(|_| SetupError::File(freehold_linux::Errno::MFILE))
    };
    if config.io_uring {
        match Workers::with_ring(board, descriptor()?, config.parallel, config.priority) {
            Ok(workers) => return Ok((workers, Backend::IoUring)),
            Err(NoRing::Failed(error)) => return Err(error),
            Err(NoRing::Refused(errno)) => shortfalls.push(Shortfall::IoUring(errno)),
        }
    }
    let count = config.parallel.min(MOST_THREADS);
    let workers = Workers::with_threads(board, descriptor()?, count, config.priority)?;
    Ok((workers, Backend::Threads(count)))
}

impl Store for FileStore {
    fn submit_write(&self, _: Instant, slot: Slot, urgency: Urgency, page: PageLease) -> Result<Due, StoreError> {
        let board = &self.board;
        board.slots.check(slot)?;
        board.slots.clear(slot, Mark::PRESENT);
        board.slots.set_sum(slot, checksum::of(slot.get(), page.bytes()));
        board.slots.set(slot, Mark::BACKED);
        board.slots.set(slot, Mark::WRITE);
        self.note(slot, Mark::STRUCK, board.faults.strike_write());
        self.note(slot, Mark::TORN, board.faults.tear());
        board.submit(slot, urgency, page);
        Ok(Due::WhenTold)
    }

    fn submit_read(&self, _: Instant, slot: Slot, urgency: Urgency, page: PageLease) -> Result<Due, StoreError> {
        let board = &self.board;
        board.slots.require(slot)?;
        board.slots.clear(slot, Mark::WRITE);
        self.note(slot, Mark::STRUCK, board.faults.strike_read());
        board.submit(slot, urgency, page);
        Ok(Due::WhenTold)
    }

    fn flush(&self) {
        match self.backend {
            Backend::Threads(_) => self.board.announce_to_each(),
            Backend::IoUring | Backend::Inline => self.board.announce_to_one(),
        }
    }

    fn due(&self, _: Instant, slot: Slot) -> Due {
        if self.board.has_ended(slot) {
            Due::At(Instant::ZERO)
        } else {
            Due::WhenTold
        }
    }

    fn raise(&self, _: Instant, slot: Slot, urgency: Urgency) -> Option<Instant> {
        if !self.board.has_ended(slot) {
            self.board.raise(slot, urgency);
        }
        None
    }

    fn finish_write(&self, slot: Slot) -> Result<PageLease, StoreError> {
        let ended = self.board.finish(slot);
        if ended.is_ok() {
            self.board.slots.set(slot, Mark::PRESENT);
        }
        self.board.tally.write(ended)
    }

    fn finish_read(&self, slot: Slot) -> Result<PageLease, StoreError> {
        let ended = self.board.finish(slot).and_then(|page| {
            self.board.slots.verify(slot, page.bytes())?;
            Ok(page)
        });
        self.board.tally.read(ended)
    }

    fn cancel(&self, slot: Slot) {
        self.board.cancel(slot);
    }

    fn seed(&self, slot: Slot, content: Option<&Record>) -> Result<(), StoreError> {
        let slots = &self.board.slots;
        slots.check(slot)?;
        let record = content.unwrap_or(&[0; RECORD_SIZE]);
        // What was never written reads as zeros.
        if content.is_some() || slots.has(slot, Mark::BACKED) {
            backing::write_now(&self.file, slot, record).map_err(|errno| StoreError::Io { slot, errno })?;
            slots.set(slot, Mark::BACKED);
        }
        slots.set_sum(slot, checksum::of(slot.get(), record));
        slots.set(slot, Mark::PRESENT);
        Ok(())
    }

    fn damage(&self, slot: Slot) -> Result<(), StoreError> {
        self.board.slots.check(slot)?;
        backing::damage_now(&self.file, slot).map_err(|errno| StoreError::Io { slot, errno })
    }

    fn latency(&self) -> Option<Duration> {
        None
    }

    fn faults(&self) -> &Faults {
        &self.board.faults
    }

    fn stats(&self) -> StoreStats {
        self.board.tally.stats()
    }

    fn describe(&self) -> Description {
        Description {
            kind: Kind::File,
            backend: self.backend,
            direct: self.direct,
            shortfalls: self.shortfalls.clone(),
        }
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        self.workers.stop(&self.board);
    }
}
