//! Where pages of shared objects are mapped, and mappings that a client's agent is ordered to drop.

use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::keys::{ClientId, TaskKey};
use crate::engine::orders::{About, Outstanding};
use crate::engine::spaces::SegmentKind;
use freehold_core::effect::Holder;
use freehold_driver::{Run, for_runs};
use freehold_protocol::channel::Action;

/// Mappings to be dropped by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) struct Zap {
    client: ClientId,
    /// Where the mapping begins: an order never reaches into another.
    segment: u64,
    address: u64,
}

impl Zap {
    /// Whose it is, and which page, for [`for_runs`].
    fn place(&self) -> ((ClientId, u64), u64) {
        ((self.client, self.segment), self.address / crate::PAGE)
    }
}

/// A part of a run of pages, where a client has it mapped.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Shown {
    pub(in crate::engine) client: ClientId,
    pub(super) task: TaskKey,
    pub(in crate::engine) writable: bool,
    /// Where the segment begins.
    segment: u64,
    /// Of its first page.
    pub(in crate::engine) address: u64,
    /// Its first page, of the object's.
    pub(in crate::engine) first: u32,
    pub(in crate::engine) pages: u32,
}

impl Shown {
    pub(in crate::engine) fn zaps(self) -> impl Iterator<Item = Zap> {
        let Self { client, segment, .. } = self;
        (0..self.pages).map(move |page| Zap {
            client,
            segment,
            address: self.address_of(page),
        })
    }

    /// Of the page that follows the first after so many.
    pub(in crate::engine) fn address_of(&self, page: u32) -> u64 {
        self.address + u64::from(page) * crate::PAGE
    }
}

impl Engine {
    /// Where pages of a shared object are mapped.
    pub(in crate::engine) fn shown(&self, run: Run) -> impl Iterator<Item = Shown> {
        let first = run.first.page().get();
        let past = first.saturating_add(u32::try_from(run.count).unwrap_or(u32::MAX));
        let segments = self
            .object(run.first.object())
            .map_or(&[][..], |object| &object.segments);
        segments.iter().filter_map(move |at| {
            let segment = self.client(at.client)?.space.get(&at.start)?;
            let end = segment.page_at(at.start, segment.end);
            let (from, to) = (first.max(segment.first), past.min(end));
            (from < to).then(|| Shown {
                client: at.client,
                task: segment.task,
                writable: matches!(segment.kind, SegmentKind::Shared { writable: true, .. }),
                segment: at.start,
                address: at.start + u64::from(from - segment.first) * crate::PAGE,
                first: from,
                pages: to - from,
            })
        })
    }

    /// Has the tasks of a holder drop their mappings of some pages, at the end of the step.
    pub(in crate::engine) fn zap_for(&mut self, run: Run, holder: Holder) {
        let mut zaps = std::mem::take(&mut self.backing.eviction_batch.zaps);
        let concerned = |shown: &Shown| {
            let task = self.tasks.at(shown.task.index());
            task.is_some_and(|task| match holder {
                Holder::Reservation(id) => task.reservation == Some(id),
                Holder::Pool => task.reservation.is_none(),
            })
        };
        zaps.extend(self.shown(run).filter(concerned).flat_map(Shown::zaps));
        self.backing.eviction_batch.zaps = zaps;
    }

    /// A page is mapped for a client: what was to be dropped there in this step has gone before. A page may be demoted,
    /// evicted and filled again in one step, for the fault that wanted a frame.
    pub(in crate::engine) fn keep_mapped(&mut self, id: ClientId, address: u64) {
        let zaps = &mut self.backing.eviction_batch.zaps;
        zaps.retain(|zap| (zap.client, zap.address) != (id, address));
    }

    /// Orders the zaps of this step, neighbouring pages together.
    pub(in crate::engine) fn send_zaps(&mut self) {
        if self.backing.eviction_batch.zaps.is_empty() {
            return;
        }
        let mut zaps = std::mem::take(&mut self.backing.eviction_batch.zaps);
        zaps.sort_unstable();
        zaps.dedup();
        for_runs(&zaps, Zap::place, |first, run| {
            self.order_zap(first.client, first.address, u32::try_from(run).unwrap_or(u32::MAX));
        });
        zaps.clear();
        self.backing.eviction_batch.zaps = zaps;
    }

    pub(in crate::engine) fn order_zap(&mut self, id: ClientId, address: u64, pages: u32) {
        let since = self.step.now;
        let obeys = |client: &&mut Client| client.has_agent() && !client.family.relinquished.has_text();
        if let Some(client) = self.client_mut(id).filter(obeys) {
            let about = About::Shared;
            let outstanding = Outstanding { about, address, since };
            client.outbox.order(Action::Zap, pages, outstanding);
            self.announce_later(id);
        }
    }

    /// The client's agent is woken at the end of the step.
    pub(in crate::engine) fn announce_later(&mut self, id: ClientId) {
        self.watch_from_now();
        if !self.clients.announce.contains(&id) {
            self.clients.announce.push(id);
        }
    }
}
