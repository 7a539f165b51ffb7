//! The memory of a region: its chunks, mapped behind one another.

use crate::contiguity::{Layout, Stretch};
use crate::cuts::Cuts;
use crate::error::CacheError;
use crate::huge_pages;
use crate::retire::Frames;
use freehold_core::victim_cache::FrameRange;
use freehold_linux::memory::{Chunk, HUGE_PAGES, MemfdError, Window};
use freehold_linux::physical;
use freehold_linux::{Errno, PAGE_SIZE, PageRange};
use freehold_scenario::{Backing, DeviceFile};
use rustix::fd::OwnedFd;
use std::ffi::CStr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const NAME: &CStr = c"freehold-device";
const HUGE: u32 = 512;
/// Pages that take longer to be filled with zeros than a thread to begin, many times.
const WORTH_A_THREAD: usize = 2048;

/// The memory.
#[derive(Debug)]
pub(crate) struct Region {
    window: Window,
    cuts: Cuts,
    /// `None` where one was given up and no memory for another has been found yet.
    chunks: Vec<Mutex<Option<Chunk>>>,
    /// Which may hold something else than zeros. Memory that is new holds zeros, until a page is put or it is lent.
    used: Vec<AtomicBool>,
    /// How each lies, on small pages, as the page map showed when its memory came here or came back.
    stretches: Vec<Mutex<Option<Stretch>>>,
    huge: bool,
    /// What tells of frames that were given back.
    pub(crate) machine: Frames,
    /// Why it is not as it was to be.
    shortfalls: Vec<String>,
}

impl Region {
    /// Memory for the devices of a file, all of it in frames from the start.
    pub(crate) fn new(file: &DeviceFile) -> Result<Self, CacheError> {
        match file.backing {
            Backing::Huge => Self::on(file, true),
            Backing::Small => Self::on(file, false),
            Backing::Auto => Self::on(file, true).or_else(|why| {
                let mut region = Self::on(file, false)?;
                region
                    .shortfalls
                    .push(format!("device memory lies on small pages: {why}"));
                Ok(region)
            }),
        }
    }

    fn on(file: &DeviceFile, huge: bool) -> Result<Self, CacheError> {
        let sizes: Vec<u32> = file.devices.iter().map(|device| device.size.get()).collect();
        let cuts = Cuts::new(&sizes, if huge { HUGE } else { 1 }).ok_or(CacheError::Sizes)?;
        if huge {
            huge_pages::wait_for(u64::from(cuts.frames() / HUGE));
        }
        let mut chunks = Vec::with_capacity(cuts.count());
        for place in 0..cuts.count() {
            chunks.push(Chunk::create(NAME, page_range(&cuts, place).count(), huge)?);
        }
        let window = Window::reserve(index(cuts.frames()))?;
        let mut region = Self {
            window,
            cuts,
            chunks: Vec::new(),
            used: chunks.iter().map(|_| AtomicBool::new(false)).collect(),
            stretches: chunks.iter().map(|_| Mutex::new(None)).collect(),
            huge,
            machine: Frames::default(),
            shortfalls: Vec::new(),
        };
        let whole = 0..region.cuts.count();
        region.place_all(&chunks).map_err(|errno| match errno {
            Errno::NOMEM if huge => CacheError::HugePages {
                wanted: region.cuts.frames() / HUGE,
                free: huge_pages::free(),
            },
            errno => CacheError::System(errno),
        })?;
        let order = region.order(whole.clone());
        let mut chunks: Vec<Option<Chunk>> = chunks.into_iter().map(Some).collect();
        region.chunks = order.iter().map(|from| Mutex::new(chunks[*from].take())).collect();
        region.place_again(whole.clone())?;
        region.lock();
        whole.for_each(|place| region.look(place));
        Ok(region)
    }

    fn place_all(&self, chunks: &[Chunk]) -> Result<(), Errno> {
        for (place, chunk) in chunks.iter().enumerate() {
            let range = page_range(&self.cuts, place);
            self.window.place(range.first(), chunk)?;
            self.window.populate(range)?;
        }
        Ok(())
    }

    /// Which chunk should be at which place, so that frames ascend; as they are where that is unknown, or they are not
    /// alike.
    fn order(&self, places: Range<usize>) -> Vec<usize> {
        let mut order: Vec<usize> = places.clone().collect();
        if !self.cuts.alike() {
            return order;
        }
        let first = |place: &usize| {
            let range = self.window.addresses(page_range(&self.cuts, *place))?;
            physical::frames(range, range.length() / PAGE_SIZE)
                .ok()?
                .first()
                .copied()
                .flatten()
        };
        let frames: Option<Vec<u64>> = order.iter().map(first).collect();
        if let Some(frames) = frames {
            order.sort_by_key(|place| frames[*place - places.start]);
        }
        order
    }

    /// Maps chunks where the rows say.
    fn place_again(&self, places: Range<usize>) -> Result<(), Errno> {
        for place in places {
            let range = page_range(&self.cuts, place);
            if let Some(chunk) = &*self.chunk(place) {
                self.window.place(range.first(), chunk)?;
                self.window.populate(range)?;
            }
        }
        Ok(())
    }

    fn lock(&mut self) {
        let whole = PageRange::new(0, self.window.pages());
        if !self.huge
            && let Err(errno) = self.window.lock(whole)
        {
            let why = format!("device memory can be swapped out: it cannot be locked ({errno})");
            self.shortfalls.push(why);
        }
    }

    pub(crate) fn is_huge(&self) -> bool {
        self.huge
    }

    pub(crate) fn shortfalls(&self) -> &[String] {
        &self.shortfalls
    }

    pub(crate) fn cuts(&self) -> &Cuts {
        &self.cuts
    }

    /// Copies a page in, whose frame the core has given for it.
    pub(crate) fn write(&self, frame: u32, content: &[u8; PAGE_SIZE]) -> bool {
        self.note_use(self.cuts.chunk_of(frame));
        self.window.write(index(frame), content).is_ok()
    }

    /// Copies a page out, of whose frame the core has said that it holds one.
    pub(crate) fn read(&self, frame: u32, content: &mut [u8; PAGE_SIZE]) -> bool {
        self.window.read(index(frame), content).is_ok()
    }

    fn note_use(&self, place: usize) {
        if let Some(used) = self.used.get(place) {
            // Who asks has had the cache's lock after this.
            used.store(true, Ordering::Relaxed);
        }
    }

    /// Fills a range that is made of whole chunks with zeros, on two CPUs where it is long. What is new is zeros.
    pub(crate) fn zero(&self, range: FrameRange) -> Result<(), Errno> {
        let used = |place: &usize| self.used.get(*place).is_none_or(|used| used.load(Ordering::Relaxed));
        let places: Vec<usize> = self.chunks_of(range).ok_or(Errno::INVAL)?.filter(used).collect();
        let zero = |places: &[usize]| {
            let each = |place: &usize| self.window.zero(page_range(&self.cuts, *place));
            places.iter().try_for_each(each)
        };
        let (one, other) = places.split_at(places.len() / 2);
        let pages: usize = one.iter().map(|place| page_range(&self.cuts, *place).count()).sum();
        if pages < WORTH_A_THREAD {
            return zero(&places);
        }
        std::thread::scope(|scope| {
            let half = std::thread::Builder::new().spawn_scoped(scope, || zero(one));
            let done = zero(other);
            match half {
                Ok(half) => half.join().unwrap_or(Err(Errno::NOMEM)).and(done),
                Err(_) => zero(one).and(done),
            }
        })
    }

    /// Descriptors for somebody else, in order of address.
    pub(crate) fn descriptors(&self, range: FrameRange) -> Result<Vec<OwnedFd>, Errno> {
        let chunks = self.chunks_of(range).ok_or(Errno::INVAL)?;
        let reopen = |place| {
            self.note_use(place);
            self.chunk(place).as_ref().ok_or(Errno::NOMEM)?.reopen()
        };
        chunks.map(reopen).collect()
    }

    /// The chunks of a range that is made of whole ones.
    pub(crate) fn chunks_of(&self, range: FrameRange) -> Option<Range<usize>> {
        self.cuts.chunks(range.first().get(), range.count().get())
    }

    /// Whether anybody else has a descriptor or a mapping of a chunk. What cannot be told counts as yes.
    pub(crate) fn is_held(&self, place: usize) -> bool {
        let chunk = self.chunk(place);
        chunk.as_ref().is_some_and(|chunk| chunk.is_held().unwrap_or(true))
    }

    /// Whether all of a chunk's pages are in frames, as far as they have been handed over.
    pub(crate) fn is_whole(&self, place: usize) -> bool {
        let chunk = self.chunk(place);
        let whole = |chunk: &Chunk| chunk.resident().is_ok_and(|pages| pages == chunk.pages());
        chunk.as_ref().is_some_and(whole)
    }

    /// Makes a chunk that nobody else has fit for pages again: frames where somebody punched them.
    pub(crate) fn restore(&self, place: usize) -> bool {
        let is_whole = self.window.populate(page_range(&self.cuts, place)).is_ok();
        self.look(place);
        is_whole
    }

    /// How a range lies in the machine's memory: on huge pages now, on small ones as it lay when it came back, since to
    /// ask for each takes longer than all the rest of a hand-over.
    pub(crate) fn layout(&self, range: FrameRange) -> Layout {
        match self.chunks_of(range) {
            Some(chunks) if !self.huge => {
                let stretch = |place: usize| *self.stretches[place].lock().unwrap_or_else(PoisonError::into_inner);
                Stretch::together(chunks.map(stretch))
            }
            _ => self.layout_now(range),
        }
    }

    /// How a range lies now. On small pages O(frames).
    pub(crate) fn layout_now(&self, range: FrameRange) -> Layout {
        let Some(addresses) = self.window.addresses(pages_of(range)) else {
            return Layout::UNKNOWN;
        };
        let step = if self.huge { HUGE_PAGES } else { 1 };
        physical::frames(addresses, step).map_or(Layout::UNKNOWN, |frames| Layout::of(&frames, step as u64))
    }

    /// Bytes of the region that are in frames, as the kernel counts them.
    pub(crate) fn measured(&self) -> u64 {
        let resident = |chunk: &Mutex<Option<Chunk>>| {
            let chunk = chunk.lock().unwrap_or_else(PoisonError::into_inner);
            chunk.as_ref().and_then(|chunk| chunk.resident().ok()).unwrap_or(0)
        };
        let pages: usize = self.chunks.iter().map(resident).sum();
        (pages * PAGE_SIZE) as u64
    }

    /// Takes other memory for places where none is. Returns those that have it.
    pub(crate) fn renew(&self, places: &[usize]) -> Vec<usize> {
        let mut fresh: Vec<usize> = places.to_vec();
        fresh.retain(|place| self.take_anew(*place).is_ok());
        self.sort(&fresh);
        fresh.iter().for_each(|place| self.look(*place));
        fresh
    }

    /// Takes a chunk's memory out of its place, if any is there.
    pub(crate) fn leave(&self, place: usize) -> Option<Chunk> {
        // Where the kernel refuses, its pages go as the chunk is punched.
        let _ = self.window.vacate(page_range(&self.cuts, place));
        self.chunk(place).take()
    }

    /// Pages of a chunk.
    pub(crate) fn pages_at(&self, place: usize) -> usize {
        page_range(&self.cuts, place).count()
    }

    fn take_anew(&self, place: usize) -> Result<(), CacheError> {
        let range = page_range(&self.cuts, place);
        let chunk = Chunk::create(NAME, range.count(), self.huge)?;
        let placed = self.window.place(range.first(), &chunk);
        let placed = placed.and_then(|()| self.window.populate(range));
        if let Err(errno) = placed {
            let _ = self.window.vacate(range);
            return Err(CacheError::Memory(MemfdError::System(errno)));
        }
        if !self.huge {
            let _ = self.window.lock(range);
        }
        *self.chunk(place) = Some(chunk);
        if let Some(used) = self.used.get(place) {
            used.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Lets frames ascend where chunks lie behind one another.
    fn sort(&self, places: &[usize]) {
        for run in runs(places) {
            let order = self.order(run.clone());
            if order.is_sorted() {
                continue;
            }
            let mut taken: Vec<Option<Chunk>> = run.clone().map(|place| self.chunk(place).take()).collect();
            for (place, from) in run.clone().zip(&order) {
                *self.chunk(place) = taken[*from - run.start].take();
            }
            // Their places are mapped already: nothing is there to fail but the machine.
            let _ = self.place_again(run);
        }
    }

    /// The frames of a chunk's pages, of huge ones the first of each; none where they are not told.
    pub(crate) fn frames(&self, place: usize) -> Vec<Option<u64>> {
        let step = if self.huge { HUGE_PAGES } else { 1 };
        let addresses = self.window.addresses(page_range(&self.cuts, place));
        let frames = addresses.and_then(|addresses| physical::frames(addresses, step).ok());
        frames.unwrap_or_default()
    }

    /// Notes how a chunk lies that has come, or come back.
    fn look(&self, place: usize) {
        if !self.huge {
            let stretch = Stretch::of(&self.frames(place));
            *self.stretches[place].lock().unwrap_or_else(PoisonError::into_inner) = stretch;
        }
    }

    fn chunk(&self, place: usize) -> MutexGuard<'_, Option<Chunk>> {
        self.chunks[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs of numbers that follow each other.
pub(crate) fn runs(sorted: &[usize]) -> Vec<Range<usize>> {
    sorted
        .chunk_by(|one, next| one + 1 == *next)
        .filter_map(|run| Some(*run.first()?..run.last()? + 1))
        .collect()
}

fn page_range(cuts: &Cuts, place: usize) -> PageRange {
    let (first, count) = cuts.pages(place);
    PageRange::new(index(first), index(count))
}

fn pages_of(range: FrameRange) -> PageRange {
    PageRange::new(index(range.first().get()), index(range.count().get()))
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
