//! What the core wants done, done.

use crate::engine::holes::Wanted;
use crate::engine::keys::ClientId;
use crate::engine::outbox::{About, Outstanding};
use crate::engine::rows::{Client, Content, Locking, SegmentAt, SegmentKind};
use crate::engine::{Engine, Zap};
use freehold_core::effect::{Effect, Holder, Resolution, Scope, Source, UnmapReason};
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::ReservationId;
use freehold_driver::{End, Ended, for_runs};
use freehold_linux::PageRange;
use freehold_protocol::channel::Action;

/// Pages that cannot leave of which the core is told together.
const TOLD: usize = 16;
/// Nanoseconds until it is told of more: less than a fifth of a CPU goes into it.
const APART: u64 = 200_000;

impl Engine {
    pub(super) fn carry_out(&mut self, effect: Effect) {
        self.record_effect(&effect);
        match effect {
            Effect::Map { task, .. } | Effect::Retry { task } | Effect::Fail { task, .. }
                if self.restorer_goes_on(task) => {}
            Effect::Map {
                page,
                protection,
                resolution: Resolution::Ahead,
                ..
            } => self.along.run.push((page.page().get(), protection)),
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
            Effect::Retry { task } => self.retry(task),
            Effect::Fail { task, failure } => self.fail(task, failure),
            Effect::Unmap { page, from, reason } => self.unmap_page(page, from, reason),
            Effect::Fill { page, source, urgent } => {
                let urgency = urgent.map_or(0, |task| self.urgency_of(task));
                self.fill(Wanted { page, source, urgency });
            }
            Effect::WriteBack { page, holder } => {
                if self.is_private(page) {
                    self.write_private(page, holder);
                } else if self.is_doomed(page.object()) {
                    self.drop_evicted(page);
                } else {
                    self.write_soon(page, holder);
                }
            }
            Effect::Discard { page, .. } => {
                if self.is_private(page) {
                    self.discard_private(page);
                } else {
                    self.drop_evicted(page);
                }
            }
            Effect::Locked { reservation } => self.lock_ended(reservation, Locking::Idle),
            Effect::LockFailed { reservation } => self.lock_ended(reservation, Locking::Failed),
            // Copy-on-write is the kernel's here; ownership is the core's book-keeping.
            // A program's budget is set by who asked for its pinned page pool.
            // No reservation of this engine has frames outside.
            Effect::Take { .. } | Effect::Transfer { .. } | Effect::SetBudget { .. } | Effect::Recall { .. } => {}
        }
    }

    fn lock_ended(&mut self, reservation: ReservationId, how: Locking) {
        if let Some(Some(row)) = self.reservations.get_mut(reservation.index()) {
            row.locking = how;
        }
    }

    /// A request of the core has ended; it is told later in this step.
    pub(super) fn end(&mut self, page: PageRef, request: Request, end: End) {
        self.ended.push_back(Ended { page, request, end });
    }

    /// A page cannot leave, and nobody was asked. The core hears of a few of these at a time: it may try every page of
    /// a holder, however many there are, and a step must stay short.
    pub(super) fn cannot_leave(&mut self, page: PageRef) {
        self.immovable.push_back(page);
        if !self.in_round {
            // Pager threads that sleep do not know of it.
            self.ends.ring(0);
        }
    }

    /// Tells the core of some pages that cannot leave.
    pub(super) fn tell_immovable(&mut self) {
        for _ in 0..TOLD {
            let Some(page) = self.immovable.pop_front() else { break };
            self.end(page, Request::Evict, End::Kept);
        }
        self.settle();
    }

    /// When to tell it of more, if there are any.
    pub(super) fn immovable_due(&self) -> Option<u64> {
        let more = !self.immovable.is_empty();
        more.then(|| self.now.get().saturating_add(APART))
    }

    pub(super) fn is_private(&self, page: PageRef) -> bool {
        let object = self.object(page.object());
        object.is_some_and(|object| matches!(object.content, Content::Private { .. }))
    }

    /// Brings a page; not before there is a hole where it was.
    pub(super) fn fill(&mut self, wanted: Wanted) {
        let Wanted { page, source, urgency } = wanted;
        if self.holes.puts_off(&wanted) {
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
        self.drop_frames();
        let at = PageRange::single(page.page().get() as usize);
        let memory = self.object(page.object()).and_then(|object| object.memory());
        let filled = memory.is_some_and(|memory| self.with_headroom(|| memory.populate(at)).is_ok());
        self.end(page, Request::Fill, if filled { End::Done } else { End::Failed });
    }

    fn unmap_page(&mut self, page: PageRef, from: Scope, reason: UnmapReason) {
        if self.is_private(page) {
            // What leaves for good is ordered with its eviction, which follows.
            if let Scope::Of(_) = from {
                self.demote_private(page);
            }
            return;
        }
        match from {
            Scope::Everyone => self.protect_everywhere(page),
            Scope::Of(holder) => self.zap_for(page, holder),
        }
        let _ = reason;
    }

    /// The page is about to be copied out, and then dropped: until then nobody may write it. In lockstep nobody may
    /// read it either: in the simulator it is unmapped.
    pub(super) fn protect_everywhere(&mut self, page: PageRef) {
        let mut leaving = std::mem::take(&mut self.leaving);
        let segments = self.object(page.object()).map_or(&[][..], |object| &object.segments);
        for &SegmentAt {
            client, start: segment, ..
        } in segments
        {
            let Some(found) = self.client(client).and_then(|client| client.space.get(&segment)) else {
                continue;
            };
            let Some(address) = address_in(segment, found.end, found.first, page) else {
                continue;
            };
            let mapping = Zap {
                client,
                segment,
                address,
            };
            if matches!(found.kind, SegmentKind::Shared { writable: true, .. }) {
                leaving.protects.push(mapping);
            }
            if self.pace.is_held() {
                leaving.zaps.push(mapping);
            }
        }
        self.leaving = leaving;
    }

    fn zap_for(&mut self, page: PageRef, holder: Holder) {
        let mut zaps = std::mem::take(&mut self.leaving.zaps);
        let segments = self.object(page.object()).map_or(&[][..], |object| &object.segments);
        for &SegmentAt { client: id, start, .. } in segments {
            let Some(segment) = self.client(id).and_then(|client| client.space.get(&start)) else {
                continue;
            };
            let Some(address) = address_in(start, segment.end, segment.first, page) else {
                continue;
            };
            let task = self.tasks.at(segment.task.index());
            let concerned = task.is_some_and(|task| match holder {
                Holder::Reservation(id) => task.reservation == Some(id),
                Holder::Pool => task.reservation.is_none(),
            });
            if concerned {
                zaps.push(Zap {
                    client: id,
                    segment: start,
                    address,
                });
            }
        }
        self.leaving.zaps = zaps;
    }

    /// Orders the zaps of this step, neighbouring pages together.
    pub(super) fn send_zaps(&mut self) {
        if self.leaving.zaps.is_empty() {
            return;
        }
        let mut zaps = std::mem::take(&mut self.leaving.zaps);
        zaps.sort_unstable();
        zaps.dedup();
        for_runs(&zaps, Zap::place, |first, run| {
            self.order_zap(first.client, first.address, u32::try_from(run).unwrap_or(u32::MAX));
        });
        zaps.clear();
        self.leaving.zaps = zaps;
    }

    pub(super) fn order_zap(&mut self, id: ClientId, address: u64, pages: u32) {
        let since = self.now;
        let obeys = |client: &&mut Client| client.has_agent() && !client.family.relinquished.has_text();
        if let Some(client) = self.client_mut(id).filter(obeys) {
            let about = About::Shared;
            let outstanding = Outstanding { about, address, since };
            client.outbox.order(Action::Zap, pages, outstanding);
            self.announce_later(id);
        }
    }

    /// The client's agent is woken at the end of the step.
    pub(super) fn announce_later(&mut self, id: ClientId) {
        self.watch_from_now();
        if !self.announce.contains(&id) {
            self.announce.push(id);
        }
    }
}

/// Where a page of an object is in a segment that shows a part of it.
pub(super) fn address_in(start: u64, end: u64, first: u32, page: PageRef) -> Option<u64> {
    let past = page.page().get().checked_sub(first)?;
    let address = start + u64::from(past) * crate::PAGE;
    (address < end).then_some(address)
}
