//! Address spaces of clients: what is announced, what is found by faults, and what the kernel tells of changes.

pub(super) mod apart;
pub(super) mod forsaken;
mod segment;

use crate::engine::Engine;
use crate::engine::faults::Which;
use crate::engine::keys::{ClientId, MapKey, MapRequest};
use crate::engine::objects::SegmentAt;
use crate::engine::private_memory::booked::GRANULE;
use crate::error::EngineError;
pub(crate) use segment::{Segment, SegmentKind};
use std::ops::Range;

/// The first address past what a program can have.
const HIGHEST: u64 = 1 << 56;
/// Segments of one client, at most.
pub(super) const MOST_SEGMENTS: usize = 131_072;

impl Engine {
    /// A client has mapped and registered an object, or a part of it.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`], [`EngineError::NoSuchObject`], [`EngineError::Range`], [`EngineError::Overlap`],
    /// [`EngineError::Limit`], [`EngineError::Create`].
    pub fn map(&mut self, client: ClientId, request: &MapRequest) -> Result<MapKey, EngineError> {
        self.step(|engine| {
            let key = engine.map_segment(client, request);
            if key.is_ok()
                && let Some(client) = engine.client_mut(client)
            {
                let parked = std::mem::take(&mut client.waiting.parked);
                engine.step.again.extend(parked);
            }
            key
        })
    }

    fn map_segment(&mut self, id: ClientId, request: &MapRequest) -> Result<MapKey, EngineError> {
        self.task(id, request.task)?;
        let object = self.object(request.object).ok_or(EngineError::NoSuchObject)?;
        let (first, count) = (request.range.first.get(), request.range.count.get());
        let inside = first
            .checked_add(count)
            .is_some_and(|end| count > 0 && end <= object.pages);
        let end = request.address.checked_add(u64::from(count) * crate::PAGE);
        let end = end.filter(|end| *end <= HIGHEST && request.address.is_multiple_of(crate::PAGE) && inside);
        let end = end.ok_or(EngineError::Range { what: "object" })?;
        // What is known of private memory there has been replaced, though the kernel has not told of it yet.
        self.carve_private(id, request.address, end);
        let client = self.client(id).ok_or(EngineError::NoSuchClient)?;
        if client.space.len() >= MOST_SEGMENTS {
            return Err(EngineError::Limit {
                what: "mappings of a client",
            });
        }
        let before = client.space.range(..end).next_back();
        if before.is_some_and(|(_, segment)| segment.end > request.address) {
            return Err(EngineError::Overlap);
        }
        let mapping = self.use_object(request.task, request.object)?;
        let key = self.tasks.next_map_key();
        let kind = SegmentKind::Shared {
            key,
            writable: request.writable,
        };
        let segment = Segment {
            end,
            object: request.object,
            first,
            task: request.task,
            mapping,
            kind,
        };
        self.enter_segment(id, request.address, segment);
        self.note_program(id, request.object, request.address);
        Ok(key)
    }

    pub(super) fn enter_segment(&mut self, id: ClientId, start: u64, segment: Segment) {
        if let Some(client) = self.client_mut(id) {
            client.space.insert(start, segment);
        }
        if let Some(object) = self.object_mut(segment.object) {
            object.segments.push(SegmentAt {
                client: id,
                start,
                first: segment.first,
            });
        }
    }

    /// A client has unmapped.
    ///
    /// # Errors
    /// [`EngineError::NoSuchMapping`].
    pub fn unmap(&mut self, client: ClientId, mapping: MapKey) -> Result<(), EngineError> {
        self.step(|engine| {
            let row = engine.client(client).ok_or(EngineError::NoSuchClient)?;
            let named = |segment: &Segment| matches!(segment.kind, SegmentKind::Shared { key, .. } if key == mapping);
            let found = row.space.iter().filter(|(_, segment)| named(segment));
            let found: Vec<(u64, u64)> = found.map(|(start, segment)| (*start, segment.end)).collect();
            if found.is_empty() {
                return Err(EngineError::NoSuchMapping);
            }
            for (start, end) in found {
                engine.carve(client, start, end);
            }
            Ok(())
        })
    }

    /// The segments that have something of a range.
    pub(super) fn overlapping(&self, id: ClientId, start: u64, end: u64) -> Vec<(u64, Segment)> {
        let Some(client) = self.client(id) else {
            return Vec::new();
        };
        let before = client
            .space
            .range(..=start)
            .next_back()
            .map_or(start, |(first, _)| *first);
        let all = client.space.range(before..end.max(before));
        all.filter(|(_, segment)| segment.end > start)
            .map(|(start, segment)| (*start, *segment))
            .collect()
    }

    fn has_segment(&self, id: ClientId, start: u64) -> bool {
        self.client(id).is_some_and(|client| client.space.contains_key(&start))
    }

    /// Forgets what is known of private memory in a range of addresses.
    pub(super) fn carve_private(&mut self, id: ClientId, start: u64, end: u64) {
        self.carve_those(id, start, end, |kind| kind == SegmentKind::Private);
    }

    /// Forgets what is known of a range of addresses.
    pub(super) fn carve(&mut self, id: ClientId, start: u64, end: u64) {
        self.carve_those(id, start, end, |_| true);
    }

    fn carve_those(&mut self, id: ClientId, start: u64, end: u64, those: fn(SegmentKind) -> bool) {
        let mut found = self.overlapping(id, start, end);
        found.retain(|(_, segment)| those(segment.kind));
        self.give_up_whole(id, start..end, &found);
        for (first, segment) in found {
            // It may have gone with others of its object.
            if self.has_segment(id, first) {
                self.cut(id, first, segment, start, end);
            }
        }
    }

    /// Gives up the private objects of some segments that a range of addresses takes whole.
    fn give_up_whole(&mut self, id: ClientId, range: Range<u64>, found: &[(u64, Segment)]) {
        let mut last = None;
        for (_, segment) in found.iter().filter(|(_, row)| row.kind == SegmentKind::Private) {
            if last.replace(segment.object) != Some(segment.object) {
                self.give_up(id, range.clone(), segment);
            }
        }
    }

    /// Takes a range out of one segment, which is there.
    fn cut(&mut self, id: ClientId, first: u64, segment: Segment, start: u64, end: u64) {
        let (from, to) = (start.max(first), end.min(segment.end));
        if segment.kind != SegmentKind::Private {
            self.split(id, first, segment, from, to);
            self.forget_if_unused(segment.object);
            return;
        }
        let pages = segment.page_at(first, from)..segment.page_at(first, to);
        let put_off = self.give_up_pages(id, &segment, pages.clone());
        if !put_off {
            self.forget_private(segment.object, pages.start, pages.end - pages.start);
        }
        self.split(id, first, segment, from, to);
        if self
            .object(segment.object)
            .is_some_and(|object| object.segments.is_empty())
        {
            self.doom(segment.object);
        } else if !put_off {
            self.unbook(id, segment.object, pages);
        }
    }

    /// Replaces a segment by what is left of it outside `from .. to`.
    fn split(&mut self, id: ClientId, first: u64, segment: Segment, from: u64, to: u64) {
        if let Some(client) = self.client_mut(id) {
            client.space.remove(&first);
        }
        if let Some(object) = self.object_mut(segment.object) {
            object.segments.retain(|at| (at.client, at.start) != (id, first));
        }
        let left = (first < from).then_some((first, Segment { end: from, ..segment }));
        let right = (to < segment.end).then(|| {
            let page = segment.page_at(first, to);
            (to, Segment { first: page, ..segment })
        });
        for (start, piece) in [left, right].into_iter().flatten() {
            // One more use of a mapping that is there cannot be refused.
            let _ = self.use_object(segment.task, segment.object);
            self.enter_segment(id, start, piece);
        }
        self.disuse_object(segment.task, segment.object);
    }

    /// The kernel tells that a range is unmapped.
    pub(super) fn unmapped(&mut self, id: ClientId, which: Which, start: u64, end: u64) {
        self.unlock_range(id, start, end);
        if which == Which::Private {
            self.cut_inherited(id, start, end);
            self.cut_fork_copies(id, start, end);
            self.lose_streams(id, start, end);
            if let Some(client) = self.client_mut(id) {
                client.family.withheld.cut((start, end));
            }
        }
        // What has taken its place may be of the other kind, and announced already.
        match which {
            Which::Private => self.carve_private(id, start, end),
            Which::Shared => self.carve_those(id, start, end, |kind| kind != SegmentKind::Private),
        }
    }

    /// The kernel tells that pages of private memory are dropped.
    pub(super) fn removed(&mut self, id: ClientId, start: u64, end: u64) {
        if self
            .client_mut(id)
            .is_some_and(|client| client.outbox.note_dropped(start, end))
        {
            return;
        }
        self.cut_fork_copies(id, start, end);
        self.lose_streams(id, start, end);
        let mut found = self.overlapping(id, start, end);
        found.retain(|(_, segment)| segment.kind == SegmentKind::Private);
        self.give_up_whole(id, start..end, &found);
        for (first, segment) in found {
            if self.has_segment(id, first) {
                self.empty(id, first, segment, start..end);
            }
        }
    }

    /// Pages of a segment are dropped. Whole granules are no longer booked: what is touched there next is booked anew.
    fn empty(&mut self, id: ClientId, first: u64, segment: Segment, dropped: Range<u64>) {
        let (from, to) = (dropped.start.max(first), dropped.end.min(segment.end));
        let granule = u64::from(GRANULE) * crate::PAGE;
        let (low, high) = (from.next_multiple_of(granule), to - to % granule);
        let (low, high) = (
            if from == first { from } else { low },
            if to == segment.end { to } else { high },
        );
        let few = self.client(id).is_some_and(|client| client.space.len() < MOST_SEGMENTS);
        let (low, high) = if low < high && few { (low, high) } else { (to, to) };
        for (start, end) in [(from, low), (high, to)] {
            let pages = segment.page_at(first, start)..segment.page_at(first, end);
            if !pages.is_empty() {
                self.forget_private(segment.object, pages.start, pages.end - pages.start);
            }
        }
        if low < high {
            self.cut(id, first, segment, low, high);
        }
    }

    /// The kernel tells that a range has moved, with its pages.
    pub(super) fn moved(&mut self, id: ClientId, from: u64, to: u64, length: u64) {
        let (Some(end), Some(_)) = (from.checked_add(length), to.checked_add(length)) else {
            return;
        };
        self.move_locks(id, from, to, length);
        self.carve(id, to, to + length);
        for (first, segment) in self.overlapping(id, from, end) {
            let (start, stop) = (from.max(first), end.min(segment.end));
            // The piece that moves is used before the rest is split, so that its mapping stays.
            let _ = self.use_object(segment.task, segment.object);
            self.split(id, first, segment, start, stop);
            let piece = Segment {
                end: to + (stop - from),
                first: segment.page_at(first, start),
                ..segment
            };
            self.enter_segment(id, to + (start - from), piece);
        }
        self.cut_inherited(id, to, to + length);
        let moved = self.cut_inherited(id, from, end);
        self.cut_fork_copies(id, to, to + length);
        if let Some(client) = self.client_mut(id) {
            client.family.fork_pending.shift(from, end, to);
            client.family.withheld.shift((from, end), to);
            let elsewhere = moved
                .into_iter()
                .map(|(start, end)| (start - from + to, end - from + to));
            client.family.inherited.extend(elsewhere);
        }
        self.moved_faults(id, from, to, length);
    }

    /// What wait slots wait for is elsewhere now.
    fn moved_faults(&mut self, id: ClientId, from: u64, to: u64, length: u64) {
        for (_, task) in self.tasks.iter_mut().filter(|(_, task)| task.client == id) {
            for pending in task
                .wait_slots
                .iter_mut()
                .filter_map(|wait_slot| wait_slot.pending.as_mut())
            {
                let past = pending.fault.address.wrapping_sub(from);
                if past < length {
                    pending.fault.address = to + past;
                }
            }
        }
    }
}
