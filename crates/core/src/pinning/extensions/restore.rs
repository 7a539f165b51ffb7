//! Restore before release, beyond the paper: the pages that the next job is likely to touch.
//!
//! First come the pages that jobs faulted on the last time after the latest fault, one after the other. Where no job
//! has come by, the page behind follows. There are about as many of them as the last job's faults. Then come pages
//! that left though jobs had faulted on them, the latest first. A page that was named once is named again only after a
//! job has faulted on it, so a page is restored in vain at most once.

use crate::error::FaultError;
use crate::id::{MappingId, ObjectId, PinnedPoolId};
use crate::index::{EntryIndex, PageNumber, PinnedIndex, TaskIndex};
use crate::memory::Memory;
use crate::pages::entry::Marks;
use crate::pages::page::PageMarks;
use crate::pinning::extensions::successors::Successors;
use crate::pinning::pool::PinnedPool;
use crate::units::{Instant, PageIndex};
use crate::view::PageState;

/// Pages remembered that have left.
const REMEMBERED: usize = 1024;
/// Steps onwards besides those that the last job's faults stand for.
const MARGIN: u32 = 16;

/// What has left, and where the jobs are.
#[derive(Debug)]
pub(crate) struct Recent {
    /// A ring of what has left.
    pages: [PageNumber; REMEMBERED],
    /// Where the next is written.
    next: usize,
    /// How many of them have been looked at since the last job ended, from the latest back.
    looked: usize,
    /// What a job has faulted on last.
    latest: PageNumber,
    /// Faults since the last job ended.
    faults: u32,
    /// Where the way onwards has led, and how much further it is followed.
    ahead: PageNumber,
    steps: u32,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            pages: [PageNumber::NONE; REMEMBERED],
            next: 0,
            // Nothing to look at before a job has ended.
            looked: REMEMBERED,
            latest: PageNumber::NONE,
            faults: 0,
            ahead: PageNumber::NONE,
            steps: 0,
        }
    }
}

impl Recent {
    fn remember(&mut self, page: PageNumber) {
        self.latest = page;
        self.faults = self.faults.saturating_add(1);
    }

    fn leave(&mut self, page: PageNumber) {
        self.pages[self.next] = page;
        self.next = (self.next + 1) % REMEMBERED;
        // What has been looked at is one further back now.
        self.looked = (self.looked + 1).min(REMEMBERED);
    }

    /// From now on all of them are looked at again.
    pub(crate) fn job_ended(&mut self) {
        self.looked = 0;
        self.ahead = self.latest;
        // The next job may want a few more than this one; after one that wanted nothing there is nowhere to go.
        self.steps = match self.faults {
            0 => 0,
            faults => faults.saturating_add(faults / 2).saturating_add(MARGIN),
        };
        self.faults = 0;
    }

    /// The next page on the way onwards, once round at most.
    fn go_on(&mut self, successors: &Successors, pages: u32) -> Option<PageNumber> {
        self.steps = self.steps.checked_sub(1)?;
        let here = self.ahead.some()?;
        // Where nobody has come by, the page behind it; whether it is the pool's is asked of every page.
        let behind = || Some(PageNumber(here.0 + 1)).filter(|page| page.0 < pages);
        let next = successors.after(here).or_else(behind);
        self.ahead = next.filter(|page| *page != self.latest).unwrap_or(PageNumber::NONE);
        self.ahead.some()
    }

    /// The next place to look at, from the latest back.
    fn look(&mut self) -> Option<usize> {
        (self.looked < REMEMBERED).then(|| {
            self.looked += 1;
            (self.next + REMEMBERED - self.looked) % REMEMBERED
        })
    }
}

impl Memory {
    /// A fault of a task whose pool restores: what it wants is known. What the restorer itself wants is not meant.
    pub(crate) fn remember(&mut self, task: TaskIndex, page: PageNumber) {
        let Some(found) = self.tasks.at(task.slot()) else {
            return;
        };
        if found.restores {
            return;
        }
        let pinner = found.pinner;
        if let Some(pool) = self
            .pinned
            .slots
            .at_mut(pinner.slot())
            .filter(|pool| pool.settings.restores())
        {
            if let Some(before) = pool.recent.latest.some().filter(|before| *before != page) {
                self.pinned.successors.note(before, page);
            }
            pool.recent.remember(page);
            self.pages[page].marks.set(PageMarks::WANTED);
        }
    }

    /// A page leaves memory.
    pub(crate) fn note_left(&mut self, page: PageNumber) {
        if !self.pages[page].marks.has(PageMarks::WANTED) {
            return;
        }
        let object = self.objects.at(usize::from(self.pages[page].object));
        let pinner = object.map_or(PinnedIndex::NONE, |object| object.pinner);
        if let Some(pool) = self.pinned.get_mut(pinner).filter(|pool| pool.settings.restores()) {
            pool.recent.leave(page);
        }
    }

    /// The next page in its store that a restorer ([`add_restorer`](Self::add_restorer)) ought to touch before the
    /// next release: of those that jobs went on to the last time that they were here, then of the last 1024 that have
    /// left and that jobs had wanted. `None` where there is none at the moment. For all calls after one job together
    /// O(its faults + 1024).
    pub fn next_to_restore(&mut self, id: PinnedPoolId) -> Option<(ObjectId, PageIndex)> {
        self.pinned.slots.get(id.index(), id.generation())?;
        let pinner = PinnedIndex(u16::try_from(id.index()).ok()?);
        let proves = self.pinned.get_mut(pinner)?.proves();
        let full = |pool: &mut PinnedPool| pool.len() >= pool.capacity.get();
        if proves && self.pinned.get_mut(pinner).is_none_or(full) {
            return None;
        }
        while !proves && let Some(page) = self.next_ahead(pinner) {
            if self.is_to_restore(pinner, page) {
                return Some(self.restored(page));
            }
        }
        loop {
            let recent = &mut self.pinned.get_mut(pinner)?.recent;
            let place = recent.look()?;
            let Some(page) = recent.pages[place].some() else {
                continue;
            };
            if self.pages[page].state == PageState::Leaving {
                // It is looked at again when it has gone.
                self.pinned.get_mut(pinner)?.recent.looked -= 1;
                return None;
            }
            if self.pages[page].marks.has(PageMarks::WANTED) && self.is_to_restore(pinner, page) {
                return Some(self.restored(page));
            }
        }
    }

    /// The page is restored now: until a job faults on it again it is wanted by none.
    fn restored(&mut self, page: PageNumber) -> (ObjectId, PageIndex) {
        self.pages[page].marks.clear(PageMarks::WANTED);
        let page = self.page_ref(page);
        (page.object(), page.page())
    }

    /// The page of the same object that jobs of a pool that restores went on to from this one the last time. O(1).
    #[must_use]
    pub fn onwards(&self, mapping: MappingId, page: PageIndex) -> Option<PageIndex> {
        let (found, object) = self.look_up(mapping).ok()?;
        let pool = self.pinned.slots.at(self.tasks.at(found.task.slot())?.pinner.slot())?;
        if !pool.settings.restores() || page.get() >= object.pages {
            return None;
        }
        let after = self.pinned.successors.after(PageNumber(object.first + page.get()))?;
        let after = after.0.checked_sub(object.first)?;
        (after < object.pages).then_some(PageIndex::new(after))
    }

    /// Takes a page that is in memory as touched by the mapping's task, although no fault came: where the task goes the
    /// way that it went the last time ([`onwards`](Self::onwards)), and faults are dear. A `Map` comes out whose task
    /// waits for nothing. Returns whether the page is there. O(sharers).
    ///
    /// # Errors
    /// [`FaultError::Stale`], [`FaultError::OutOfRange`], [`FaultError::Undrained`].
    pub fn touch_onwards(&mut self, now: Instant, mapping: MappingId, page: PageIndex) -> Result<bool, FaultError> {
        let (found, object) = self.look_up(mapping)?;
        if page.get() >= object.pages {
            return Err(FaultError::OutOfRange);
        }
        let number = PageNumber(object.first + page.get());
        let settled = |index: &EntryIndex| self.entries[*index].marks.has(Marks::SETTLED);
        let holder = self.task_holder(found.task);
        let Some(index) = self.find_entry(holder, number).filter(settled) else {
            return Ok(false);
        };
        if !self.room_for_fact() {
            return Err(FaultError::Undrained);
        }
        self.begin(Some(now));
        self.remember(found.task, number);
        self.reference(index);
        self.end();
        self.map_ahead(now, mapping, page, false)
    }

    fn next_ahead(&mut self, pinner: PinnedIndex) -> Option<PageNumber> {
        let (pools, pages) = (&mut self.pinned, self.pages.len());
        let pool = pools.slots.at_mut(pinner.slot())?;
        pool.recent.go_on(&pools.successors, pages)
    }

    /// Whether a page is one of the pool's that is in its store now.
    fn is_to_restore(&self, pinner: PinnedIndex, page: PageNumber) -> bool {
        let found = self.pages[page];
        // The object may have gone since, and its pages may be another's.
        let object = self.objects.at(usize::from(found.object));
        let mine = object.is_some_and(|object| object.pinner == pinner);
        mine && found.state == PageState::Stored && found.marks.has(PageMarks::STORED)
    }
}
