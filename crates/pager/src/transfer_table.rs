//! Transfers under way: pages on their way to or from the store.
//!
//! There is no pager thread: whoever waits ends what is due. So the table answers three questions quickly: what is due
//! first for this holder, what is under way for this page, and what is due first at all. A request is *taken* by the
//! thread that ends it and is from then on that thread's business alone.

use freehold_core::fact::{PageRef, Request};
use freehold_core::units::Instant;
use freehold_driver::{HolderRow, RecordSearch, Transfers as Table};
use freehold_linux::pi_mutex::{PiGuard, PiMutex};
use std::sync::atomic::{AtomicU64, Ordering};

/// On whose account a transfer is: each holder has a queue of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) holder: HolderRow,
    /// The task that waits for the page, or whose thread was told to write it; for the record.
    pub(crate) task: Option<u16>,
    /// When the core asked for it; zero where nothing is recorded.
    pub(crate) since: Instant,
}

/// What the pager knows of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moving {
    pub(crate) page: PageRef,
    pub(crate) kind: Request,
    /// The store refused it at once; nothing is to be fetched.
    pub(crate) refused: bool,
    /// The page is there already: it came out of the cache of files, and the store knows nothing of it.
    pub(crate) cached: bool,
    pub(crate) account: Account,
}

/// One transfer under way.
pub(crate) type Transfer = freehold_driver::Transfer<Moving>;

#[derive(Debug)]
struct Rows {
    table: Table<Moving>,
    /// Tasks that wait for something that is not in the table.
    unattributed: u32,
}

/// All transfers under way. The lock is held for a few list operations at a time.
#[derive(Debug)]
pub(crate) struct Transfers {
    rows: PiMutex<Rows>,
    /// The earliest due time of each holder, readable without the lock.
    earliest: Box<[AtomicU64]>,
    /// Where the store is looked through for room; used under the core's lock.
    pub(crate) record_search: PiMutex<RecordSearch>,
}

/// What a waiting task may drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) number: u32,
    pub(crate) due: Instant,
    /// It is neither for the page nor on the holder's account.
    pub(crate) foreign: bool,
    /// The page has a transfer of its own, which is due later.
    pub(crate) beside: bool,
}

impl Transfers {
    /// Room for `capacity` transfers of `pages` pages by `holders` holders. A page has at most one at a time.
    pub(crate) fn new(capacity: usize, pages: usize, holders: usize) -> Self {
        Self {
            rows: PiMutex::new(Rows {
                table: Table::bounded(capacity, pages, holders, holders),
                unattributed: 0,
            }),
            earliest: (0..holders).map(|_| AtomicU64::new(u64::MAX)).collect(),
            record_search: PiMutex::new(RecordSearch::default()),
        }
    }

    /// Enters a transfer. True if somebody waits for he does not know what, and should look at the table again;
    /// `None` if the table is full or has the page already, which the core's books exclude.
    pub(crate) fn insert(&self, transfer: Transfer) -> Option<bool> {
        let mut rows = self.rows.lock();
        let entered = rows.table.insert(transfer);
        self.publish(&rows, transfer.queue);
        entered.then_some(rows.unattributed > 0)
    }

    /// Whether something of this holder is due. A hint, without the lock.
    pub(crate) fn is_due(&self, holder: HolderRow, now: Instant) -> bool {
        self.earliest[holder.index()].load(Ordering::Acquire) <= now.get()
    }

    /// Takes the holder's earliest transfer, if it is due.
    pub(crate) fn take_due(&self, holder: HolderRow, now: Instant) -> Option<Transfer> {
        self.take(|table| table.take_due(holder.index(), now))
    }

    /// Takes the transfer of a page.
    pub(crate) fn take_page(&self, number: u32) -> Option<Transfer> {
        self.take(|table| table.take(number))
    }

    /// Takes the transfer of a page if it is due.
    pub(crate) fn take_page_due(&self, number: u32, now: Instant) -> Option<Transfer> {
        self.take(|table| table.take_if_due(number, now))
    }

    fn take(&self, chosen: impl FnOnce(&mut Table<Moving>) -> Option<Transfer>) -> Option<Transfer> {
        let mut rows = self.rows.lock();
        let taken = chosen(&mut rows.table)?;
        self.publish(&rows, taken.queue);
        Some(taken)
    }

    /// Makes the transfer of a page due at another time.
    pub(crate) fn retime(&self, number: u32, due: Instant) {
        let mut rows = self.rows.lock();
        if let Some(queue) = rows.table.get(number).map(|transfer| transfer.queue) {
            rows.table.expect(number, queue, due);
            self.publish(&rows, queue);
        }
    }

    /// Makes the transfer of a page due, if it is here and was to be told; on whose account it is.
    pub(crate) fn complete(&self, number: u32, now: Instant) -> Option<HolderRow> {
        let mut rows = self.rows.lock();
        let queue = rows.table.complete(number, now)?;
        self.publish(&rows, queue);
        rows.table.get(number).map(|transfer| transfer.what.account.holder)
    }

    /// What a task of `holder` that waits for `page` should drive: the page's own transfer if it is due, else that or
    /// its holder's earliest, whichever is due first; failing both, the earliest of all. `None` leaves the task
    /// *unattributed*, noted under the same lock, so that the next insertion tells the inserter; it must call
    /// [`Transfers::found`] when it looks again.
    pub(crate) fn candidate(&self, holder: HolderRow, page: u32, now: Instant) -> Option<Candidate> {
        let mut rows = self.rows.lock();
        let (own, of_page) = (rows.table.first(holder.index()), rows.table.get(page));
        let found = match (own, of_page) {
            (Some(own), Some(of_page)) if of_page.due <= now.max(own.due) => Some(of_page),
            (Some(own), _) => Some(own),
            (None, Some(of_page)) => Some(of_page),
            (None, None) => rows.table.earliest(),
        };
        let found = found.map(|transfer| Candidate {
            number: transfer.record,
            due: transfer.due,
            foreign: transfer.queue != holder.index() && transfer.record != page,
            beside: transfer.record != page && of_page.is_some(),
        });
        if found.is_none() {
            rows.unattributed += 1;
        }
        found
    }

    /// A task whose wait was unattributed looks again.
    pub(crate) fn found(&self) {
        self.rows.lock().unattributed -= 1;
    }

    /// The earliest transfer of all. O(holders).
    pub(crate) fn earliest(&self) -> Option<Candidate> {
        let rows = self.rows.lock();
        let transfer = rows.table.earliest()?;
        Some(Candidate {
            number: transfer.record,
            due: transfer.due,
            foreign: false,
            beside: false,
        })
    }

    /// All transfers under way, by due time and then by page. Allocates.
    pub(crate) fn list(&self) -> Vec<(PageRef, Request)> {
        let mut all: Vec<Transfer> = self.rows.lock().table.iter().copied().collect();
        all.sort_by_key(|transfer| (transfer.due, transfer.record));
        all.iter()
            .map(|transfer| (transfer.what.page, transfer.what.kind))
            .collect()
    }

    /// The transfer of a page.
    pub(crate) fn under_way(&self, number: u32) -> Option<(PageRef, Request)> {
        let rows = self.rows.lock();
        let Moving { page, kind, .. } = rows.table.get(number)?.what;
        Some((page, kind))
    }

    /// How many transfers are under way, and the most there ever were.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let rows = self.rows.lock();
        (rows.table.count(), rows.table.most())
    }

    fn publish(&self, rows: &PiGuard<'_, Rows>, queue: usize) {
        let due = rows.table.first(queue).map_or(u64::MAX, |transfer| transfer.due.get());
        if let Some(earliest) = self.earliest.get(queue) {
            earliest.store(due, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;
