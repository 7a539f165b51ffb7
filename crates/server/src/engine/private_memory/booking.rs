//! Booking: which page of which object an address of a program's private memory is.
//!
//! A program may touch little of much: a page in each of thousands of mappings, or one here and there in a terabyte. So
//! objects are pools of up to 1024 pages, and where a program touches what is not booked yet, a *run* of pages of one
//! of its objects is booked for the addresses around: as many as come along with the fault, and else a quarter of what
//! is in use within 4 MiB, at least a granule. So dense memory is soon booked 4 MiB at a time, and scattered touches
//! take a granule each. As the tables fill, a granule becomes a single page.
//!
//! Nothing that a reservation evicts depends on what its pages are booked as (law 0).

use crate::engine::Engine;
use crate::engine::faults::FaultMessage;
use crate::engine::faults::shortages::shortage_of;
use crate::engine::keys::{ClientId, ClientRole, TaskKey};
use crate::engine::objects::Content;
use crate::engine::prefetch::Stretch;
use crate::engine::private_memory::Where;
use crate::engine::private_memory::booked::{Booked, GRANULE, LARGEST};
use crate::engine::spaces::MOST_SEGMENTS;
use crate::engine::spaces::{Segment, SegmentKind};
use crate::engine::tasks::Pending;
use crate::error::EngineError;
use freehold_core::id::ObjectId;
use freehold_core::limits::{ObjectKind, Regime};
use freehold_core::units::{PageCount, PageIndex};
use freehold_core::view::PageState;
use std::ops::Range;

/// No run reaches over a multiple of so many bytes.
const CHUNK: u64 = LARGEST as u64 * crate::PAGE;
/// What a client has no more of, in a refusal.
pub(in crate::engine) const OF_A_CLIENT: &str = "mappings of a client";
/// Pages of a client's first private object.
const LEAST: u32 = 128;
/// Objects with room that are looked at before a new one is made.
const LOOKED_AT: usize = 64;
/// Segments on either side of a fault that are looked at to see how dense memory is there, and pages of all of them.
const NEAR: usize = 64;
const SAMPLES: u32 = 256;
/// Pages in use within 4 MiB of a fault from which on memory counts as dense.
const DENSE: u32 = LARGEST * 3 / 4;
/// Holders of whose frames no more than one in so many is free are short of them: nothing comes along with a fault.
const SPARE: u32 = 4;

/// What one client's private memory takes of the tables.
#[derive(Debug, Default)]
pub(crate) struct Bookings {
    /// Objects.
    pub(super) objects: u32,
    /// Pages of these objects.
    pub(in crate::engine) pages: u32,
    /// Objects that may have free pages, the last made or left last.
    open: Vec<ObjectId>,
}

impl Bookings {
    /// There may be free pages in an object: it is the first that is looked at. Others than the last ones are not, so
    /// what stayed where it was would be forgotten, and the table fill with objects that hold little.
    fn open(&mut self, object: ObjectId) {
        if self.open.last() != Some(&object) {
            self.close(object);
            self.open.push(object);
        }
    }

    /// An object is gone, or full.
    pub(super) fn close(&mut self, object: ObjectId) {
        self.open.retain(|other| *other != object);
    }

    /// Checks that no object is kept that is gone.
    pub(in crate::engine) fn check(&self) -> Result<(), String> {
        if self.open.len() <= self.objects as usize {
            return Ok(());
        }
        let (open, objects) = (self.open.len(), self.objects);
        Err(format!("{open} objects may have room, but there are {objects}"))
    }
}

impl Engine {
    /// Private memory has been touched where nothing was known: from now on it is known. `None` where that cannot be:
    /// the thread gets an error, or waits for the client's first task.
    pub(in crate::engine) fn book(&mut self, fault: &FaultMessage) -> Option<(u64, Segment)> {
        let task = *self.client(fault.client)?.tasks.first()?;
        let address = fault.address & !(crate::PAGE - 1);
        let mut wanted = self.wanted(fault.client, task, address)?;
        loop {
            match self.book_range(fault.client, task, wanted) {
                Ok(found) => return Some(found),
                Err(error) => match half_around(wanted, address) {
                    Some(less) => wanted = less,
                    None => {
                        self.cannot_give(fault, shortage_of(&error));
                        return None;
                    }
                },
            }
        }
    }

    /// What is to be booked for a fault.
    fn wanted(&self, id: ClientId, task: TaskKey, address: u64) -> Option<Stretch> {
        let client = self.client(id)?;
        let low = address & !(CHUNK - 1);
        let gap = Stretch { low, high: low + CHUNK };
        let before = client.space.range(..=address).next_back();
        let gap = before.map_or(gap, |(_, row)| Stretch {
            low: gap.low.max(row.end),
            ..gap
        });
        let after = client.space.range(address..).next();
        let gap = after.map_or(gap, |(start, _)| Stretch {
            high: gap.high.min(*start),
            ..gap
        });
        let gap = beside(gap, &client.family.inherited, address);
        let granule = self.granule(id);
        let along = granule > 1 && client.process.role == ClientRole::Program && self.has_frames_to_spare(task);
        let run = if along || granule < GRANULE {
            granule
        } else {
            match self.used_near(id, address) {
                DENSE.. => LARGEST,
                used => (used / 4).clamp(GRANULE, LARGEST),
            }
        };
        let run = (1_u64 << run.ilog2()) * crate::PAGE;
        let low = address & !(run - 1);
        let run = Stretch { low, high: low + run };
        // No more than comes along: at the end of a run the next fault brings less.
        let wanted = if along {
            run.with(client.prefetch.streams.demand(address))
        } else {
            run
        };
        Some(Stretch {
            low: wanted.low.max(gap.low),
            high: wanted.high.min(gap.high),
        })
    }

    /// Pages that are booked together at least: fewer as the tables fill.
    fn granule(&self, id: ClientId) -> u32 {
        let (left, all) = self.pages_left(id);
        match left.saturating_mul(4).checked_div(all) {
            Some(2..) => GRANULE,
            Some(1) => GRANULE / 4,
            _ => 1,
        }
    }

    /// About how many pages are in use within 4 MiB of an address. O(log segments).
    fn used_near(&self, id: ClientId, address: u64) -> u32 {
        let Some(client) = self.client(id) else { return 0 };
        let (low, high) = (address.saturating_sub(CHUNK), address.saturating_add(CHUNK));
        let before = client.space.range(..address).rev().take(NEAR);
        let after = client.space.range(address..high).take(NEAR);
        let private = before.chain(after).filter(|(_, row)| row.kind == SegmentKind::Private);
        let near = private.filter_map(|(start, row)| {
            let (from, to) = (low.max(*start), high.min(row.end));
            (from < to).then(|| (row.object, row.page_at(*start, from)..row.page_at(*start, to)))
        });
        let near: Vec<(ObjectId, Range<u32>)> = near.collect();
        let booked: u32 = near.iter().map(|(_, pages)| pages.end - pages.start).sum();
        let step = booked.div_ceil(SAMPLES).max(1);
        let pages = near
            .into_iter()
            .flat_map(|(object, pages)| pages.map(move |page| (object, page)));
        let used = pages
            .step_by(step as usize)
            .filter(|(object, page)| self.is_in_use(*object, *page));
        u32::try_from(used.count()).unwrap_or(u32::MAX).saturating_mul(step)
    }

    fn is_in_use(&self, object: ObjectId, page: u32) -> bool {
        let state = self.core.page(object, PageIndex::new(page)).map(|view| view.state);
        state.is_some_and(|state| state != PageState::Empty)
    }

    /// Whether neighbours of a fault may come along with it.
    fn has_frames_to_spare(&self, task: TaskKey) -> bool {
        let reservation = self.tasks.at(task.index()).and_then(|task| task.reservation);
        let (free, all) = match reservation.and_then(|id| self.core.reservation(id)) {
            Some(lists) => (lists.free, lists.capacity),
            None => (self.core.pool_free(), self.clients.user_limits.frames),
        };
        free.get() > all.get() / SPARE
    }

    /// Books pages for a range of addresses about which nothing is known.
    fn book_range(&mut self, id: ClientId, task: TaskKey, wanted: Stretch) -> Result<(u64, Segment), EngineError> {
        if let Some(found) = self.extend(id, task, wanted) {
            return Ok(found);
        }
        let missing = || EngineError::NoSuchClient;
        if self.client(id).ok_or_else(missing)?.space.len() >= MOST_SEGMENTS {
            return Err(EngineError::Limit { what: OF_A_CLIENT });
        }
        let count = pages_of(wanted);
        let residue = u32::try_from(wanted.low / crate::PAGE % u64::from(GRANULE)).unwrap_or(0);
        let (object, first) = match self.find_pages(id, task, count, residue) {
            Some(found) => found,
            None => (self.make_private(id, count, residue)?, residue),
        };
        let mapping = self
            .use_object(task, object)
            .inspect_err(|_| self.doom_if_unused(object))?;
        self.mark(object, |booked| booked.book(first..first + count));
        let segment = Segment {
            end: wanted.high,
            object,
            first,
            task,
            mapping,
            kind: SegmentKind::Private,
        };
        self.enter_segment(id, wanted.low, segment);
        Ok((wanted.low, segment))
    }

    /// Makes the segment that ends where a range begins reach over it, if the pages behind its own are free.
    fn extend(&mut self, id: ClientId, task: TaskKey, wanted: Stretch) -> Option<(u64, Segment)> {
        let (&start, &segment) = self.client(id)?.space.range(..wanted.low).next_back()?;
        let fits = segment.kind == SegmentKind::Private && segment.task == task && segment.end == wanted.low;
        let first = fits.then(|| segment.page_at(start, segment.end))?;
        let pages = first..first + pages_of(wanted);
        self.refresh(segment.object);
        if !self.booked(segment.object)?.is_free(pages.clone()) {
            return None;
        }
        self.mark(segment.object, |booked| booked.book(pages));
        let row = self.client_mut(id)?.space.get_mut(&start)?;
        row.end = wanted.high;
        Some((start, *row))
    }

    /// Free pages of one of the client's objects, one behind the other.
    fn find_pages(&mut self, id: ClientId, task: TaskKey, count: u32, residue: u32) -> Option<(ObjectId, u32)> {
        let open = &self.client(id)?.memory.bookings.open;
        let candidates: Vec<ObjectId> = open.iter().rev().take(LOOKED_AT).copied().collect();
        for object in candidates {
            self.refresh(object);
            let row = self.object(object);
            let of_use = row.filter(|row| row.doomed.is_none() && !row.segments.is_empty());
            let booked = of_use.and_then(|row| row.booked()).filter(|booked| booked.has_room());
            let Some(booked) = booked else {
                if let Some(client) = self.client_mut(id) {
                    client.memory.bookings.close(object);
                }
                continue;
            };
            let first = booked.find(count, residue);
            if let Some(first) = first.filter(|_| self.is_used_by(object, task)) {
                return Some((object, first));
            }
        }
        None
    }

    fn is_used_by(&self, object: ObjectId, task: TaskKey) -> bool {
        let task = self.tasks.get(task.index(), task.generation());
        task.is_some_and(|task| task.mappings.contains_key(&object))
    }

    /// A private object for a run of so many pages, and others. The more the client has, the larger.
    fn make_private(&mut self, id: ClientId, count: u32, residue: u32) -> Result<ObjectId, EngineError> {
        let least = count + residue;
        let has = self.client(id).map_or(0, |client| client.memory.bookings.pages);
        let made = self.make_private_of(id, least.max(has.clamp(LEAST, LARGEST)));
        let made = made.or_else(|_| self.make_private_of(id, least));
        let object = made?;
        if let Some(client) = self.client_mut(id) {
            client.memory.bookings.open(object);
        }
        Ok(object)
    }

    fn make_private_of(&mut self, id: ClientId, pages: u32) -> Result<ObjectId, EngineError> {
        let user = self.uid_of(id).ok_or(EngineError::NoSuchClient)?;
        let content = Content::Private {
            client: id,
            pages: vec![Where::Nowhere; pages as usize],
            booked: Booked::new(pages),
        };
        let object = self.make_object(
            ObjectKind::Private,
            PageCount::new(pages),
            Regime::Conserve,
            content,
            user,
        )?;
        if let Some(client) = self.client_mut(id) {
            client.memory.bookings.objects += 1;
            client.memory.bookings.pages += pages;
        }
        Ok(object)
    }

    fn doom_if_unused(&mut self, object: ObjectId) {
        if self.object(object).is_some_and(|row| row.segments.is_empty()) {
            self.doom(object);
        }
    }

    /// Pages of a private object are no longer anybody's: they can be booked again when the core has forgotten them.
    pub(in crate::engine) fn unbook(&mut self, id: ClientId, object: ObjectId, pages: Range<u32>) {
        self.mark(object, |booked| booked.leave(pages));
        let is_there = self.object(object).is_some();
        if let Some(client) = self.client_mut(id).filter(|_| is_there) {
            client.memory.bookings.open(object);
        }
    }

    /// Frees pages of an object that were left, as far as nobody has to do with them any more.
    fn refresh(&mut self, object: ObjectId) {
        let stale = self.booked(object).map(Booked::stale).unwrap_or_default();
        if stale.is_empty() {
            return;
        }
        let awaited = self.awaited_pages(object);
        let done = stale.into_iter().filter(|page| {
            self.place_at(object, *page) == Some(Where::Nowhere)
                && self
                    .core
                    .page(object, PageIndex::new(*page))
                    .is_some_and(|view| view.state == PageState::Empty)
                && !self.is_under_way(object, *page)
                && !awaited.contains(page)
        });
        let done: Vec<u32> = done.collect();
        self.mark(object, |booked| booked.free(done));
    }

    /// Pages of an object that threads wait for.
    fn awaited_pages(&self, object: ObjectId) -> Vec<u32> {
        let Some(client) = self.object(object).and_then(|row| row.private_client()) else {
            return Vec::new();
        };
        let tasks = self.client(client).map_or(&[][..], |client| &client.tasks);
        let tasks = tasks.iter().filter_map(|key| self.tasks.at(key.index()));
        let pending = tasks
            .flat_map(|task| &task.wait_slots)
            .filter_map(|wait_slot| wait_slot.pending.as_ref());
        let of_object = pending.filter(|pending: &&Pending| pending.object == object);
        of_object.map(|pending| pending.page.get()).collect()
    }

    fn booked(&self, object: ObjectId) -> Option<&Booked> {
        self.object(object)?.booked()
    }

    fn mark(&mut self, object: ObjectId, change: impl FnOnce(&mut Booked)) {
        if let Some(Content::Private { booked, .. }) = self.object_mut(object).map(|row| &mut row.content) {
            change(booked);
        }
    }
}

fn pages_of(stretch: Stretch) -> u32 {
    u32::try_from((stretch.high - stretch.low) / crate::PAGE).unwrap_or(u32::MAX)
}

/// Of a gap around an address, what lies between ranges that are something else.
///
/// What a child has inherited is in its page table without being booked. Booked with what is touched beside it, it
/// would be ordered out as the child's own, and come back as what is unmanaged does: as zeros.
fn beside(gap: Stretch, others: &[(u64, u64)], address: u64) -> Stretch {
    others.iter().fold(gap, |gap, &(start, end)| {
        if end <= address {
            Stretch {
                low: gap.low.max(end),
                ..gap
            }
        } else if start > address {
            Stretch {
                high: gap.high.min(start),
                ..gap
            }
        } else {
            gap
        }
    })
}

/// The half of a range that an address is in; `None` where the range is one page.
fn half_around(wanted: Stretch, address: u64) -> Option<Stretch> {
    let half = u64::from(pages_of(wanted) / 2) * crate::PAGE;
    let middle = wanted.low + half;
    if half == 0 {
        None
    } else if address < middle {
        Some(Stretch { high: middle, ..wanted })
    } else {
        Some(Stretch { low: middle, ..wanted })
    }
}

#[cfg(test)]
mod tests {
    use super::{Bookings, Stretch, beside, half_around};
    use crate::PAGE;
    use crate::engine::objects::some_objects;

    #[test]
    fn the_object_that_was_left_last_is_looked_at_first() {
        let [first, second, third] = some_objects();
        let mut bookings = Bookings::default();
        for (object, open) in [
            (first, vec![first]),
            (second, vec![first, second]),
            (third, vec![first, second, third]),
            (third, vec![first, second, third]),
            (first, vec![second, third, first]),
        ] {
            bookings.open(object);
            assert_eq!(bookings.open, open);
        }
    }

    #[test]
    fn what_does_not_fit_is_halved_down_to_the_page_itself() {
        let mut wanted = Stretch {
            low: 3 * PAGE,
            high: 36 * PAGE,
        };
        let address = 17 * PAGE;
        while let Some(less) = half_around(wanted, address) {
            assert!(wanted.low <= less.low && less.high <= wanted.high && less != wanted);
            assert!((less.low..less.high).contains(&address));
            wanted = less;
        }
        assert_eq!((wanted.low, wanted.high), (address, address + PAGE));
    }
    #[test]
    fn a_gap_ends_where_something_else_begins() {
        let gap = Stretch {
            low: 0,
            high: 64 * PAGE,
        };
        let others = [
            (40 * PAGE, 50 * PAGE),
            (4 * PAGE, 9 * PAGE),
            (0, 2 * PAGE),
            (60 * PAGE, 90 * PAGE),
        ];
        let bounds = |page: u64| {
            let found = beside(gap, &others, page * PAGE);
            (found.low / PAGE, found.high / PAGE)
        };
        assert_eq!((bounds(2), bounds(3)), ((2, 4), (2, 4)));
        assert_eq!((bounds(9), bounds(39), bounds(55)), ((9, 40), (9, 40), (50, 60)));
        assert_eq!(beside(gap, &[], PAGE), gap);
    }
}
