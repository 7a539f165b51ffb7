//! Transfers under way: pages on their way to or from the store.
//!
//! There is no pager thread: whoever waits ends what is due. So the table answers three questions quickly: what is due
//! first for this holder, what is under way for this page, and what is due first at all. A request is *taken* by the
//! thread that ends it and is from then on that thread's business alone.

use freehold_core::fact::{PageRef, Request};
use freehold_core::units::Instant;
use freehold_linux::pi_mutex::{PiGuard, PiMutex};
use std::sync::atomic::{AtomicU64, Ordering};

const NONE: u32 = u32::MAX;

/// The due time of a transfer whose end the store will tell.
pub(crate) const WHEN_TOLD: Instant = Instant::new(u64::MAX);

/// The row of a holder in tables kept beside the core: the pool first, then the reservation slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HolderRow(pub(crate) u32);

impl HolderRow {
    pub(crate) const POOL: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// On whose account a transfer is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) holder: HolderRow,
    /// The task that waits for the page, or whose thread was told to write it; for the record.
    pub(crate) task: Option<u16>,
    /// When the core asked for it; zero where nothing is recorded.
    pub(crate) since: Instant,
}

/// One transfer under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) page: PageRef,
    /// The page's number among all pages.
    pub(crate) number: u32,
    pub(crate) kind: Request,
    /// When it ends.
    pub(crate) due: Instant,
    /// The store refused it at once; nothing is to be fetched.
    pub(crate) refused: bool,
    pub(crate) account: Account,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// `None` in a vacant node, whose `next` chains the vacant ones.
    transfer: Option<Transfer>,
    previous: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

#[derive(Debug)]
struct Table {
    nodes: Box<[Node]>,
    vacant: u32,
    /// One queue for each holder, in order of due times.
    queues: Box<[Queue]>,
    /// The node of each page.
    of_page: Box<[u32]>,
    count: usize,
    most: usize,
    /// Tasks that wait for something that is not in the table.
    adrift: u32,
}

/// All transfers under way. Its lock is held for a few list operations at a time.
#[derive(Debug)]
pub(crate) struct Transfers {
    table: PiMutex<Table>,
    /// The earliest due time of each holder, readable without the lock.
    earliest: Box<[AtomicU64]>,
}

/// What a waiting task may drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) number: u32,
    pub(crate) due: Instant,
    /// It is neither for the page nor on the holder's account.
    pub(crate) foreign: bool,
}

impl Transfers {
    /// Room for `capacity` transfers of `pages` pages by `holders` holders. A page has at most one at a time.
    pub(crate) fn new(capacity: usize, pages: usize, holders: usize) -> Self {
        let empty = Queue {
            first: NONE,
            last: NONE,
        };
        let nodes: Box<[Node]> = (0..capacity)
            .map(|at| Node {
                transfer: None,
                previous: NONE,
                next: if at + 1 < capacity { index32(at + 1) } else { NONE },
            })
            .collect();
        Self {
            table: PiMutex::new(Table {
                vacant: if capacity == 0 { NONE } else { 0 },
                nodes,
                queues: vec![empty; holders].into_boxed_slice(),
                of_page: vec![NONE; pages].into_boxed_slice(),
                count: 0,
                most: 0,
                adrift: 0,
            }),
            earliest: (0..holders).map(|_| AtomicU64::new(u64::MAX)).collect(),
        }
    }

    /// Enters a transfer. True if somebody waits for he does not know what, and should look at the table again;
    /// `None` if the table is full or has the page already, which the core's books exclude.
    pub(crate) fn insert(&self, transfer: Transfer) -> Option<bool> {
        let mut table = self.table.lock();
        table.insert(transfer)?;
        self.publish(&table, transfer.account.holder);
        Some(table.adrift > 0)
    }

    /// Whether something of this holder is due. A hint, without the lock.
    pub(crate) fn is_due(&self, holder: HolderRow, now: Instant) -> bool {
        self.earliest[holder.index()].load(Ordering::Acquire) <= now.get()
    }

    /// Takes the holder's earliest transfer, if it is due.
    pub(crate) fn take_due(&self, holder: HolderRow, now: Instant) -> Option<Transfer> {
        let mut table = self.table.lock();
        let first = table.queues[holder.index()].first;
        let due = table.transfer(first).filter(|transfer| transfer.due <= now)?;
        table.remove(first);
        self.publish(&table, holder);
        Some(due)
    }

    /// Takes the transfer of a page.
    pub(crate) fn take_page(&self, number: u32) -> Option<Transfer> {
        let mut table = self.table.lock();
        let node = *table.of_page.get(number as usize)?;
        let transfer = table.transfer(node)?;
        table.remove(node);
        self.publish(&table, transfer.account.holder);
        Some(transfer)
    }

    /// Takes the transfer of a page if it is due.
    pub(crate) fn take_page_due(&self, number: u32, now: Instant) -> Option<Transfer> {
        let mut table = self.table.lock();
        let node = *table.of_page.get(number as usize)?;
        let transfer = table.transfer(node).filter(|transfer| transfer.due <= now)?;
        table.remove(node);
        self.publish(&table, transfer.account.holder);
        Some(transfer)
    }

    /// Makes the transfer of a page due at another time.
    pub(crate) fn retime(&self, number: u32, due: Instant) {
        let mut table = self.table.lock();
        table.retime(number, due);
        if let Some(transfer) = table.of(number) {
            self.publish(&table, transfer.account.holder);
        }
    }

    /// Makes the transfer of a page due, if it is here and was to be told; on whose account it is.
    pub(crate) fn ripen(&self, number: u32, now: Instant) -> Option<HolderRow> {
        let mut table = self.table.lock();
        let holder = table
            .of(number)
            .filter(|transfer| transfer.due == WHEN_TOLD)?
            .account
            .holder;
        table.retime(number, now);
        self.publish(&table, holder);
        Some(holder)
    }

    /// What a task of `holder` that waits for `page` should drive: the page's own transfer if it is due, else that or
    /// its holder's earliest, whichever is due first; failing both, the earliest of all. `None` leaves the task
    /// *adrift*, noted under the same lock, so that the next insertion tells the inserter; it must call
    /// [`Transfers::found`] when it looks again.
    pub(crate) fn candidate(&self, holder: HolderRow, page: u32, now: Instant) -> Option<Candidate> {
        let mut table = self.table.lock();
        let own = table.transfer(table.queues[holder.index()].first);
        let of_page = table.transfer(table.of_page[page as usize]);
        let found = match (own, of_page) {
            (Some(own), Some(of_page)) if of_page.due <= now.max(own.due) => Some(of_page),
            (Some(own), _) => Some(own),
            (None, Some(of_page)) => Some(of_page),
            (None, None) => table.earliest(),
        };
        if found.is_none() {
            table.adrift += 1;
        }
        found.map(|transfer| Candidate {
            number: transfer.number,
            due: transfer.due,
            foreign: transfer.account.holder != holder && transfer.number != page,
        })
    }

    /// A task that was adrift looks again.
    pub(crate) fn found(&self) {
        self.table.lock().adrift -= 1;
    }

    /// The earliest transfer of all. O(holders).
    pub(crate) fn earliest(&self) -> Option<Candidate> {
        let transfer = self.table.lock().earliest()?;
        Some(Candidate {
            number: transfer.number,
            due: transfer.due,
            foreign: false,
        })
    }

    /// All transfers under way, by holder and then by due time. Allocates.
    pub(crate) fn list(&self) -> Vec<(PageRef, Request)> {
        let table = self.table.lock();
        let mut all: Vec<Transfer> = table.nodes.iter().filter_map(|node| node.transfer).collect();
        drop(table);
        all.sort_by_key(|transfer| (transfer.due, transfer.number));
        all.iter().map(|transfer| (transfer.page, transfer.kind)).collect()
    }

    /// The transfer of a page.
    pub(crate) fn under_way(&self, number: u32) -> Option<(PageRef, Request)> {
        let transfer = self.table.lock().of(number)?;
        Some((transfer.page, transfer.kind))
    }

    /// How many transfers are under way, and the most there ever were.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.count, table.most)
    }

    fn publish(&self, table: &PiGuard<'_, Table>, holder: HolderRow) {
        let first = table.transfer(table.queues[holder.index()].first);
        let due = first.map_or(u64::MAX, |transfer| transfer.due.get());
        self.earliest[holder.index()].store(due, Ordering::Release);
    }
}

impl Table {
    fn transfer(&self, node: u32) -> Option<Transfer> {
        self.nodes.get(node as usize)?.transfer
    }

    fn of(&self, number: u32) -> Option<Transfer> {
        self.transfer(*self.of_page.get(number as usize)?)
    }

    /// Moves the transfer of a page to its place for another due time.
    fn retime(&mut self, number: u32, due: Instant) {
        let Some(transfer) = self.of(number) else { return };
        let most = self.most;
        self.remove(self.of_page[number as usize]);
        // The node just given up is there, and the page has no other transfer.
        let entered = self.insert(Transfer { due, ..transfer });
        debug_assert!(entered.is_some(), "a transfer was lost");
        self.most = most;
    }

    fn earliest(&self) -> Option<Transfer> {
        self.queues
            .iter()
            .filter_map(|queue| self.transfer(queue.first))
            .min_by_key(|transfer| transfer.due)
    }

    fn insert(&mut self, transfer: Transfer) -> Option<()> {
        let of_page = *self.of_page.get(transfer.number as usize)?;
        let node = self.vacant;
        if of_page != NONE || node == NONE {
            return None;
        }
        self.vacant = self.nodes[node as usize].next;
        // Due times rarely decrease, so the place is nearly always the end.
        let holder = transfer.account.holder.index();
        let mut before = self.queues[holder].last;
        while self.transfer(before).is_some_and(|other| other.due > transfer.due) {
            before = self.nodes[before as usize].previous;
        }
        let after = match before {
            NONE => self.queues[holder].first,
            before => self.nodes[before as usize].next,
        };
        self.nodes[node as usize] = Node {
            transfer: Some(transfer),
            previous: before,
            next: after,
        };
        self.join(holder, before, node);
        self.join(holder, node, after);
        self.of_page[transfer.number as usize] = node;
        self.count += 1;
        self.most = self.most.max(self.count);
        Some(())
    }

    fn remove(&mut self, node: u32) {
        let Node {
            transfer,
            previous,
            next,
        } = self.nodes[node as usize];
        let Some(transfer) = transfer else { return };
        self.join(transfer.account.holder.index(), previous, next);
        self.of_page[transfer.number as usize] = NONE;
        self.nodes[node as usize] = Node {
            transfer: None,
            previous: NONE,
            next: self.vacant,
        };
        self.vacant = node;
        self.count -= 1;
    }

    /// Makes `after` follow `before` in the holder's queue.
    fn join(&mut self, holder: usize, before: u32, after: u32) {
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.next = after,
            None => self.queues[holder].first = after,
        }
        match self.nodes.get_mut(after as usize) {
            Some(node) => node.previous = before,
            None => self.queues[holder].last = before,
        }
    }
}

fn index32(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NONE)
}

#[cfg(test)]
mod tests;
