//! What the core wants done, done. Which when, and what together, is the driver's business
//! (`freehold_driver::Batch`): it is the same in every engine.

use crate::engine::Engine;
use crate::engine::reservations::Locking;
use crate::engine::teardown::holes::Wanted;
use freehold_core::effect::{Effect, Holder, Resolution, Scope, Source};
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::{ReservationId, TaskId};
use freehold_driver::{Backend, Batch, Completions, End, Run};
use freehold_linux::PageRange;

/// Pages that cannot leave of which the core is told together.
const TOLD: usize = 16;
/// Nanoseconds until it is told of more: less than a fifth of a CPU goes into it.
const APART: u64 = 200_000;

/// What the engine carries effects out with.
struct Hands<'a>(&'a mut Engine);

impl Backend for Hands<'_> {
    fn completions(&mut self) -> &mut Completions {
        &mut self.0.step.completions
    }

    fn decided(&mut self, effect: &Effect) {
        self.0.decided(effect);
    }

    fn begin(&mut self, writes: &mut dyn Iterator<Item = PageRef>) {
        self.0.prepare_writes(writes);
    }

    fn unmap(&mut self, run: Run, from: Scope) {
        match from {
            // Only its client takes it out of its page table, and has been ordered to.
            _ if self.0.is_private(run.first) => {}
            Scope::Everyone => self.0.protect_everywhere(run),
            Scope::Of(holder) => self.0.zap_for(run, holder),
        }
    }

    fn fill(&mut self, page: PageRef, source: Source, urgent: Option<TaskId>) -> Option<End> {
        let urgency = urgent.map_or(0, |task| self.0.urgency_of(task));
        self.0.fill(Wanted { page, source, urgency });
        None
    }

    fn write(&mut self, page: PageRef, holder: Holder) -> Option<End> {
        if self.0.is_private(page) {
            self.0.write_private(page, holder);
        } else {
            self.0.write_protected(page, holder);
        }
        None
    }

    fn offer(&mut self, page: PageRef) -> bool {
        if self.0.is_private(page) {
            self.0.discard_private(page);
            return true;
        }
        self.0.offer_in_order(page);
        self.0.leaves_a_hole(page)
    }

    fn drop_run(&mut self, run: Run) {
        self.0.drop_frames(run);
    }

    /// Copy-on-write is the kernel's here.
    fn take(&mut self, _from: PageRef, _to: PageRef) {}
}

impl Engine {
    /// Carries out what the core wants now, so that another command can be given.
    pub(in crate::engine) fn drain(&mut self) {
        self.with_batch(|batch, hands| {
            batch.drain(hands, |hands| hands.0.core.poll_effect());
            batch.carry_out(hands);
        });
    }

    /// Drops the frames of pages that have left, and has holes made where that takes time.
    pub(in crate::engine) fn drop_left(&mut self) {
        self.make_holes_left();
        self.with_batch(|batch, hands| batch.drop_left(hands));
    }

    /// A page has been copied out, or nobody wants what it held: its frame goes, for everybody, and the core is told.
    pub(super) fn drop_evicted(&mut self, page: PageRef) {
        if !self.leaves_a_hole(page) {
            self.step.batch.has_left(page);
            self.end(page, Request::Evict, End::Done);
        }
    }

    /// Does something with the batch. What is carried out in it finds an empty one in its place, and never drains the
    /// core.
    fn with_batch(&mut self, work: impl FnOnce(&mut Batch, &mut Hands<'_>)) {
        let mut batch = std::mem::take(&mut self.step.batch);
        work(&mut batch, &mut Hands(self));
        self.step.batch = batch;
    }

    fn decided(&mut self, effect: &Effect) {
        self.record_effect(effect);
        match *effect {
            Effect::Map { task, .. } | Effect::Retry { task } | Effect::Fail { task, .. }
                if self.restorer_goes_on(task) => {}
            Effect::Map {
                page,
                protection,
                resolution: Resolution::Ahead,
                ..
            } => self.prefetcher.run.push((page.page().get(), protection)),
            Effect::Map {
                task,
                mapping,
                page,
                protection,
                resolution,
            } => {
                self.map_page(task, page, protection);
                self.consider_neighbours(mapping, page, resolution);
            }
            // What leaves for good is ordered with its eviction, which follows.
            Effect::Unmap {
                page,
                from: Scope::Of(_),
                ..
            } if self.is_private(page) => self.demote_private(page),
            Effect::Retry { task } => self.retry(task),
            Effect::Fail { task, failure } => self.fail(task, failure),
            Effect::Locked { reservation } => self.lock_ended(reservation, Locking::Idle),
            Effect::LockFailed { reservation } => self.lock_ended(reservation, Locking::Failed),
            // Carried out with the batch.
            Effect::Unmap { .. }
            | Effect::Fill { .. }
            | Effect::WriteBack { .. }
            | Effect::Discard { .. }
            | Effect::Take { .. } => {}
            // Ownership is the core's book-keeping, and no reservation of this engine has frames outside.
            Effect::Transfer { .. } | Effect::Recall { .. } => {}
        }
    }

    fn lock_ended(&mut self, reservation: ReservationId, how: Locking) {
        if let Some(Some(row)) = self.reservations.get_mut(reservation.index()) {
            row.locking = how;
        }
    }

    /// A request of the core has ended; it is told later in this step.
    pub(in crate::engine) fn end(&mut self, page: PageRef, request: Request, end: End) {
        self.step.completions.end(page, request, end);
    }

    /// A page cannot leave, and nobody was asked. The core hears of a few of these at a time: it may try every page of
    /// a holder, however many there are, and a step must stay short.
    pub(in crate::engine) fn cannot_leave(&mut self, page: PageRef) {
        self.step.immovable.push_back(page);
    }

    /// Tells the core of some pages that cannot leave.
    pub(in crate::engine) fn tell_immovable(&mut self) {
        for _ in 0..TOLD {
            let Some(page) = self.step.immovable.pop_front() else {
                break;
            };
            self.end(page, Request::Evict, End::Kept);
        }
        self.settle();
    }

    /// When to tell it of more, if there are any.
    pub(in crate::engine) fn immovable_due(&self) -> Option<u64> {
        let more = !self.step.immovable.is_empty();
        more.then(|| self.step.now.get().saturating_add(APART))
    }

    pub(in crate::engine) fn is_private(&self, page: PageRef) -> bool {
        self.has_private(page.object())
    }

    /// Brings a page; not before there is a hole where it was.
    pub(in crate::engine) fn fill(&mut self, wanted: Wanted) {
        let Wanted { page, source, urgency } = wanted;
        if self.take_in_lent(page) {
            self.end(page, Request::Fill, End::Done);
            return;
        }
        if self.backing.holes.puts_off(&wanted) {
            return;
        }
        match source {
            Source::Zero => self.fill_zero(page),
            Source::Store => self.begin_read(page, urgency),
            Source::CopyOf(_) => self.end(page, Request::Fill, End::Failed),
        }
    }

    fn fill_zero(&mut self, page: PageRef) {
        if self.is_private(page) {
            self.blank(page);
            self.end(page, Request::Fill, End::Done);
            return;
        }
        self.make_holes_left();
        let at = PageRange::single(page.page().get() as usize);
        let memory = self.object(page.object()).and_then(|object| object.memory());
        let filled = memory.is_some_and(|memory| self.with_headroom(|| memory.populate(at)).is_ok());
        self.end(page, Request::Fill, if filled { End::Done } else { End::Failed });
    }
}
