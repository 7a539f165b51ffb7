//! What is still to come of a stream of new memory: with a fault comes what one step takes, the rest in steps that
//! follow while nobody asks for anything else. So nobody's fault waits for it longer than for one step; and where a
//! more urgent client runs on the same CPU, which the pager thread would keep it from, there are no such steps.

use crate::engine::Engine;
use crate::engine::clients::Client;
use crate::engine::keys::ClientId;
use crate::engine::prefetch::Neighbours;
use crate::engine::prefetch::streams::{MOST, Stretch, Way};
use crate::engine::spaces::Segment;
use freehold_core::Foresight;
use std::ops::Range;

/// No more of what a holder has free comes ahead of a stream than one in so many of its frames.
const SHARE: u32 = 16;

/// Pages that are to follow a fault, the nearest first.
#[derive(Clone, Debug)]
pub(super) struct DeferredPrefetch {
    near: Neighbours,
    pages: Range<u32>,
    way: Way,
}

impl DeferredPrefetch {
    /// The next pages that one step takes, and what is then left.
    fn split(self) -> (Range<u32>, Self) {
        let Range { start, end } = self.pages;
        let count = (end - start).min(u32::try_from(MOST).unwrap_or(u32::MAX));
        let (part, pages) = match self.way {
            Way::Up => (start..start + count, start + count..end),
            Way::Down => (end - count..end, start..end - count),
        };
        (part, Self { pages, ..self })
    }
}

impl Engine {
    /// Has pages follow a fault that is served now, as far as its holder has frames to spare. O(clients).
    pub(super) fn put_off(&mut self, near: &Neighbours, way: Way, stretch: Stretch) {
        if self.keeps_others(near.client) {
            return;
        }
        let pages = near.page_of(stretch.low).zip(near.page_of(stretch.high));
        let Some((start, end)) = pages.filter(|(start, end)| start < end) else {
            return;
        };
        let most = (end - start).min(self.free_for(near) / SHARE);
        let pages = match way {
            Way::Up => start..start + most,
            Way::Down => end - most..end,
        };
        let pager = self.step.pager;
        let near = *near;
        if let Some(rest) = self.prefetcher.deferred.get_mut(pager) {
            *rest = (most > 0).then_some(DeferredPrefetch { near, pages, way });
        }
    }

    /// Brings a part of what is to follow the last fault of a stream that this pager thread served.
    pub(in crate::engine) fn bring_deferred_prefetch(&mut self, pager: usize) {
        let Some(rest) = self.prefetcher.deferred.get_mut(pager).and_then(Option::take) else {
            return;
        };
        let (part, left) = rest.split();
        let near = left.near;
        if !self.may_follow(near.client) || !self.is_mapped(&near, &part) {
            return;
        }
        self.prefetcher.run.clear();
        if self.take_up(&near, part.clone(), Foresight::Guess).is_none() {
            return;
        }
        self.map_run(&near, true);
        let stretch = Stretch {
            low: near.address_of(part.start),
            high: near.address_of(part.end),
        };
        let all = self.are_mapped(&near, &part);
        if let Some(client) = self.client_mut(near.client).filter(|_| all) {
            client.prefetch.streams.goes_on(near.address, stretch);
            if let Some(rest) = self.prefetcher.deferred.get_mut(pager) {
                *rest = (!left.pages.is_empty()).then_some(left);
            }
        }
    }

    /// Whether something is still to follow that this pager thread is to bring.
    pub(in crate::engine) fn has_deferred_prefetch(&self, pager: usize) -> bool {
        self.prefetcher.deferred.get(pager).is_some_and(Option::is_some)
    }

    /// Whether the pager thread of a client serves a more urgent one too.
    fn keeps_others(&self, id: ClientId) -> bool {
        let Some(own) = self.client(id) else { return true };
        let more = |client: &Client| client.affinity.pager == own.affinity.pager && client.urgency > own.urgency;
        self.clients.iter().any(|(_, client)| more(client))
    }

    /// Whether faults of a client would be served now.
    fn may_follow(&self, id: ClientId) -> bool {
        let served = self.client(id).is_some_and(|client| {
            let family = &client.family;
            !family.gone && !client.standing.frozen && family.fork_children == 0 && family.fork_pending.is_over()
        });
        served && !self.waits_for_memory(id)
    }

    /// Whether pages are still mapped where they were.
    fn is_mapped(&self, near: &Neighbours, pages: &Range<u32>) -> bool {
        let address = near.address_of(pages.start);
        let same = |(start, segment): (u64, Segment)| {
            segment.mapping == near.mapping
                && segment.page_at(start, address) == pages.start
                && near.address_of(pages.end) <= segment.end
        };
        let client = self.client(near.client);
        client.and_then(|client| client.segment(address)).is_some_and(same)
    }

    /// Frames that the holder of a mapping has free.
    fn free_for(&self, near: &Neighbours) -> u32 {
        let segment = self.client(near.client).and_then(|client| client.segment(near.address));
        let task = segment.and_then(|(_, segment)| self.tasks.at(segment.task.index()));
        let reservation = task.and_then(|task| task.reservation);
        let lists = reservation.and_then(|reservation| self.core.reservation(reservation));
        lists.map_or(self.core.pool_free(), |lists| lists.free).get()
    }
}
