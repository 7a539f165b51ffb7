//! Transfers whose end no clock foretells: the store says when.
//!
//! A thread of the store calls [`Ends::ended`], perhaps before the thread that submitted the transfer has entered it
//! into the table. So whoever enters one asks the store afterwards whether it has ended meanwhile; one of the two sees
//! the other, because both go through the table's lock.
//!
//! A task that waits notes what it waits for before it looks into the table; here the table is changed before the notes
//! are read. So an end is either seen by the task or followed by a nudge.

use crate::shared::TaskRow;
use crate::transfer_table::Transfers;
use freehold_core::units::Instant;
use freehold_driver::HolderRow;
use freehold_linux::clock::MonotonicTime;
use freehold_linux::{clock, futex};
use freehold_store::{Completion, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What a task waits for, if it does.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// One more than the number of the page; 0 while it does not wait.
    page: AtomicU32,
    /// It drives whatever is under way.
    anything: AtomicBool,
}

impl Waits {
    /// The task waits for a page, and drives transfers of its holder.
    pub(crate) fn begin(&self, page: u32) {
        self.anything.store(false, Ordering::Relaxed);
        self.page.store(page.saturating_add(1), Ordering::SeqCst);
    }

    /// The task drives transfers of anybody; false if it did so already.
    pub(crate) fn widen(&self) -> bool {
        !self.anything.swap(true, Ordering::SeqCst)
    }

    /// The task waits no more.
    pub(crate) fn end(&self) {
        self.page.store(0, Ordering::SeqCst);
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.page.load(Ordering::SeqCst) > 0
    }

    fn concern(&self, page: u32, same_holder: bool) -> bool {
        let waited_for = self.page.load(Ordering::SeqCst);
        waited_for > 0 && (same_holder || waited_for == page.saturating_add(1) || self.anything.load(Ordering::SeqCst))
    }
}

/// Is told of ends, and tells those whom they concern.
#[derive(Debug)]
pub(crate) struct Ends {
    transfers: Arc<Transfers>,
    tasks: Arc<[TaskRow]>,
    /// Ends so far; also a futex.
    count: AtomicU32,
    /// Commands that wait for an end.
    commands: AtomicU32,
}

impl Ends {
    pub(crate) fn new(transfers: Arc<Transfers>, tasks: Arc<[TaskRow]>) -> Self {
        Self {
            transfers,
            tasks,
            count: AtomicU32::new(0),
            commands: AtomicU32::new(0),
        }
    }

    /// Ends so far, for [`Ends::wait`].
    pub(crate) fn seen(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until there are more ends than `seen`, or until `until`.
    pub(crate) fn wait(&self, seen: u32, until: MonotonicTime) {
        self.commands.fetch_add(1, Ordering::SeqCst);
        // However the wait ends, the caller looks again.
        let _ = futex::wait(&self.count, seen, Some(until));
        self.commands.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Completion for Ends {
    fn ended(&self, slot: Slot) {
        let now = Instant::new(clock::now().as_nanos());
        // `None`: not entered yet, and whoever enters it asks; or somebody was faster.
        if let Some(holder) = self.transfers.complete(slot.get(), now) {
            for row in self.tasks.iter() {
                let same_holder = HolderRow::new(row.holder.load(Ordering::Acquire)) == holder;
                if row.waits.concern(slot.get(), same_holder) {
                    row.mailbox.nudge();
                }
            }
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.commands.load(Ordering::SeqCst) > 0 {
            futex::wake(&self.count, u32::MAX);
        }
    }
}
