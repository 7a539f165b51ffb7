//! Restore before release, beyond the paper: what the last jobs faulted on is likely to be wanted by the next.
//!
//! A page stays remembered while it is in memory, until so many others were faulted on. One that has left is named
//! once: if the next jobs want it, they fault on it and it is remembered anew; if not, it is not brought back again.

use crate::id::{ObjectId, PinnedPoolId};
use crate::index::{PageNumber, PinnedIndex, TaskIndex};
use crate::memory::Memory;
use crate::page::PageMarks;
use crate::units::PageIndex;
use crate::view::PageState;

/// Pages remembered.
const REMEMBERED: usize = 1024;

/// What jobs have faulted on last.
#[derive(Debug)]
pub(crate) struct Recent {
    /// A ring.
    pages: [PageNumber; REMEMBERED],
    /// Where the next is written.
    next: usize,
    /// How many of them have been looked at since the last job ended, from the latest back.
    looked: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            pages: [PageNumber::NONE; REMEMBERED],
            next: 0,
            // Nothing to look at before a job has ended.
            looked: REMEMBERED,
        }
    }
}

impl Recent {
    fn remember(&mut self, page: PageNumber) {
        self.pages[self.next] = page;
        self.next = (self.next + 1) % REMEMBERED;
        // What has been looked at is one further back now.
        self.looked = (self.looked + 1).min(REMEMBERED);
    }

    /// From now on all of them are looked at again.
    pub(crate) fn job_ended(&mut self) {
        self.looked = 0;
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
    /// A fault of a task whose pool restores: what it wanted is remembered. The restorer's own are not.
    pub(crate) fn remember(&mut self, task: TaskIndex, page: PageNumber) {
        let Some(found) = self.tasks.at(task.slot()) else {
            return;
        };
        if found.restores {
            return;
        }
        let pinner = found.pinner;
        if let Some(pool) = self.pinned.get_mut(pinner).filter(|pool| pool.settings.restore) {
            pool.recent.remember(page);
        }
    }

    /// The next of the 1024 pages that jobs faulted on last which is in its store now: what a restorer
    /// ([`add_restorer`](Self::add_restorer)) ought to touch before the next release, the latest first. A page that was
    /// named is forgotten until a job faults on it again. O(pages remembered) for all calls after one job together.
    pub fn next_to_restore(&mut self, id: PinnedPoolId) -> Option<(ObjectId, PageIndex)> {
        self.pinned.slots.get(id.index(), id.generation())?;
        let pinner = PinnedIndex(u16::try_from(id.index()).ok()?);
        loop {
            let recent = &mut self.pinned.get_mut(pinner)?.recent;
            let place = recent.look()?;
            let Some(page) = recent.pages[place].some() else {
                continue;
            };
            let found = self.pages[page];
            // The object may have gone since, and its pages may be another's.
            let mine = self
                .objects
                .at(usize::from(found.object))
                .is_some_and(|object| object.pinner == pinner);
            if mine && found.state == PageState::Stored && found.marks.has(PageMarks::STORED) {
                if let Some(pool) = self.pinned.get_mut(pinner) {
                    pool.recent.pages[place] = PageNumber::NONE;
                }
                let page = self.page_ref(page);
                return Some((page.object(), page.page()));
            }
        }
    }
}
