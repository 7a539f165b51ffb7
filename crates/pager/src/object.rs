//! Memory objects: a memfd, the pager's locked alias of it, and the tasks' own mappings.
//!
//! The alias is the only mapping through which pages are filled and copied out. It is locked on fault, so that a page
//! that every task has had zapped is still locked, and not registered, so that the pager never faults on it. A task's
//! mapping belongs to that task alone: zapping it concerns nobody else.
//!
//! Mappings are never given back to the kernel before their object is: a zap decided earlier may still be pending in a
//! preempted thread, and must not hit what took their place. A mapping whose task is gone serves the next task that
//! maps the object.

use freehold_core::effect::Scope;
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use freehold_core::limits::ObjectKind;
use freehold_core::units::PageIndex;
use freehold_driver::HolderRow;
use freehold_linux::PageRange;
use freehold_linux::memory::{Access, LockedError, Memfd, PageLease, SharedMapping, locked_memfd};
use freehold_linux::userfault::{Modes, Userfault};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::error::CreateObjectError;
use crate::error::MapObjectError;

/// A memory object of the pager.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    pub(crate) kind: ObjectKind,
    /// The number of its first page among all pages; also its first slot in the store.
    pub(crate) first: u32,
    // The mappings are dropped before the memfd, though the kernel would not mind another order.
    mappers: Box<[Mapper]>,
    /// Rows of `mappers` ever used.
    used_rows: AtomicUsize,
    alias: SharedMapping,
    pub(crate) memfd: Memfd,
    /// Pages that have a frame already and whose content is on its way.
    filling: AtomicUsize,
}

/// Room for one task's mapping.
#[derive(Debug, Default)]
struct Mapper {
    mapping: OnceLock<SharedMapping>,
    in_use: AtomicBool,
    holder: AtomicU32,
}

impl Object {
    pub(crate) fn new(
        id: ObjectId,
        kind: ObjectKind,
        first: u32,
        pages: usize,
        tasks: usize,
    ) -> Result<Self, CreateObjectError> {
        if maps_are_filled_at_once()? {
            return Err(CreateObjectError::LockedAtOnce);
        }
        let (alias, memfd) = locked_memfd(c"freehold-object", pages)?;
        Ok(Self {
            id,
            kind,
            first,
            mappers: (0..tasks).map(|_| Mapper::default()).collect(),
            used_rows: AtomicUsize::new(0),
            alias,
            memfd,
            filling: AtomicUsize::new(0),
        })
    }

    /// The number of one of its pages among all pages.
    pub(crate) fn number(&self, page: usize) -> usize {
        self.first as usize + page
    }

    pub(crate) fn pages(&self) -> usize {
        self.memfd.pages()
    }

    /// Its page whose number among all pages this is.
    pub(crate) fn page_at(&self, number: u32) -> Option<PageIndex> {
        let page = number.checked_sub(self.first)?;
        ((page as usize) < self.pages()).then_some(PageIndex::new(page))
    }

    /// Gives a task of `holder` a mapping; returns its row. Not to be called by two threads at a time.
    pub(crate) fn attach(&self, userfault: &Userfault, holder: HolderRow) -> Result<usize, MapObjectError> {
        let row = self
            .mappers
            .iter()
            .position(|mapper| !mapper.in_use.load(Ordering::Acquire))
            .ok_or(MapObjectError::TooManyTasks)?;
        let mapper = &self.mappers[row];
        if mapper.mapping.get().is_none() {
            if maps_are_filled_at_once().unwrap_or(true) {
                return Err(MapObjectError::LockedAtOnce);
            }
            let mapping = self.map_registered(userfault)?;
            // Empty as just seen, and only one thread attaches at a time.
            let _ = mapper.mapping.set(mapping);
        }
        mapper.holder.store(holder.get(), Ordering::Release);
        mapper.in_use.store(true, Ordering::Release);
        self.used_rows.fetch_max(row + 1, Ordering::AcqRel);
        Ok(row)
    }

    fn map_registered(&self, userfault: &Userfault) -> Result<SharedMapping, MapObjectError> {
        let mapping = SharedMapping::of_whole(&self.memfd, Access::ReadWrite)?;
        let modes = Modes::MISSING | Modes::MINOR | Modes::WRITE_PROTECT;
        let whole = mapping
            .addresses(mapping.whole())
            .ok_or(MapObjectError::System(freehold_linux::Errno::INVAL))?;
        // SAFETY: the memory is this new mapping's, which hands out raw pointers only; no reference into it is made.
        unsafe { userfault.register(whole, modes) }?;
        Ok(mapping)
    }

    /// Takes a task's mapping back: its pages are zapped, and accesses to it are faults that nobody serves.
    pub(crate) fn detach(&self, row: usize) {
        let Some(mapping) = self.mapping(row) else { return };
        let _ = mapping.zap(mapping.whole());
        self.mappers[row].in_use.store(false, Ordering::Release);
    }

    /// The mapping in this row, whether in use or not.
    pub(crate) fn mapping(&self, row: usize) -> Option<&SharedMapping> {
        self.mappers.get(row)?.mapping.get()
    }

    /// Drops the page-table entries of `pages` in the mappings of a holder's tasks, or in all. Pages are not dropped.
    /// One system call for each mapping; returns how many.
    pub(crate) fn zap(&self, pages: PageRange, from: Scope) -> Result<u32, freehold_linux::Errno> {
        let mut calls = 0;
        for mapper in &self.mappers[..self.used_rows.load(Ordering::Acquire)] {
            let meant = match from {
                Scope::Everyone => true,
                Scope::Of(holder) => mapper.holder.load(Ordering::Acquire) == HolderRow::from(holder).get(),
            };
            if !meant || !mapper.in_use.load(Ordering::Acquire) {
                continue;
            }
            if let Some(mapping) = mapper.mapping.get() {
                mapping.zap(pages)?;
                calls += 1;
            }
        }
        Ok(calls)
    }

    /// Gives `page` a locked frame of zeros. It must have none: what a frame holds already would be seen.
    pub(crate) fn allocate(&self, page: usize) -> Result<(), freehold_linux::Errno> {
        self.alias.populate(PageRange::single(page))
    }

    /// Drops the frames of `pages`, for every mapper and for the alias.
    pub(crate) fn punch(&self, pages: PageRange) -> Result<(), freehold_linux::Errno> {
        self.memfd.punch_hole(pages)
    }

    /// Lends a page that is being filled or evicted to the store, until its transfer is finished.
    pub(crate) fn lend(&self, page: usize) -> Option<PageLease> {
        let start = self.alias.page(page)?;
        // SAFETY: the alias is mapped as long as `self` lives, and the store, which has the loan, is dropped before the
        // objects. The page is resident: its frame was allocated for the fill, or its eviction has not dropped it yet;
        // it is dropped only after the transfer was finished, which ends the loan. Nobody else reaches it: a page being
        // filled is mapped for nobody yet, and one being evicted was zapped for everybody and cannot be mapped again
        // (`epoch`). A page has one transfer at a time, so there is one loan.
        unsafe { PageLease::new(start) }
    }

    /// A page has its frame and waits for its content.
    pub(crate) fn note_filling(&self) {
        self.filling.fetch_add(1, Ordering::AcqRel);
    }

    /// A page has its content, or gives its frame back.
    pub(crate) fn note_filled(&self) {
        self.filling.fetch_sub(1, Ordering::AcqRel);
    }

    /// Pages that have a frame already and whose content is on its way.
    pub(crate) fn filling(&self) -> usize {
        self.filling.load(Ordering::Acquire)
    }

    /// The page of this object that an effect names, as an index.
    pub(crate) fn page_of(page: PageRef) -> usize {
        page.page().get() as usize
    }
}

/// Whether the process has asked for every new mapping to be locked, and so filled (`mlockall(MCL_FUTURE)`): tried on a
/// page of its own.
fn maps_are_filled_at_once() -> Result<bool, CreateObjectError> {
    let memfd = Memfd::create(c"freehold-probe", 1).map_err(LockedError::from)?;
    let _mapping = SharedMapping::of_whole(&memfd, Access::ReadWrite).map_err(LockedError::from)?;
    Ok(memfd.resident(PageRange::single(0))?.pages > 0)
}
