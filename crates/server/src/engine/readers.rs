//! Threads that read files that are not in the page cache, so that no step of the engine waits for a disk.

use crate::engine::ends::{Ends, FileEnd};
use crate::error::EngineError;
use freehold_core::fact::PageRef;
use freehold_linux::Errno;
use freehold_store::PageLoan;
use rustix::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Threads.
const READERS: usize = 4;

/// A page to read.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) urgency: u8,
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) page: PageRef,
    pub(crate) pager: usize,
    pub(crate) loan: PageLoan,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: Vec<Job>,
    ending: bool,
}

#[derive(Debug, Default)]
struct Desk {
    queue: Mutex<Queue>,
    bell: Condvar,
}

/// The threads; dropping this lets them end when they have read what they are at.
#[derive(Debug)]
pub(crate) struct Readers {
    desk: Arc<Desk>,
}

impl Readers {
    pub(crate) fn start(ends: &Arc<Ends>) -> Result<Self, EngineError> {
        let desk = Arc::new(Desk::default());
        for number in 0..READERS {
            let (desk, ends) = (Arc::clone(&desk), Arc::clone(ends));
            let builder = std::thread::Builder::new().name(format!("freehold-read-{number}"));
            let started = builder.spawn(move || work(&desk, &ends));
            started.map_err(|_| EngineError::Limit { what: "threads" })?;
        }
        Ok(Self { desk })
    }

    /// Has a page read; the end is told to the pager thread named.
    pub(crate) fn submit(&self, job: Job) {
        let mut queue = self.desk.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.jobs.push(job);
        self.desk.bell.notify_one();
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let mut queue = self.desk.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.ending = true;
        self.desk.bell.notify_all();
    }
}

fn work(desk: &Desk, ends: &Ends) {
    while let Some(mut job) = next(desk) {
        let offset = u64::from(job.page.page().get()) * crate::PAGE;
        let result = read_page(&job.file, offset, &mut job.loan).map(|()| job.loan);
        ends.file_ended(job.pager, FileEnd { page: job.page, result });
    }
}

/// The most urgent job, of equals the oldest.
fn next(desk: &Desk) -> Option<Job> {
    let mut queue = desk.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if queue.ending {
            return None;
        }
        let urgencies = queue.jobs.iter().enumerate().map(|(at, job)| (at, job.urgency));
        if let Some((at, _)) = urgencies.rev().max_by_key(|(_, urgency)| *urgency) {
            return Some(queue.jobs.remove(at));
        }
        queue = desk.bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Reads one page; what lies past the file's end is zeros.
fn read_page(file: &OwnedFd, offset: u64, loan: &mut PageLoan) -> Result<(), Errno> {
    let bytes = loan.bytes_mut();
    let mut done = 0;
    while done < bytes.len() {
        let place = bytes.get_mut(done..).unwrap_or_default();
        match rustix::io::pread(file, &mut *place, offset + done as u64) {
            Ok(0) => {
                place.fill(0);
                return Ok(());
            }
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
