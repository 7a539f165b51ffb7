//! The threads that move the bytes: one with io_uring, or several that read and write.

use super::backing::offset;
use super::board::{Board, Job};
use super::boost::Boost;
use crate::error::SetupError;
use freehold_linux::ring::{Direction, Ring, Transfer};
use freehold_linux::sched::SetPolicyError;
use freehold_linux::thread::Thread;
use freehold_linux::{Errno, ThreadId, clock, service};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

/// How long to wait before the kernel is asked again that had no memory for a transfer.
const PAUSE: Duration = Duration::from_millis(1);

/// What a thread says when it has begun: whether it has its ring, and whether it may have its priority.
type Begun = (Result<(), Errno>, Result<ThreadId, SetPolicyError>);

/// The threads of a store, and what they could not have.
#[derive(Debug)]
pub(super) struct Workers {
    handles: Vec<Thread<()>>,
    pub(super) priority: Result<(), SetPolicyError>,
}

/// Why there is no thread with a ring.
#[derive(Debug)]
pub(super) enum NoRing {
    /// The kernel has none to give.
    Refused(Errno),
    /// There is no thread to be had.
    Failed(SetupError),
}

impl Workers {
    /// One thread with a ring for `parallel` transfers.
    pub(super) fn with_ring(
        board: &Arc<Board>,
        file: OwnedFd,
        parallel: u16,
        priority: Option<u32>,
    ) -> Result<Self, NoRing> {
        let (begun, begin) = mpsc::channel();
        let shared = Arc::clone(board);
        let work = move || {
            // A ring belongs to the thread that makes it.
            let ring = Ring::new(file, Arc::clone(&shared.event), parallel);
            let has_ring = ring.as_ref().map(|_| ()).map_err(|errno| *errno);
            let _ = begun.send((has_ring, try_priority(priority)));
            if let Ok(ring) = ring {
                serve_ring(&shared, ring);
            }
        };
        let handle = service::spawn("freehold-store", work).map_err(|error| NoRing::Failed(no_thread(&error)))?;
        // A thread that is gone without a word panicked.
        let (ring, thread) = begin
            .recv()
            .unwrap_or((Err(Errno::CANCELED), Err(SetPolicyError::NotPermitted)));
        match ring {
            Ok(()) => Ok(Self {
                handles: vec![handle],
                priority: boost(board, priority, vec![thread]),
            }),
            Err(errno) => {
                let _ = handle.join();
                Err(NoRing::Refused(errno))
            }
        }
    }

    /// `count` threads that read and write.
    pub(super) fn with_threads(
        board: &Arc<Board>,
        file: OwnedFd,
        count: u16,
        priority: Option<u32>,
    ) -> Result<Self, SetupError> {
        let file = Arc::new(file);
        let (begun, begin) = mpsc::channel();
        let mut workers = Self {
            handles: Vec::new(),
            priority: Ok(()),
        };
        for _ in 0..count {
            let (shared, file, begun): (_, _, Sender<Begun>) = (Arc::clone(board), Arc::clone(&file), begun.clone());
            let work = move || {
                let _ = begun.send((Ok(()), try_priority(priority)));
                serve_plainly(&shared, &file);
            };
            match service::spawn("freehold-store", work) {
                Ok(handle) => workers.handles.push(handle),
                Err(error) => {
                    workers.stop(board);
                    return Err(no_thread(&error));
                }
            }
        }
        drop(begun);
        // A thread that is gone without a word panicked.
        let threads = begin
            .iter()
            .take(usize::from(count))
            .map(|(_, thread)| thread)
            .collect();
        workers.priority = boost(board, priority, threads);
        Ok(workers)
    }

    /// Ends the threads; transfers at the device end first, others never begin.
    pub(super) fn stop(&mut self, board: &Board) {
        board.stopping.store(true, Ordering::Release);
        board.event.signal(self.handles.len() as u64);
        for handle in self.handles.drain(..) {
            let _ = handle.join();
        }
    }
}

/// Whether the calling thread may have this priority.
fn try_priority(priority: Option<u32>) -> Result<ThreadId, SetPolicyError> {
    priority.map_or(Ok(()), Boost::try_here)?;
    Ok(ThreadId::current())
}

/// Lets requests boost the threads, if a priority is wanted and every thread may have it.
fn boost(
    board: &Board,
    priority: Option<u32>,
    threads: Vec<Result<ThreadId, SetPolicyError>>,
) -> Result<(), SetPolicyError> {
    let threads = threads.into_iter().collect::<Result<Vec<_>, _>>()?;
    if let Some(priority) = priority {
        board.boost.set(threads, priority);
    }
    Ok(())
}

fn no_thread(error: &std::io::Error) -> SetupError {
    let code = error.raw_os_error();
    SetupError::Threads(code.map_or(Errno::AGAIN, Errno::from_raw_os_error))
}

fn serve_ring(board: &Board, mut ring: Ring) {
    while !board.stopping.load(Ordering::Acquire) {
        board.looks();
        while ring.has_room()
            && let Some(job) = board.next_job()
        {
            begin(board, &mut ring, job);
        }
        if ring.wait().is_err() {
            clock::sleep_until(clock::now().saturating_add(PAUSE));
        }
        while let Some(ended) = ring.next_ended() {
            let job = Job {
                slot: crate::Slot::new(ended.tag),
                direction: ended.direction,
                page: ended.page,
                length: 0,
            };
            if let Some(again) = board.attempted(job, ended.result) {
                begin(board, &mut ring, again);
            }
        }
    }
}

fn begin(board: &Board, ring: &mut Ring, job: Job) {
    let transfer = Transfer {
        tag: job.slot.get(),
        direction: job.direction,
        page: job.page,
        length: job.length,
        offset: offset(job.slot),
    };
    if let Err(refused) = ring.begin(transfer) {
        // There was room; whatever the reason, nobody may wait for it.
        let job = Job {
            slot: crate::Slot::new(refused.tag),
            direction: refused.direction,
            page: refused.page,
            length: 0,
        };
        let _ = board.attempted(job, Err(Errno::BUSY));
    }
}

fn serve_plainly(board: &Board, file: &OwnedFd) {
    loop {
        // Without its event nothing would ever wake this thread again.
        if board.event.wait().is_err() || board.stopping.load(Ordering::Acquire) {
            return;
        }
        let mut next = board.next_job();
        while let Some(mut job) = next {
            let result = attempt(file, &mut job);
            next = board.attempted(job, result);
        }
    }
}

fn attempt(file: &OwnedFd, job: &mut Job) -> Result<usize, Errno> {
    let (at, length) = (offset(job.slot), job.length);
    match job.direction {
        Direction::Read => rustix::io::pread(file, &mut job.page.bytes_mut()[..length], at),
        Direction::Write => rustix::io::pwrite(file, &job.page.bytes()[..length], at),
    }
}
