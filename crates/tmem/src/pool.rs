//! A pool of buffers of one size.

use crate::cache::{self, TakeError, WaitEnd};
use crate::id::BufferId;
use crate::job;
use crate::layout::{Counts, Header, first_unit_page, pages};
use crate::pi_word::{PiWord, State};
use crate::settings::{PoolError, PoolSettings, checked, read_header, write_header};
use crate::sync::Ordering;
use crate::unit::Unit;
use crate::wait::lock_patiently;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::memory::{Access, LockError, MapError, Memfd, MemfdError, SharedMapping};
use freehold_linux::pi_word::{LockWordError, Scope, unlock};
use freehold_linux::{Errno, PAGE_SIZE, PageRange, ThreadId};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A buffer that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its first byte; it has as many as were asked for, and to the end of its unit.
    pub start: *mut u8,
    /// Its name, for others.
    pub id: BufferId,
}

/// What has happened in a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Units in the pool: free or in use.
    pub allocated: u32,
    /// Units in use now.
    pub held: u32,
    /// Units that were in use since the last call.
    pub used: u32,
    /// Requests that waited at the same time since the last call, at most.
    pub waiting_peak: u32,
    /// Requests that had to wait, in all.
    pub contended: u64,
    /// How long they waited, in all.
    pub blocked: Duration,
    /// Requests that ended at the bound, in all.
    pub timed_out: u64,
}

/// A pool of buffers. Processes that share one map the same memory object.
#[derive(Debug)]
pub struct Pool {
    memory: Memfd,
    mapping: SharedMapping,
    settings: PoolSettings,
    first_unit: usize,
}

impl Pool {
    /// Makes a pool with all its units in it.
    ///
    /// # Errors
    /// See [`PoolError`].
    pub fn create(settings: PoolSettings) -> Result<Self, PoolError> {
        let settings = checked(settings)?;
        let unit_pages = settings.unit_bytes / PAGE_SIZE;
        let memory = Memfd::create_sealed(c"freehold-pool", pages(settings.units, unit_pages), false)?;
        let pool = Self::map(memory, settings, Access::ReadWrite)?;
        write_header(pool.header(), &settings);
        Ok(pool)
    }

    /// Opens a pool that another process has made and whose descriptor it has passed on, to take and release units of
    /// it. Both are to be in the same namespace of process identifiers.
    ///
    /// # Errors
    /// See [`PoolError`].
    pub fn open(memory: OwnedFd) -> Result<Self, PoolError> {
        let settings = settings_of(&memory)?;
        Self::open_as(memory, settings)
    }

    /// Opens a pool only to read buffers of it. [`Pool::take`] and [`Pool::release`] must not be called then.
    ///
    /// # Errors
    /// See [`PoolError`].
    pub fn open_to_read(memory: OwnedFd) -> Result<Reader, PoolError> {
        let settings = settings_of(&memory)?;
        Self::open_to_read_as(memory, settings)
    }

    /// As [`Pool::open`], where it is known how the pool was made: what its users have written there is not asked.
    ///
    /// # Errors
    /// See [`PoolError`].
    pub fn open_as(memory: OwnedFd, settings: PoolSettings) -> Result<Self, PoolError> {
        Self::adopt(memory, settings, Access::ReadWrite)
    }

    /// As [`Pool::open_to_read`], where it is known how the pool was made.
    ///
    /// # Errors
    /// See [`PoolError`].
    pub fn open_to_read_as(memory: OwnedFd, settings: PoolSettings) -> Result<Reader, PoolError> {
        Ok(Reader(Self::adopt(memory, settings, Access::Read)?))
    }

    fn adopt(memory: OwnedFd, settings: PoolSettings, access: Access) -> Result<Self, PoolError> {
        let settings = checked(settings)?;
        let memory = Memfd::adopt(memory, pages(settings.units, settings.unit_bytes / PAGE_SIZE))?;
        Self::map(memory, settings, access)
    }

    fn map(memory: Memfd, settings: PoolSettings, access: Access) -> Result<Self, PoolError> {
        let mapping = SharedMapping::of_whole(&memory, access)?;
        let pool = Self {
            memory,
            mapping,
            settings,
            first_unit: first_unit_page(settings.units) * PAGE_SIZE,
        };
        if settings.guard_pages > 0 {
            // Not for forked children: parent and child would run on the same stack.
            (0..settings.units).try_for_each(|unit| pool.protect_guard(unit))?;
        } else if settings.scope == Scope::Shared {
            let followed = ThreadId::follow_forks().and_then(|()| pool.mapping.let_children_have());
            followed.map_err(MapError::System)?;
        }
        Ok(pool)
    }

    fn protect_guard(&self, unit: usize) -> Result<(), PoolError> {
        let length = self.settings.guard_pages * PAGE_SIZE;
        // SAFETY: whole pages of this pool's own mapping, which nobody has used yet.
        let protected =
            unsafe { rustix::mm::mprotect(self.unit_start(unit).cast(), length, rustix::mm::MprotectFlags::empty()) };
        protected.map_err(|errno| PoolError::Map(MapError::System(errno)))
    }

    /// How it was made, with whole pages.
    #[must_use]
    pub fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// Takes a buffer of `length` bytes. Its content is what was there before. Real-time safe: two atomic operations
    /// and no system call where a unit is free, else a bounded wait that lends its priority.
    ///
    /// # Errors
    /// See [`TakeError`].
    pub fn take(&self, length: usize) -> Result<Buffer, TakeError> {
        if length == 0 || length > self.settings.unit_bytes {
            return Err(TakeError::Size);
        }
        let unit = self.take_unit(ThreadId::current().get())?;
        let sequence = self.units()[unit].begin(small(length), job::current());
        Ok(Buffer {
            start: self.unit_start(unit),
            id: BufferId::new(self.settings.component, unit, sequence),
        })
    }

    /// As [`Pool::take`], for the calling thread, whose number it is.
    #[inline]
    pub(crate) fn take_unit(&self, thread: u32) -> Result<usize, TakeError> {
        if self.units().first().is_some_and(|unit| unit.take(thread)) {
            return Ok(0);
        }
        self.take_elsewhere(thread)
    }

    #[cold]
    fn take_elsewhere(&self, thread: u32) -> Result<usize, TakeError> {
        let (counts, job) = (&self.header().counts, job::current());
        let mut began: Option<MonotonicTime> = None;
        let wait = |word: &PiWord, eighths: u32| {
            let began = *began.get_or_insert_with(|| {
                let waiting = counts.waiting.fetch_add(1, Ordering::Relaxed) + 1;
                counts.waiting_peak.fetch_max(waiting, Ordering::Relaxed);
                clock::now()
            });
            if let (Some(counts), State::Owned(owner)) = (self.job_counts(job), word.state()) {
                counts.waits_for.store(owner.thread, Ordering::Relaxed);
            }
            lock_patiently(
                word.raw(),
                self.settings.scope,
                Some(began.saturating_add(self.settings.bound.saturating_mul(eighths) / 8)),
            )
            .map_err(wait_end)
        };
        let taken = cache::take(
            self.units(),
            thread,
            self.settings.minimum,
            || clock::now().as_nanos(),
            wait,
        );
        if let Some(began) = began {
            let nanos = note_wait(counts, began, taken.is_err());
            if let Some(counts) = self.job_counts(job) {
                counts.note(nanos);
            }
        }
        taken.map(|taken| taken.unit)
    }

    /// Releases the buffer that begins at `start`. Real-time safe: an atomic operation, and one system call where
    /// somebody waits for it.
    ///
    /// # Errors
    /// `INVAL` where no buffer of the pool begins there; `PERM` where the calling thread does not have it.
    pub fn release(&self, start: *const u8) -> Result<(), Errno> {
        let offset = start.addr().wrapping_sub(self.unit_start(0).addr());
        // Pages, of which a pool has fewer than 2³²: a division of small numbers is much the faster.
        let page = u32::try_from(offset / PAGE_SIZE).map_err(|_| Errno::INVAL)?;
        let pages = small(self.settings.unit_bytes / PAGE_SIZE);
        if !offset.is_multiple_of(PAGE_SIZE) || !page.is_multiple_of(pages) {
            return Err(Errno::INVAL);
        }
        self.release_unit((page / pages) as usize, ThreadId::current().get())
    }

    /// As [`Pool::release`], of a unit by its number.
    #[inline]
    pub(crate) fn release_unit(&self, unit: usize, thread: u32) -> Result<(), Errno> {
        let unit = self.units().get(unit).ok_or(Errno::INVAL)?;
        let scope = self.settings.scope;
        let mut refused = None;
        if !cache::release(unit, thread, |word| refused = unlock(word.raw(), scope).err()) {
            return Err(Errno::PERM);
        }
        refused.map_or(Ok(()), Err)
    }

    /// Writes into the buffer of a name, which the calling thread has. Those who read it meanwhile see some of it.
    ///
    /// # Errors
    /// `PERM` where the calling thread does not have it; `INVAL` where there are more bytes than it has.
    pub fn write(&self, id: BufferId, bytes: &[u8]) -> Result<(), Errno> {
        let unit = self.units().get(id.unit()).ok_or(Errno::PERM)?;
        if !unit.word.is_owned_by(ThreadId::current().get()) || !unit.is_current(id.sequence(), 0) {
            return Err(Errno::PERM);
        }
        let start = self.find(id, bytes.len()).ok_or(Errno::INVAL)?;
        // SAFETY: the unit has as many bytes, as was checked, and nobody else writes there while this thread has it;
        // there are no references to it, and who reads it is told to copy, then check.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.cast_mut(), bytes.len()) };
        Ok(())
    }

    /// Where the buffer of this name is, if it is still in the use that was named, with at least `length` bytes. The
    /// content may change at any time. Real-time safe: no atomic operation but reads.
    #[must_use]
    pub fn find(&self, id: BufferId, length: usize) -> Option<*const u8> {
        let unit = self.units().get(id.unit())?;
        let length = u32::try_from(length).ok()?;
        let current = id.component() == self.settings.component && unit.is_current(id.sequence(), length);
        current.then(|| self.unit_start(id.unit()).cast_const())
    }

    /// Takes a free unit out of the pool, and its memory; false where none of the units from `from` on is free. For the
    /// pool's manager.
    pub fn withdraw(&self, unit: usize) -> bool {
        let withdrawn = self.units().get(unit).is_some_and(Unit::withdraw);
        if withdrawn {
            self.drop_memory(unit);
        }
        withdrawn
    }

    /// Has the unit come to the manager when its user releases it and nobody waits for it, or no longer so.
    pub fn relinquish(&self, unit: usize, wanted: bool) {
        if let Some(unit) = self.units().get(unit) {
            unit.relinquish(wanted);
        }
    }

    /// Drops the memory of a unit that is withdrawn already; false where it is not.
    pub fn drop_withdrawn(&self, unit: usize) -> bool {
        let withdrawn = self.is_withdrawn(unit);
        if withdrawn {
            self.drop_memory(unit);
        }
        withdrawn
    }

    /// Whether the unit is out of the pool.
    #[must_use]
    pub fn is_withdrawn(&self, unit: usize) -> bool {
        let unit = self.units().get(unit);
        unit.is_some_and(|unit| unit.word.state() == State::Withdrawn)
    }

    /// Fills a withdrawn unit with memory of zeros and puts it back into the pool; false where it is not withdrawn, or
    /// the memory is not to be had.
    pub fn give(&self, unit: usize) -> bool {
        if !self.is_withdrawn(unit) {
            return false;
        }
        let (range, guard) = (self.unit_range(unit), self.settings.guard_pages);
        let usable = PageRange::new(range.first() + guard, range.count() - guard);
        let populated = self.mapping.populate(usable);
        populated.is_ok() && self.units()[unit].restore()
    }

    /// Locks the memory that units have and get through this mapping, so that it is not swapped out.
    ///
    /// # Errors
    /// See [`LockError`]; nothing is locked then.
    pub fn lock_memory(&mut self) -> Result<(), LockError> {
        self.mapping.lock_on_fault()
    }

    /// Drops all memory that is no unit's: that of guards, and of units that are out of the pool. Their component has
    /// touched them all the same.
    pub fn drop_stray_memory(&self) {
        for unit in 0..self.settings.units {
            if self.drop_withdrawn(unit) || self.settings.guard_pages == 0 {
                continue;
            }
            let guard = PageRange::new(self.unit_range(unit).first(), self.settings.guard_pages);
            let punched = self.memory.punch_hole(guard);
            debug_assert_eq!(punched, Ok(()));
        }
    }

    /// Makes every unit that a thread of an ended process held free. Only where no other process uses the pool.
    pub fn reset(&self) {
        for unit in self.units() {
            unit.reset();
        }
        self.header().counts.waiting.store(0, Ordering::Relaxed);
        for counts in &self.header().jobs {
            counts.waits_for.store(0, Ordering::Relaxed);
        }
    }

    /// What has happened; takes the peaks since the last call.
    pub fn usage(&self) -> PoolUsage {
        let counts = &self.header().counts;
        let mut usage = PoolUsage {
            waiting_peak: counts
                .waiting_peak
                .swap(counts.waiting.load(Ordering::Relaxed), Ordering::Relaxed),
            contended: counts.contended.load(Ordering::Relaxed),
            blocked: Duration::from_nanos(counts.blocked_nanos.load(Ordering::Relaxed)),
            timed_out: counts.timed_out.load(Ordering::Relaxed),
            ..PoolUsage::default()
        };
        for unit in self.units() {
            let state = unit.word.state();
            usage.allocated += u32::from(state != State::Withdrawn);
            usage.held += u32::from(matches!(state, State::Owned(_)));
            usage.used += u32::from(unit.take_used());
        }
        usage
    }

    /// Units that are in use, each with the number of that use.
    #[must_use]
    pub fn uses(&self) -> Vec<(usize, u32)> {
        let uses = self.units().iter().map(Unit::current_use);
        let uses = uses.enumerate().filter_map(|(at, used)| Some((at, used?.number())));
        uses.collect()
    }

    /// Units in the pool: free or in use.
    #[must_use]
    pub fn allocated(&self) -> u32 {
        let inside = self.units().iter().filter(|unit| unit.word.state() != State::Withdrawn);
        small(inside.count())
    }

    /// Pages of its units that are in frames.
    ///
    /// # Errors
    /// The kernel's refusal to count.
    pub fn resident(&self) -> Result<usize, freehold_linux::memory::ResidencyError> {
        let first = self.first_unit / PAGE_SIZE;
        let range = PageRange::new(first, self.memory.pages() - first);
        self.memory.resident(range).map(|residency| residency.pages)
    }

    /// Bytes of what is known of its units.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.first_unit
    }

    fn drop_memory(&self, unit: usize) {
        let range = self.unit_range(unit);
        // The range is within the object, and no seal forbids it.
        let punched = self.memory.punch_hole(range);
        debug_assert_eq!(punched, Ok(()));
    }

    fn unit_range(&self, unit: usize) -> PageRange {
        let pages = self.settings.unit_bytes / PAGE_SIZE;
        PageRange::new(self.first_unit / PAGE_SIZE + unit * pages, pages)
    }

    #[inline]
    pub(crate) fn unit_start(&self, unit: usize) -> *mut u8 {
        self.mapping
            .base()
            .wrapping_add(self.first_unit + unit * self.settings.unit_bytes)
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the first page of the mapping, which lives as long as `self`; it has atomics only.
        unsafe { &*self.mapping.base().cast::<Header>() }
    }

    #[inline]
    pub(crate) fn units(&self) -> &[Unit] {
        let first = self.mapping.base().wrapping_add(PAGE_SIZE).cast::<Unit>();
        // SAFETY: the mapping has so many of them from its second page on, aligned, and lives as long as `self`; they
        // are atomics, of which every value is valid.
        unsafe { std::slice::from_raw_parts(first, self.settings.units) }
    }
}

impl AsFd for Pool {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

/// A pool of which this process reads buffers only.
#[derive(Debug)]
pub struct Reader(Pool);

impl Reader {
    /// See [`Pool::find`].
    #[must_use]
    pub fn find(&self, id: BufferId, length: usize) -> Option<*const u8> {
        self.0.find(id, length)
    }

    /// See [`Pool::settings`].
    #[must_use]
    pub fn settings(&self) -> &PoolSettings {
        self.0.settings()
    }
}

/// How a pool was made, as its memory says.
fn settings_of(memory: &OwnedFd) -> Result<PoolSettings, PoolError> {
    let again = rustix::io::fcntl_dupfd_cloexec(memory, 0).map_err(MemfdError::System)?;
    let page = SharedMapping::new(&Memfd::adopt(again, 1)?, PageRange::single(0), Access::Read)?;
    // SAFETY: a mapped page, of atomics only, and as long as this function.
    read_header(unsafe { &*page.base().cast::<Header>() })
}

/// Counts a wait, and says how many nanoseconds it took.
fn note_wait(counts: &Counts, began: MonotonicTime, failed: bool) -> u64 {
    counts.waiting.fetch_sub(1, Ordering::Relaxed);
    counts.contended.fetch_add(1, Ordering::Relaxed);
    counts.timed_out.fetch_add(u64::from(failed), Ordering::Relaxed);
    let nanos = u64::try_from(clock::now().saturating_since(began).as_nanos()).unwrap_or(u64::MAX);
    counts.blocked_nanos.fetch_add(nanos, Ordering::Relaxed);
    nanos
}

fn wait_end(error: LockWordError) -> WaitEnd {
    match error {
        LockWordError::TimedOut | LockWordError::Deadlock => WaitEnd::TimedOut,
        LockWordError::OwnerGone => WaitEnd::OwnerGone,
        LockWordError::System(_) => WaitEnd::Refused,
    }
}

/// A number that settings bound far below 2³².
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
