//! Tasks, and regions as they see them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use freehold_linux::fault::access::Refused;
use freehold_linux::memory::{ServedMapping, SharedMapping};
use freehold_linux::userfault::Modes;
use freehold_linux::{Errno, PageRange};
use freehold_protocol::message::{Answer, Request, TaskCounts};

use crate::connection::Inner;
use crate::error::{MapRegionError, RequestError};
use crate::link::Link;
use crate::region::Region;
use crate::reservation::{Held, Reservation};

/// A task: whose faults the server serves and counts. It ends when this and all its mappings are gone.
#[derive(Debug)]
pub struct Task {
    row: Arc<Row>,
}

/// The server's side of it.
#[derive(Debug)]
struct Row {
    inner: Arc<Inner>,
    handle: u32,
    /// Given up after the task.
    _reservation: Option<Arc<Held>>,
}

/// A region as one task sees it. Any thread may touch it; what that costs is the task's.
#[derive(Debug)]
pub struct Mapping {
    served: Arc<ServedMapping>,
    row: Arc<Row>,
    handle: u32,
    object: u32,
    /// The region's first page that is mapped.
    first: u32,
}

impl Task {
    pub(crate) fn make(
        inner: &Arc<Inner>,
        reservation: Option<&Reservation>,
        urgency: u8,
        name: &str,
    ) -> Result<Self, RequestError> {
        if reservation.is_some_and(|reservation| !Arc::ptr_eq(&reservation.held.link, &inner.link)) {
            return Err(RequestError::Stranger);
        }
        let request = Request::AddTask {
            membership: reservation.map_or(0, |reservation| reservation.held.handle),
            urgency,
            name,
        };
        let handle = inner.link.ask(&request, &[], made)?;
        let row = Row {
            inner: Arc::clone(inner),
            handle,
            _reservation: reservation.map(|reservation| Arc::clone(&reservation.held)),
        };
        Ok(Self { row: Arc::new(row) })
    }

    /// Maps all of a region.
    ///
    /// # Errors
    /// See [`MapRegionError`].
    pub fn map(&self, region: &Region) -> Result<Mapping, MapRegionError> {
        self.map_pages(region, PageRange::new(0, region.pages()))
    }

    /// Maps `pages` pages of a region from page `first` on.
    ///
    /// # Errors
    /// See [`MapRegionError`].
    pub fn map_part(&self, region: &Region, first: u32, pages: u32) -> Result<Mapping, MapRegionError> {
        let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        self.map_pages(region, PageRange::new(number(first), number(pages)))
    }

    fn map_pages(&self, region: &Region, range: PageRange) -> Result<Mapping, MapRegionError> {
        let inner = &self.row.inner;
        if !Arc::ptr_eq(&inner.link, region.link()) {
            return Err(RequestError::Stranger.into());
        }
        if !inner.link.is_own() {
            return Err(RequestError::Forked.into());
        }
        if !region.has(range) {
            return Err(RequestError::OutOfBounds.into());
        }
        let (object, access) = region.object();
        let writable = region.is_writable();
        let modes = if writable {
            Modes::ALL
        } else {
            Modes::MISSING | Modes::MINOR
        };
        let shared = SharedMapping::new(object, range, access)?;
        let served = Arc::new(ServedMapping::new(shared, &inner.userfault, modes)?);
        // Pages fit a `u32`, because those of the whole region do.
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (object, first) = (region.handle(), number(range.first()));
        let request = Request::Map {
            task: self.row.handle,
            object,
            address: served.base().addr() as u64,
            first,
            pages: number(range.count()),
            writable,
        };
        if !inner.table.add(&served) {
            return Err(RequestError::Gone.into());
        }
        match inner.link.ask(&request, &[], made) {
            Ok(handle) => Ok(Mapping {
                served,
                row: Arc::clone(&self.row),
                handle,
                object,
                first,
            }),
            Err(error) => {
                inner.table.remove(&served);
                Err(error.into())
            }
        }
    }

    /// What happened to it so far, in its mappings.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn counts(&self) -> Result<TaskCounts, RequestError> {
        ask_counts(&self.row.inner.link, &Request::Count { task: self.row.handle })
    }

    /// Tells the server that a job is over, and waits for nothing: for use between two jobs of a real-time thread.
    /// Where the server is behind it is not told, and
    /// [`Connection::lost_job_ends`](crate::Connection::lost_job_ends) counts.
    pub fn job_end(&self, response: Duration, missed: bool) {
        let response = u64::try_from(response.as_nanos()).unwrap_or(u64::MAX);
        self.row.inner.link.post(&Request::JobEnd {
            task: self.row.handle,
            response,
            missed,
        });
    }
}

/// What a request for counts is answered with.
pub(crate) fn ask_counts(link: &Link, request: &Request<'_>) -> Result<TaskCounts, RequestError> {
    link.ask(request, &[], |answer, _| match answer {
        Answer::Counts { counts } => Some(counts),
        _ => None,
    })
}

fn made<D>(answer: Answer<'_>, _: D) -> Option<u32> {
    match answer {
        Answer::Made { handle } => Some(handle),
        _ => None,
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        // Where this fails the task ends with the connection.
        let _ = self.inner.link.ask_done(&Request::RemoveTask { task: self.handle });
    }
}

impl Mapping {
    /// The first byte. The memory comes and goes, and other processes may write to it: only atomics may be referred to.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.served.base()
    }

    /// The length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.served.length()
    }

    /// The length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.served.pages()
    }

    /// The length in words of eight bytes.
    #[must_use]
    pub fn words(&self) -> usize {
        self.served.words()
    }

    /// All words, to be read and written as any others; an access waits for its page. In a region for reading only a
    /// write ends the process. Where there are many accesses, this is faster than a call for each.
    #[inline]
    #[must_use]
    pub fn as_words(&self) -> &[AtomicU64] {
        self.served.as_words()
    }

    /// Reads the `index`th word; waits for its page. `None` past the end.
    #[inline]
    #[must_use]
    pub fn read_word(&self, index: usize) -> Option<u64> {
        self.served.read_word(index)
    }

    /// As [`read_word`](Self::read_word), or an error where the server cannot bring the page, if the process handles
    /// that ([`freehold_linux::fault::install`]). Another access asks for the page anew.
    ///
    /// # Errors
    /// [`Refused`]; also past the end.
    pub fn try_read_word(&self, index: usize) -> Result<u64, Refused> {
        self.served.try_read_word(index)
    }

    /// As [`write_word`](Self::write_word), with the errors of [`try_read_word`](Self::try_read_word).
    ///
    /// # Errors
    /// [`Refused`]; also past the end.
    pub fn try_write_word(&self, index: usize, value: u64) -> Result<(), Refused> {
        self.served.try_write_word(index, value)
    }

    /// Writes the `index`th word; waits for its page. `None` past the end. Ends the process where the region is for
    /// reading only.
    #[inline]
    pub fn write_word(&self, index: usize, value: u64) -> Option<()> {
        self.served.write_word(index, value)
    }

    /// The connection, the object and its pages that are `pages` pages from page `first` of the mapping on; none where
    /// they leave it, or there are none.
    pub(crate) fn place(&self, first: usize, pages: usize) -> Option<(&Arc<Link>, u32, u32, u32)> {
        if pages == 0 || !PageRange::new(first, pages).fits(self.pages()) {
            return None;
        }
        let first = self.first.checked_add(u32::try_from(first).ok()?)?;
        Some((&self.row.inner.link, self.object, first, u32::try_from(pages).ok()?))
    }

    /// Drops this mapping's entries of `pages` pages from page `first` on; the pages stay where they are. The next
    /// touch of each is a soft fault. To learn what is referenced, and to measure.
    ///
    /// # Errors
    /// `INVAL` if the range is empty or leaves the mapping.
    pub fn zap(&self, first: usize, pages: usize) -> Result<(), Errno> {
        self.served.zap(PageRange::new(first, pages))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let inner = &self.row.inner;
        inner.table.remove(&self.served);
        // The memory itself goes right after: until then nobody touches it, and the address is not given out again
        // before the server knows.
        let _ = inner.link.ask_done(&Request::Unmap { mapping: self.handle });
    }
}
