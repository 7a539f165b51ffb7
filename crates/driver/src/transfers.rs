//! The table of transfers under way: pages on their way to or from the store.
//!
//! A transfer is known by its *record*, the number of its page among all pages, and each page has at most one. The
//! table answers two questions at once, however many transfers there are: which transfer of a *queue* ends next, and
//! which write that frees a frame for a holder is the least urgent. The driver chooses the queues: one for each holder
//! where tasks end their own transfers, one for each pager thread in the server, one in the simulator.

mod list;

use crate::HolderRow;
use freehold_core::units::Instant;
use list::{End, Link, NONE, insert, unlink};

/// The due time of a transfer whose end will be told.
pub const WHEN_TOLD: Instant = Instant::new(u64::MAX);

/// One transfer under way.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<T> {
    /// The page's number among all pages.
    pub record: u32,
    /// Whose it is to end it.
    pub queue: usize,
    /// When it ends, or [`WHEN_TOLD`].
    pub due: Instant,
    /// How urgent it is; the higher, the more.
    pub urgency: u8,
    /// Of a write: who gets the frame.
    pub frees_for: Option<HolderRow>,
    /// What the driver knows of it.
    pub what: T,
}

#[derive(Clone, Copy, Debug)]
struct Node<T> {
    /// `None` in a vacant node, whose `by_due.next` chains the vacant ones.
    transfer: Option<Transfer<T>>,
    by_due: Link,
    by_urgency: Link,
}

/// All transfers under way.
#[derive(Debug)]
pub struct Transfers<T> {
    nodes: Vec<Node<T>>,
    vacant: u32,
    is_bounded: bool,
    /// One for each queue, in order of due times, and of entry where those are equal.
    queues: Box<[End]>,
    /// Writes by whom they free a frame for, the least urgent first.
    writes: Box<[End]>,
    /// One more than the node of each record; 0 where there is none.
    of_record: Vec<u32>,
    count: usize,
    most: usize,
}

impl<T: Copy> Transfers<T> {
    /// An empty table for the pages of `records`, which grows as needed.
    #[must_use]
    pub fn growing(records: usize, queues: usize, holders: usize) -> Self {
        Self {
            nodes: Vec::new(),
            vacant: NONE,
            is_bounded: false,
            queues: vec![End::EMPTY; queues].into_boxed_slice(),
            writes: vec![End::EMPTY; holders].into_boxed_slice(),
            of_record: vec![0; records],
            count: 0,
            most: 0,
        }
    }

    /// An empty table with room for `capacity` transfers and no more. All its memory is there: nothing is allocated
    /// afterwards, and the kernel gives nothing page by page.
    #[must_use]
    pub fn bounded(capacity: usize, records: usize, queues: usize, holders: usize) -> Self {
        let mut table = Self::growing(records, queues, holders);
        table.nodes.reserve_exact(capacity);
        (0..capacity).for_each(|_| table.add_node());
        // Zeros that nobody has written need no memory yet.
        std::hint::black_box(&mut table.of_record).fill(0);
        table.is_bounded = true;
        table
    }

    /// Enters a transfer. False if its record has one already, there is no such record, queue or holder, or a bounded
    /// table is full. O(1) where due times and urgencies do not decrease.
    pub fn insert(&mut self, transfer: Transfer<T>) -> bool {
        let is_known = transfer.queue < self.queues.len()
            && transfer
                .frees_for
                .is_none_or(|holder| holder.index() < self.writes.len());
        let is_new = self.of_record.get(transfer.record as usize) == Some(&0);
        if !is_known || !is_new {
            return false;
        }
        if self.vacant == NONE && !self.is_bounded {
            self.add_node();
        }
        let Some(node) = self.nodes.get_mut(self.vacant as usize) else {
            return false;
        };
        let at = std::mem::replace(&mut self.vacant, node.by_due.next);
        node.transfer = Some(transfer);
        self.of_record[transfer.record as usize] = at + 1;
        self.enter_queue(at);
        self.enter_writes(at);
        self.count += 1;
        self.most = self.most.max(self.count);
        true
    }

    /// Takes the transfer of a record.
    pub fn take(&mut self, record: u32) -> Option<Transfer<T>> {
        let at = self.node_of(record)?;
        self.leave_queue(at);
        self.leave_writes(at);
        self.of_record[record as usize] = 0;
        let vacant = std::mem::replace(&mut self.vacant, at);
        let node = &mut self.nodes[at as usize];
        node.by_due.next = vacant;
        self.count -= 1;
        node.transfer.take()
    }

    /// Takes the transfer of a record if it is due.
    pub fn take_if_due(&mut self, record: u32, now: Instant) -> Option<Transfer<T>> {
        self.get(record).filter(|transfer| transfer.due <= now)?;
        self.take(record)
    }

    /// Takes the first transfer of a queue if it is due.
    pub fn take_due(&mut self, queue: usize, now: Instant) -> Option<Transfer<T>> {
        let record = self.first(queue).filter(|transfer| transfer.due <= now)?.record;
        self.take(record)
    }

    /// The transfer of a record.
    #[must_use]
    pub fn get(&self, record: u32) -> Option<&Transfer<T>> {
        self.at(self.node_of(record)?)
    }

    /// What the driver knows of the transfer of a record.
    pub fn what_mut(&mut self, record: u32) -> Option<&mut T> {
        let at = self.node_of(record)?;
        let transfer = self.nodes.get_mut(at as usize)?.transfer.as_mut();
        transfer.map(|transfer| &mut transfer.what)
    }

    /// The transfer of a queue that ends first.
    #[must_use]
    pub fn first(&self, queue: usize) -> Option<&Transfer<T>> {
        self.at(self.queues.get(queue)?.first)
    }

    /// The transfer that ends first of all. O(queues).
    #[must_use]
    pub fn earliest(&self) -> Option<&Transfer<T>> {
        let firsts = self.queues.iter().filter_map(|queue| self.at(queue.first));
        firsts.min_by_key(|transfer| transfer.due)
    }

    /// Moves the transfer of a record to another time, and perhaps queue; whether there is one, and such a queue. O(1)
    /// where few end later.
    pub fn expect(&mut self, record: u32, queue: usize, due: Instant) -> bool {
        let Some(at) = self.node_of(record).filter(|_| queue < self.queues.len()) else {
            return false;
        };
        self.leave_queue(at);
        if let Some(transfer) = self.at_mut(at) {
            (transfer.queue, transfer.due) = (queue, due);
        }
        self.enter_queue(at);
        true
    }

    /// The transfer of a record is due, if its end was to be told; its queue.
    pub fn complete(&mut self, record: u32, now: Instant) -> Option<usize> {
        let queue = self.get(record).filter(|transfer| transfer.due == WHEN_TOLD)?.queue;
        self.expect(record, queue, now).then_some(queue)
    }

    /// Makes a transfer as urgent as this at least; whether it was less urgent, `None` where there is none.
    pub fn raise(&mut self, record: u32, urgency: u8) -> Option<bool> {
        let at = self.node_of(record)?;
        if self.at(at)?.urgency >= urgency {
            return Some(false);
        }
        self.leave_writes(at);
        if let Some(transfer) = self.at_mut(at) {
            transfer.urgency = urgency;
        }
        self.enter_writes(at);
        Some(true)
    }

    /// The least urgent write that frees a frame for a holder, where it is less urgent than this.
    #[must_use]
    pub fn write_below(&self, holder: HolderRow, urgency: u8) -> Option<u32> {
        let least = self.at(self.writes.get(holder.index())?.first)?;
        (least.urgency < urgency).then_some(least.record)
    }

    /// All of them, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = &Transfer<T>> {
        self.nodes.iter().filter_map(|node| node.transfer.as_ref())
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The most that there ever were.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    fn add_node(&mut self) {
        let Ok(at) = u32::try_from(self.nodes.len()) else {
            return;
        };
        self.nodes.push(Node {
            transfer: None,
            by_due: Link {
                previous: NONE,
                next: self.vacant,
            },
            by_urgency: Link::ALONE,
        });
        self.vacant = at;
    }

    fn node_of(&self, record: u32) -> Option<u32> {
        self.of_record.get(record as usize)?.checked_sub(1)
    }

    fn at(&self, node: u32) -> Option<&Transfer<T>> {
        self.nodes.get(node as usize)?.transfer.as_ref()
    }

    fn at_mut(&mut self, node: u32) -> Option<&mut Transfer<T>> {
        self.nodes.get_mut(node as usize)?.transfer.as_mut()
    }

    fn enter_queue(&mut self, at: u32) {
        if let Some(&Transfer { queue, due, .. }) = self.at(at) {
            let end = &mut self.queues[queue];
            let later = |node: &Node<T>| node.transfer.is_some_and(|other| other.due > due);
            insert(&mut self.nodes, end, at, |node| &mut node.by_due, later);
        }
    }

    fn leave_queue(&mut self, at: u32) {
        if let Some(&Transfer { queue, .. }) = self.at(at) {
            unlink(&mut self.nodes, &mut self.queues[queue], at, |node| &mut node.by_due);
        }
    }

    fn enter_writes(&mut self, at: u32) {
        if let Some(&Transfer {
            frees_for: Some(holder),
            urgency,
            ..
        }) = self.at(at)
        {
            let end = &mut self.writes[holder.index()];
            let above = |node: &Node<T>| node.transfer.is_some_and(|other| other.urgency > urgency);
            insert(&mut self.nodes, end, at, |node| &mut node.by_urgency, above);
        }
    }

    fn leave_writes(&mut self, at: u32) {
        if let Some(&Transfer {
            frees_for: Some(holder),
            ..
        }) = self.at(at)
        {
            let end = &mut self.writes[holder.index()];
            unlink(&mut self.nodes, end, at, |node| &mut node.by_urgency);
        }
    }
}

#[cfg(test)]
mod tests;
