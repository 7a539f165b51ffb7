//! Reads: out of own pages, else out of the device memory, else from the file past the kernel's page cache.

use crate::ahead::Ahead;
use crate::content::{Leased, Sequence, State, most_ahead};
use crate::files::{Files, count, victim_key};
use crate::inode::Inode;
use crate::own::{Bytes, Evicted, PAGE, PageKey};
use crate::page_cache::PageCache;
use crate::reader::Reader;
use crate::scratch::Answer;
use freehold_linux::memory::slab_pieces;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest read that is answered at once; the kernel asks for 1 MiB at most.
const MOST: u32 = 1 << 20;

/// Pages that are taken into the page cache together.
const AT_ONCE: usize = 16;

/// What a read is answered with.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) bytes: Answer,
    /// The error that the next byte is behind.
    pub(crate) behind: Option<Errno>,
}

impl Served {
    fn whole(bytes: Answer) -> Self {
        Self { bytes, behind: None }
    }

    /// For the kernel's pages, where fewer bytes mean the end of the file: all or an error. The kernel asks again for
    /// each page by itself then.
    pub(crate) fn for_pages(self) -> Result<Answer, Errno> {
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
        let mut bytes = Answer::new(size as usize);
        let found = reader.read(&mut bytes, offset)?;
        count(&self.counters.device_pages, found.bytes.div_ceil(PAGE));
        Ok(Served {
            bytes: bytes.cut(0..found.bytes),
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
            return Ok(Some(Served::whole(Answer::new(0))));
        }
        let skip = usize::try_from(offset % PAGE as u64).map_err(|_| Errno::OVERFLOW)?;
        let Some(pages) = pages_of(offset..end) else {
            return Ok(None);
        };
        let mut bytes = Answer::new(pages.len() * PAGE);
        let mut way = sequence.lock().unwrap_or_else(PoisonError::into_inner);
        let last = way.last();
        let mut missing = self.cache().copy(lease.file, pages.start, &mut bytes, last);
        let missed = !missing.is_empty();
        let most = most_ahead(self.frames);
        let ahead = way.step(&pages, missed, (most, pages_of(0..lease.size).map_or(0, |all| all.end)));
        drop(way);
        if let Some(pages) = ahead {
            self.ask_ahead(inode, lease.file, pages);
        }
        if missed && inode.content.await_ahead(&pages) {
            missing = self.cache().copy(lease.file, pages.start, &mut bytes, last);
        }
        count(&self.counters.own_hits, pages.len() - missing.len());
        if let Some(first) = missing.first() {
            let absent: Vec<u32> = missing.iter().map(|place| pages.start + place).collect();
            let fetched = match self.fetch(reader, lease, &absent) {
                Ok(Some(fetched)) => fetched,
                Ok(None) => return Ok(None),
                Err(error) => {
                    // What is here is told before the error.
                    let bytes = bytes.cut(skip..*first as usize * PAGE);
                    let behind = Some(error);
                    return Ok((!bytes.is_empty()).then_some(Served { bytes, behind }));
                }
            };
            for page in &fetched {
                let place = (page.key.page - pages.start) as usize * PAGE;
                bytes[place..place + PAGE].copy_from_slice(&page.bytes[..]);
            }
            self.keep(fetched);
        }
        let wanted = usize::try_from(end - offset).map_err(|_| Errno::OVERFLOW)?;
        Ok(Some(Served::whole(bytes.cut(skip..skip + wanted))))
    }

    /// Asks for pages to be read ahead. Where many are asked for already, these are left.
    fn ask_ahead(&self, inode: &Arc<Inode>, file: u64, pages: Range<u32>) {
        inode.content.begin_ahead(pages.clone());
        let ahead = Ahead {
            inode: Arc::clone(inode),
            file,
            pages: pages.clone(),
        };
        if self.ahead.try_send(ahead).is_err() {
            inode.content.end_ahead(&pages);
        }
    }

    /// Pages that are not here, in order: out of the device memory, else from the file, into pages of the slab. `None`
    /// where the file is shorter than the lease said, or the slab has none left.
    pub(crate) fn fetch(&self, reader: &Reader, lease: Leased, pages: &[u32]) -> Result<Option<Vec<Fetched>>, Errno> {
        let Some(mut memory) = self.slab.take(pages.len()) else {
            return Ok(None);
        };
        let key = |page| PageKey { file: lease.file, page };
        let mut absent = Vec::new();
        for (place, page) in pages.iter().enumerate() {
            if !self.victims.get(victim_key(key(*page)), &mut memory[place]) {
                absent.push(place);
            }
        }
        count(&self.counters.victim_hits, pages.len() - absent.len());
        for run in absent.chunk_by(|one, next| one + 1 == *next && pages[*one] + 1 == pages[*next]) {
            let memory = &mut memory[run[0]..run[0] + run.len()];
            if !self.fetch_run(reader, lease, pages[run[0]], memory)? {
                return Ok(None);
            }
        }
        let fetched = pages.iter().zip(memory);
        let fetched = fetched.map(|(page, bytes)| Fetched { key: key(*page), bytes });
        Ok(Some(fetched.collect()))
    }

    /// Reads pages of the file from `first` on straight to where they stay.
    fn fetch_run(&self, reader: &Reader, lease: Leased, first: u32, to: &mut [Bytes]) -> Result<bool, Errno> {
        count(&self.counters.device_pages, to.len());
        let start = u64::from(first) * PAGE as u64;
        let end = start + (to.len() * PAGE) as u64;
        let found = reader.read_pages(&mut slab_pieces(to), start)?;
        if start + (found.bytes as u64) < lease.size.min(end) {
            return found.behind.map_or(Ok(false), Err);
        }
        // Behind the end of the file are zeros, not what was here before.
        let mut from = found.bytes % PAGE;
        for page in to.iter_mut().skip(found.bytes / PAGE) {
            page[from..].fill(0);
            from = 0;
        }
        Ok(true)
    }

    /// Takes pages into the page cache that were used.
    fn keep(&self, pages: Vec<Fetched>) {
        self.take_in(pages, |cache, page, gone| {
            cache.insert(page.key, page.bytes, &mut |page| gone.push(page));
        });
    }

    /// Takes pages into the page cache, some at a time: others are let in between. `take` tells what it evicts.
    pub(crate) fn take_in(
        &self,
        mut pages: Vec<Fetched>,
        mut take: impl FnMut(&mut PageCache, Fetched, &mut Vec<Evicted>),
    ) {
        while !pages.is_empty() {
            let rest = pages.split_off(pages.len().min(AT_ONCE));
            let mut gone = Vec::with_capacity(pages.len());
            let mut cache = self.cache();
            // Another reader of the same page may have brought it in, and seen it evicted, meanwhile.
            self.victims.flush_pages(pages.iter().map(|page| victim_key(page.key)));
            for page in pages {
                take(&mut cache, page, &mut gone);
            }
            self.put_victims(cache, gone);
            pages = rest;
        }
    }

    /// Where data or a hole begins, as lseek(2) finds it.
    pub(crate) fn seek(self: &Arc<Self>, inode: &Arc<Inode>, offset: i64, whence: i32) -> Result<i64, Errno> {
        self.lease(inode, false)?;
        let state = inode.content.read();
        let reader = state.reader.as_ref().ok_or(Errno::BADF)?;
        // As file systems answer it: there is neither data nor a hole.
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
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
