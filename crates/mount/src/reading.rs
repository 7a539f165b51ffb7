//! Reads: out of own pages, else out of the device memory, else from the file past the kernel's page cache.

use crate::ahead::Ahead;
use crate::content::{Leased, Sequence, State};
use crate::files::{Files, count, victim_key};
use crate::inode::Inode;
use crate::own::{Bytes, Evicted, PAGE, PageKey};
use crate::reader::Reader;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest read that is answered at once; the kernel asks for 1 MiB at most.
const MOST: u32 = 1 << 20;

/// What a read is answered with.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) bytes: Vec<u8>,
    /// The error that the next byte is behind.
    pub(crate) behind: Option<Errno>,
}

impl Served {
    fn whole(bytes: Vec<u8>) -> Self {
        Self { bytes, behind: None }
    }

    /// For the kernel's pages, where fewer bytes mean the end of the file: all or an error. The kernel asks again for
    /// each page by itself then.
    pub(crate) fn for_pages(self) -> Result<Vec<u8>, Errno> {
        match self.behind {
            None => Ok(self.bytes),
            Some(error) => Err(error),
        }
    }
}

/// A page that was not here.
pub(crate) struct Fetched {
    pub(crate) key: PageKey,
    pub(crate) bytes: Bytes,
}

impl Files {
    /// The bytes of a file from `offset` on: fewer than `size` only at its end, or where an error is behind them. The
    /// caller holds `state` until the answer is out.
    pub(crate) fn read(
        self: &Arc<Self>,
        inode: &Arc<Inode>,
        state: &State,
        (offset, size): (u64, u32),
        sequence: &Mutex<Sequence>,
    ) -> Result<Served, Errno> {
        let size = size.min(MOST);
        match state.still() {
            Some((reader, lease)) => {
                if let Some(served) = self.read_cached(inode, reader, lease, (offset, size), sequence)? {
                    return Ok(served);
                }
            }
            None if state.lease.is_some() => self.give_up(inode),
            None => {}
        }
        let reader = state.reader.as_ref().ok_or(Errno::BADF)?;
        let mut bytes = vec![0; size as usize];
        let found = reader.read(&mut bytes, offset)?;
        bytes.truncate(found.bytes);
        count(&self.counters.device_pages, found.bytes.div_ceil(PAGE));
        Ok(Served {
            bytes,
            behind: found.behind,
        })
    }

    /// `None` where it is to be read without a cache: the content is not what the lease said, or too long to be cached,
    /// or its first byte cannot be read.
    fn read_cached(
        &self,
        inode: &Arc<Inode>,
        reader: &Reader,
        lease: Leased,
        (offset, size): (u64, u32),
        sequence: &Mutex<Sequence>,
    ) -> Result<Option<Served>, Errno> {
        let end = lease.size.min(offset.saturating_add(u64::from(size)));
        if offset >= end {
            return Ok(Some(Served::whole(Vec::new())));
        }
        let skip = usize::try_from(offset % PAGE as u64).map_err(|_| Errno::OVERFLOW)?;
        let Some(pages) = pages_of(offset..end) else {
            return Ok(None);
        };
        let mut bytes = vec![0; pages.len() * PAGE];
        let mut way = sequence.lock().unwrap_or_else(PoisonError::into_inner);
        let last = way.last();
        let mut missing = self.cache().copy(lease.file, pages.start, &mut bytes, last);
        let missed = !missing.is_empty();
        let ahead = way.step(&pages, missed, pages_of(0..lease.size).map_or(0, |all| all.end));
        drop(way);
        if missed && inode.content.await_ahead(&pages) {
            missing = self.cache().copy(lease.file, pages.start, &mut bytes, last);
        }
        count(&self.counters.own_hits, pages.len() - missing.len());
        if let Some(pages) = ahead {
            // Where many are asked for already, this one is left.
            let _ = self.ahead.try_send(Ahead {
                inode: Arc::clone(inode),
                file: lease.file,
                pages,
            });
        }
        if let Some(first) = missing.first() {
            let keys = missing.iter().map(|place| pages.start + place);
            let fetched = match self.fetch(reader, lease, keys) {
                Ok(Some(fetched)) => fetched,
                Ok(None) => return Ok(None),
                Err(error) => {
                    // What is here is told before the error.
                    let here = *first as usize * PAGE;
                    bytes.truncate(here);
                    bytes.drain(..skip.min(here));
                    let behind = Some(error);
                    return Ok((!bytes.is_empty()).then_some(Served { bytes, behind }));
                }
            };
            for page in &fetched {
                let place = (page.key.page - pages.start) as usize * PAGE;
                bytes[place..place + PAGE].copy_from_slice(&*page.bytes);
            }
            self.keep(fetched);
        }
        let wanted = usize::try_from(end - offset).map_err(|_| Errno::OVERFLOW)?;
        bytes.truncate(skip + wanted);
        bytes.drain(..skip);
        Ok(Some(Served::whole(bytes)))
    }

    /// Pages that are not here, in order: out of the device memory, else from the file. `None` where the file is
    /// shorter than the lease said.
    pub(crate) fn fetch(
        &self,
        reader: &Reader,
        lease: Leased,
        pages: impl IntoIterator<Item = u32>,
    ) -> Result<Option<Vec<Fetched>>, Errno> {
        let mut fetched = Vec::new();
        let mut absent: Option<Range<u32>> = None;
        for page in pages {
            let key = PageKey { file: lease.file, page };
            let mut bytes: Bytes = Box::new([0; PAGE]);
            if self.victims.get(victim_key(key), &mut bytes) {
                count(&self.counters.victim_hits, 1);
                fetched.push(Fetched { key, bytes });
                continue;
            }
            match &mut absent {
                Some(run) if run.end == page => run.end += 1,
                _ => {
                    if let Some(run) = absent.replace(page..page + 1)
                        && !self.fetch_run(reader, lease, run, &mut fetched)?
                    {
                        return Ok(None);
                    }
                }
            }
        }
        if let Some(run) = absent
            && !self.fetch_run(reader, lease, run, &mut fetched)?
        {
            return Ok(None);
        }
        Ok(Some(fetched))
    }

    fn fetch_run(
        &self,
        reader: &Reader,
        lease: Leased,
        run: Range<u32>,
        fetched: &mut Vec<Fetched>,
    ) -> Result<bool, Errno> {
        let mut bytes = vec![0; run.len() * PAGE];
        let start = u64::from(run.start) * PAGE as u64;
        let found = reader.read_pages(&mut bytes, start)?;
        count(&self.counters.device_pages, run.len());
        if start + (found.bytes as u64) < lease.size.min(start + bytes.len() as u64) {
            return found.behind.map_or(Ok(false), Err);
        }
        for (page, bytes) in run.zip(bytes.chunks_exact(PAGE)) {
            let mut own: Bytes = Box::new([0; PAGE]);
            own.copy_from_slice(bytes);
            let key = PageKey { file: lease.file, page };
            fetched.push(Fetched { key, bytes: own });
        }
        Ok(true)
    }

    /// Takes pages into the page cache that were used.
    fn keep(&self, pages: Vec<Fetched>) {
        let mut cache = self.cache();
        for page in pages {
            // Another reader of the same page may have brought it in, and seen it evicted, meanwhile.
            self.victims.flush_page(victim_key(page.key));
            cache.insert(page.key, page.bytes, &mut |gone: Evicted| self.put_victim(&gone));
        }
    }

    /// Where data or a hole begins, as lseek(2) finds it.
    pub(crate) fn seek(self: &Arc<Self>, inode: &Arc<Inode>, offset: i64, whence: i32) -> Result<i64, Errno> {
        self.lease(inode, false)?;
        let state = inode.content.read();
        let reader = state.reader.as_ref().ok_or(Errno::BADF)?;
        let offset = u64::try_from(offset).map_err(|_| Errno::INVAL)?;
        let from = match whence {
            SEEK_DATA => rustix::fs::SeekFrom::Data(offset),
            SEEK_HOLE => rustix::fs::SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        rustix::fs::seek(reader, from).and_then(|found| i64::try_from(found).map_err(|_| Errno::OVERFLOW))
    }
}

const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// The pages that bytes are in; `None` past 16 TiB.
pub(crate) fn pages_of(bytes: Range<u64>) -> Option<Range<u32>> {
    let first = u32::try_from(bytes.start / PAGE as u64).ok()?;
    let end = u32::try_from(bytes.end.div_ceil(PAGE as u64)).ok()?;
    Some(first..end)
}
