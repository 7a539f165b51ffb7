//! Restore before release, beyond the paper: what a job faulted on is likely to be wanted by the next.

use crate::id::{ObjectId, PinnedPoolId};
use crate::index::{PageNumber, PinnedIndex, TaskIndex};
use crate::memory::Memory;
use crate::page::PageMarks;
use crate::units::PageIndex;
use crate::view::PageState;

/// Pages remembered of one job.
const REMEMBERED: usize = 1024;

/// What the job under way has faulted on, and what the last one did.
#[derive(Debug)]
pub(crate) struct Recent {
    pages: [[PageNumber; REMEMBERED]; 2],
    counts: [usize; 2],
    /// Which of the two is the job under way.
    now: usize,
    /// How far the other has been looked through.
    looked: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            pages: [[PageNumber::NONE; REMEMBERED]; 2],
            counts: [0; 2],
            now: 0,
            looked: 0,
        }
    }
}

impl Recent {
    fn remember(&mut self, page: PageNumber) {
        let count = self.counts[self.now];
        if count < REMEMBERED {
            self.pages[self.now][count] = page;
            self.counts[self.now] = count + 1;
        }
    }

    /// The job under way is the last one from now on.
    pub(crate) fn job_ended(&mut self) {
        self.now = 1 - self.now;
        self.counts[self.now] = 0;
        self.looked = 0;
    }

    fn next(&mut self) -> Option<PageNumber> {
        let last = 1 - self.now;
        let page = *self.pages[last]
            .get(self.looked)
            .filter(|_| self.looked < self.counts[last])?;
        self.looked += 1;
        Some(page)
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

    /// The next page that the last job faulted on and that is in its store now: what a restorer
    /// ([`add_restorer`](Self::add_restorer)) ought to touch before the next release. Each is named once for each job.
    /// At most 1024 pages of a job are remembered. O(pages remembered) for all calls after one job together.
    pub fn next_to_restore(&mut self, id: PinnedPoolId) -> Option<(ObjectId, PageIndex)> {
        self.pinned.slots.get(id.index(), id.generation())?;
        let pinner = PinnedIndex(u16::try_from(id.index()).ok()?);
        loop {
            let page = self.pinned.get_mut(pinner)?.recent.next()?;
            let found = self.pages[page];
            // The object may have gone since, and its pages may be another's.
            let mine = self
                .objects
                .at(usize::from(found.object))
                .is_some_and(|object| object.pinner == pinner);
            if mine && found.state == PageState::Stored && found.marks.has(PageMarks::STORED) {
                let page = self.page_ref(page);
                return Some((page.object(), page.page()));
            }
        }
    }
}
