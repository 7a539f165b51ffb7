//! A step of the engine: what it has begun, and what is left to do before it ends.

use crate::engine::Engine;
use crate::engine::affinity::affinity_hold::AffinityHold;
use crate::engine::faults::FaultMessage;
use freehold_core::fact::{PageRef, Request};
use freehold_core::units::{Instant, PageCount};
use freehold_driver::{Batch, Completions, End, Ended};
use freehold_linux::clock;
use std::collections::VecDeque;

/// The step that is under way.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) now: Instant,
    /// The pager thread whose step this is; of the control thread, the first.
    pub(super) pager: usize,
    /// A pager thread has the engine, not the control thread.
    pub(super) in_dispatch: bool,
    /// A duty of the dispatch can be gone on with at once.
    pub(super) goes_on: bool,
    /// The thread whose fault is being served, held where it is.
    pub(super) held: Option<AffinityHold>,
    /// Pages that have come or gone in this step.
    pub(super) moved: usize,
    /// What the core wants done, drained and not carried out yet.
    pub(super) batch: Batch,
    pub(super) completions: Completions,
    /// Pages that cannot leave, of which the core has not been told.
    pub(super) immovable: VecDeque<PageRef>,
    /// Faults to be looked at again in this step.
    pub(super) again: VecDeque<FaultMessage>,
}

impl Default for Step {
    fn default() -> Self {
        Self {
            now: Instant::ZERO,
            pager: 0,
            in_dispatch: false,
            goes_on: false,
            held: None,
            moved: 0,
            batch: Batch::default(),
            completions: Completions::default(),
            immovable: VecDeque::new(),
            again: VecDeque::new(),
        }
    }
}

impl Engine {
    /// One step: what is done by it, and everything that follows from that.
    pub(super) fn step<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        self.begin();
        let done = work(self);
        self.settle();
        done
    }

    /// Begins a step: reads the clock once.
    pub(super) fn begin(&mut self) {
        self.step.now = Instant::new(clock::now().as_nanos());
        self.teardown.queue.begin();
        self.core.allow_locking(PageCount::ZERO);
    }

    /// Carries out everything that follows from what was told to the core, until nothing is left to do at once.
    pub(super) fn settle(&mut self) {
        self.tear_down_first();
        loop {
            self.drain();
            if let Some((record, what)) = self.transfers.next_ended() {
                self.finish_as(record, what);
            } else if let Some(record) = self.transfers.ready.pop_front() {
                self.finish(record);
            } else if let Some(ended) = self.step.completions.next_end() {
                self.tell(ended);
            } else if self.backing.eviction_batch.has_holes() {
                self.drop_left();
            } else if let Some(fault) = self.step.again.pop_front() {
                self.fault(fault);
            } else if let Some(fault) = self.next_deferred_fault() {
                self.fault(fault);
            } else if let Some(fault) = self.next_queued() {
                self.fault(fault);
            } else if let Some(near) = self.prefetcher.neighbours.pop() {
                self.take_neighbours(near);
            } else if let Some(id) = self.fork_children.zombies.pop() {
                self.end_client(id);
            } else if !self.teardown_step() && self.step.completions.is_empty() {
                break;
            }
        }
        self.drop_left();
        if self.backing.holes.is_hot() {
            self.cool_hot();
        }
        self.send_zaps();
        self.record_sample();
        self.wake_those_that_go();
        self.tell_backing();
        if self.clients.told != self.clients.count() {
            self.tell_of_room();
        }
        if !self.teardown.queue.is_empty() || self.core.wants_locking() {
            self.backing.locked.wake();
        }
        if std::mem::take(&mut self.io.submitted) {
            self.io.store.flush();
        }
        debug_assert_eq!(self.backing.holes.check(), Ok(()), "who waits for a hole is woken");
        if !self.step.in_dispatch {
            self.wake_for_due();
            self.end_step();
        }
        while let Some(id) = self.clients.announce.pop() {
            if let Some(client) = self.clients.get_mut(id.index(), id.generation()) {
                client.outbox.announce();
            }
        }
    }

    /// Notes how long the step took.
    pub(super) fn end_step(&mut self) {
        let took = clock::now().as_nanos().saturating_sub(self.step.now.get());
        self.journal.steps.record(took);
    }

    pub(super) fn tell(&mut self, ended: Ended) {
        self.step.moved += 1;
        self.record_end(ended);
        let Ended { page, request, end } = ended;
        if ended.tell(&mut self.core, self.step.now).is_err() {
            self.notice("the core refused the end of a request");
        }
        if request == Request::Fill {
            self.drop_if_forgotten(page);
            self.note_taken_in(page);
        }
        if end == End::Kept {
            self.lock_arrived(page.object(), page.page().get());
        }
    }
}
