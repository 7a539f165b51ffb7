//! Pages on their way to or from the store, or from a file.
//!
//! The store never gets a page that a client could reach: it reads and writes pages of the server's own, or has them
//! copied between its own memory and where the content belongs.

pub(super) mod completion_queue;
pub(super) mod effects;
pub(super) mod eviction_batch;
pub(super) mod store_ranges;
mod store_room;
pub(super) mod stores;
pub(super) mod transfer_table;

use crate::engine::Engine;
use crate::engine::keys::ClientId;
use crate::engine::lockstep::Lockstep;
use crate::engine::objects::Content;
use crate::engine::objects::file_readers::Readers;
use crate::engine::private_memory::Where;
use crate::engine::transfers::completion_queue::CompletionQueue;
use crate::engine::transfers::transfer_table::Transfer;
use crate::error::EngineError;
use crate::settings::Settings;
use freehold_core::effect::Holder;
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::ObjectId;
use freehold_core::units::Instant;
use freehold_driver::{End, RecordSearch};
use freehold_linux::Errno;
use freehold_store::{Due, PageLease, Record, Slot, Store, StoreError, Urgency};
use std::sync::Arc;

/// Pages kept for transfers to come.
const MOST_LOANS: usize = 256;

/// What moves pages, and who does it.
#[derive(Debug)]
pub(super) struct Io {
    pub(super) store: Box<dyn Store>,
    pub(super) completions: Arc<CompletionQueue>,
    pub(super) readers: Readers,
    /// Pages of the server's own, for transfers to come.
    loans: Vec<PageLease>,
    /// The store has been given something in this step.
    pub(super) submitted: bool,
    /// What waits for a word in a run in lockstep.
    pub(super) lockstep: Lockstep,
    /// Where the store is looked through for room.
    record_search: RecordSearch,
}

impl Io {
    /// The store of these settings, and threads that read files. What they end is told by `ends`.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub(super) fn new(settings: &Settings, completions: Arc<CompletionQueue>) -> Result<Self, EngineError> {
        Ok(Self {
            store: stores::make(settings, &completions)?,
            readers: Readers::start(&completions, settings.priority, settings.declared_latency())?,
            completions,
            loans: Vec::new(),
            submitted: false,
            lockstep: Lockstep::default(),
            record_search: RecordSearch::default(),
        })
    }
}

impl Engine {
    /// A page of the server's own, for a transfer.
    pub(super) fn loan(&mut self) -> PageLease {
        self.io.loans.pop().unwrap_or_else(PageLease::allocated)
    }

    pub(super) fn give_back(&mut self, loan: PageLease) {
        if self.io.loans.len() < MOST_LOANS {
            self.io.loans.push(loan);
        }
    }

    fn record(&self, page: PageRef) -> Option<u32> {
        Some(self.object(page.object())?.record + page.page().get())
    }

    /// Whether a transfer of a page is under way.
    pub(super) fn is_under_way(&self, object: ObjectId, page: u32) -> bool {
        let record = self.object(object).map(|row| row.record + page);
        record.is_some_and(|record| self.transfers.contains(record))
    }

    /// Reads a page back from the store, or from the file behind its object.
    pub(super) fn begin_read(&mut self, page: PageRef, urgency: u8) {
        match self.object(page.object()).map(|object| &object.content) {
            Some(Content::File { .. }) => match self.source_of(page.object()) {
                Some(source) if self.io.lockstep.is_held() => self.hold_read(page, source),
                Some(_) if urgency == 0 && self.gather(page) => {}
                Some(source) => self.read_file(page, &source, urgency),
                None => self.end(page, Request::Fill, End::Failed),
            },
            Some(_) => self.read_record(page, urgency),
            None => self.end(page, Request::Fill, End::Failed),
        }
    }

    fn read_record(&mut self, page: PageRef, urgency: u8) {
        let Some(record) = self.record(page) else { return };
        if self.transfers.contains(record) {
            // It is being read for a child.
            self.transfers.await_end(record, page, urgency);
            return;
        }
        let loan = self.loan();
        self.io.completions.own(record, self.step.pager);
        let begun = self
            .io
            .store
            .submit_read(self.step.now, Slot::new(record), Urgency::new(urgency), loan);
        self.enter(record, Transfer::Fill { page }, urgency, begun);
    }

    /// Writes a page to the store, as `copy` finds it.
    fn write_record(&mut self, page: PageRef, holder: Holder, copy: impl Fn(&Self, &mut Record) -> Result<(), Errno>) {
        let Some(record) = self.record(page) else { return };
        if self.transfers.contains(record) {
            // It is being read for a child.
            self.cannot_leave(page);
            return;
        }
        let (loan, urgency) = (self.loan(), self.urgency_for(holder));
        self.io.completions.own(record, self.step.pager);
        let (slot, level) = (Slot::new(record), Urgency::new(urgency));
        let begun = self
            .io
            .store
            .submit_copy(self.step.now, slot, level, loan, &mut |content| copy(self, content));
        self.enter(record, Transfer::Evict { page, holder }, urgency, begun);
    }

    /// Notes that the store's record of a page is zeros; whether that went well.
    pub(super) fn write_zeros(&mut self, page: PageRef) -> bool {
        let record = self.record(page);
        record.is_some_and(|record| self.io.store.seed(Slot::new(record), None).is_ok())
    }

    /// Writes a shared object's page to the store, which has been populated just before where that went well.
    pub(super) fn write_shared(&mut self, page: PageRef, holder: Holder, populated: bool) {
        let at = page.page().get() as usize;
        self.write_record(page, holder, |engine, content| {
            let memory = engine.object(page.object()).and_then(|object| object.memory());
            match memory.ok_or(Errno::NOENT)? {
                memory if populated => memory.read_populated(at, content),
                memory => memory.read(at, content),
            }
        });
    }

    /// Writes a private page, which is in the transfer memory, to the store.
    pub(super) fn write_slot(&mut self, page: PageRef, holder: Holder, slot: u32) {
        self.write_record(page, holder, |engine, content| {
            let client = engine.private_client(page).and_then(|id| engine.client(id));
            let slots = client.map(|client| &client.slots).ok_or(Errno::NOENT)?;
            slots.memory().read(slot as usize, content)
        });
    }

    /// Reads a page from its store for a child; whether that has begun.
    pub(super) fn read_for(&mut self, fork_child: ClientId, object: ObjectId, page: u32) -> bool {
        let Some(record) = self.object(object).map(|row| row.record + page) else {
            return false;
        };
        let (loan, urgency) = (self.loan(), self.client(fork_child).map_or(0, |client| client.urgency));
        self.io.completions.own(record, self.step.pager);
        let begun = self
            .io
            .store
            .submit_read(self.step.now, Slot::new(record), Urgency::new(urgency), loan);
        let begins = begun.is_ok();
        let fork_child = (fork_child, object, page);
        self.enter(record, Transfer::Inherited { fork_child }, urgency, begun);
        begins
    }

    fn enter(&mut self, record: u32, what: Transfer, urgency: u8, begun: Result<Due, StoreError>) {
        let due = match begun {
            Ok(due) => due,
            Err(error) => {
                self.notice(format!("the store refused a transfer: {error}"));
                match what {
                    Transfer::Fill { page } => self.end(page, Request::Fill, End::Failed),
                    Transfer::Evict { page, .. } => self.end(page, Request::Evict, End::Failed),
                    Transfer::Inherited { .. } => {}
                }
                return;
            }
        };
        self.io.submitted = true;
        // What is read for a child may begin when the step has settled, and be looked for in the next.
        let has_ended = due.has_come(self.step.now) && !self.io.lockstep.is_held();
        if has_ended && !matches!(what, Transfer::Inherited { .. }) {
            self.transfers.enter_ended(record, what);
            return;
        }
        self.transfers.enter(record, what, urgency, self.step.pager);
        match due {
            Due::At(due) => self.wait_until(due, record),
            Due::WhenTold => {}
        }
    }

    pub(super) fn wait_until(&mut self, due: Instant, record: u32) {
        if self.io.lockstep.is_held() {
            return;
        }
        if due <= self.step.now {
            self.transfers.ready.push_back(record);
            return;
        }
        self.transfers.expect(record, self.step.pager, due);
        if !self.step.in_dispatch {
            // The thread that sleeps does not know of it.
            self.io.completions.wake(self.step.pager);
        }
    }

    /// When the next transfer of this pager thread ends that has its time, in nanoseconds of the monotonic clock.
    pub(super) fn transfer_due(&self, pager: usize) -> Option<u64> {
        self.transfers.next_due(pager).map(Instant::get)
    }

    /// Collects what has ended for this pager thread.
    pub(super) fn collect(&mut self) {
        while let Some(record) = self.io.completions.take_record(self.step.pager) {
            if self.io.lockstep.is_held() {
                self.io.lockstep.hold_end(record);
            } else {
                self.transfers.ready.push_back(record);
            }
        }
        while let Some(end) = self.io.completions.take_file(self.step.pager) {
            self.file_ended(end);
        }
        while let Some(end) = self.io.completions.take_hole(self.step.pager) {
            self.holes_made(end);
        }
        while let Some(cooled) = self.io.completions.take_slots(self.step.pager) {
            self.slots_cooled(cooled);
        }
        while let Some(deferred) = self.io.completions.take_deferred(self.step.pager) {
            // Its frames are to be in the backing now, whose thread has not given them back itself.
            self.step.moved += deferred.frames;
            self.forget_deferred(&deferred);
        }
        let now = self.step.now;
        while let Some(record) = self.transfers.next_expected(self.step.pager, now) {
            match self.io.store.due(now, Slot::new(record)) {
                // Somebody more urgent has overtaken it.
                Due::At(later) if later > now => self.wait_until(later, record),
                _ => self.transfers.ready.push_back(record),
            }
        }
    }

    /// Ends a transfer of the store for which something was waiting.
    pub(super) fn finish(&mut self, record: u32) {
        if let Some(what) = self.transfers.leave(record) {
            self.finish_as(record, what);
        }
    }

    /// Ends a transfer of the store that is entered no more.
    pub(super) fn finish_as(&mut self, record: u32, what: Transfer) {
        let slot = Slot::new(record);
        let (page, request, done) = match what {
            Transfer::Fill { page } => (page, Request::Fill, self.finish_fill(page, slot)),
            Transfer::Evict { page, .. } => match self.finish_eviction(slot) {
                Ok(()) => return self.gone(page),
                Err(error) => (page, Request::Evict, Err(error)),
            },
            Transfer::Inherited { fork_child } => {
                let read = self.io.store.finish_read(slot).ok();
                self.read_for_fork_child(fork_child, read);
                if let Some((page, urgency)) = self.transfers.take_awaiting(record) {
                    self.begin_read(page, urgency);
                }
                return;
            }
        };
        let done = done.unwrap_or_else(|error| {
            self.notice(format!("the store: {error}"));
            // Nobody will read it, and others may wait for its frame.
            request == Request::Evict && self.is_left_behind(page)
        });
        self.end(page, request, if done { End::Done } else { End::Failed });
    }

    /// Takes what was read from the store to where it belongs; whether that went well.
    fn finish_fill(&mut self, page: PageRef, slot: Slot) -> Result<bool, StoreError> {
        if self.is_private(page) {
            let loan = self.io.store.finish_read(slot)?;
            let placed = self.place_private(page, loan.bytes());
            self.give_back(loan);
            return Ok(placed);
        }
        self.drop_left();
        let mut placed = false;
        let see = &mut |record: &Record| placed = self.place_shared(page, record);
        let loan = self.io.store.finish_look(slot, see)?;
        self.give_back(loan);
        Ok(placed)
    }

    fn finish_eviction(&mut self, slot: Slot) -> Result<(), StoreError> {
        let loan = self.finish_write(slot)?;
        self.give_back(loan);
        Ok(())
    }

    /// Puts content that was read where it belongs.
    pub(super) fn place(&mut self, page: PageRef, loan: &PageLease) -> bool {
        if self.is_private(page) {
            return self.place_private(page, loan.bytes());
        }
        self.drop_left();
        self.place_shared(page, loan.bytes())
    }

    fn place_shared(&self, page: PageRef, content: &Record) -> bool {
        let memory = self.object(page.object()).and_then(|object| object.memory());
        memory.is_some_and(|memory| {
            let fill = || memory.fill(page.page().get() as usize, content);
            self.with_headroom(fill).is_ok()
        })
    }

    /// A page is in its store now: its frame goes.
    fn gone(&mut self, page: PageRef) {
        if self.is_private(page) {
            self.set_private(page, Where::Nowhere);
            self.end(page, Request::Evict, End::Done);
        } else {
            self.drop_evicted(page);
        }
    }
}

pub(super) fn describe(errno: Errno) -> String {
    errno.to_string()
}
