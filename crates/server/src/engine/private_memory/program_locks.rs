//! What programs lock for themselves: `mlock`, `mlockall`.
//!
//! A client's agent asks before the kernel is asked, and what cannot stay is refused then. The ranges that were
//! admitted are remembered by address, as the kernel's own marks are; every page that is mapped in one of them is
//! locked in its holder's list from then on. So it makes no difference whether a page was there at the call, is
//! brought in by it, or is touched later (`MLOCK_ONFAULT`, `MCL_FUTURE`). What is unmapped is unlocked.

use crate::engine::Engine;
use crate::engine::keys::{ClientId, TaskKey};
use crate::engine::objects::Content;
use crate::engine::spaces::{Segment, SegmentKind};
use crate::error::EngineError;
use freehold_core::id::{ObjectId, TaskId};
use freehold_core::units::{PageCount, PageIndex};
use std::collections::BTreeMap;

/// Ranges of one client, at most.
const RANGES: usize = 65_536;
/// Pages that one request may name: a step of the server stays short.
const TOGETHER: u32 = 1024;
/// The first address past what a program can have.
const HIGHEST: u64 = 1 << 56;

/// A range of addresses, and the call that has locked it.
type Piece = (u64, u64, u32);

/// The locked ranges of a client's address space, none of which overlap.
#[derive(Debug, Default)]
pub(crate) struct ProgramLocks {
    /// By their first addresses: the first past each, and the number of the call that locked it.
    ranges: BTreeMap<u64, (u64, u32)>,
}

impl ProgramLocks {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn contains(&self, address: u64) -> bool {
        let before = self.ranges.range(..=address).next_back();
        before.is_some_and(|(_, (end, _))| address < *end)
    }

    /// The parts of a range that are not locked.
    fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut from = start;
        for (first, past, _) in self.overlapping(start, end) {
            if from < first {
                gaps.push((from, first));
            }
            from = from.max(past);
        }
        if from < end {
            gaps.push((from, end));
        }
        gaps
    }

    fn overlapping(&self, start: u64, end: u64) -> Vec<Piece> {
        let before = self
            .ranges
            .range(..=start)
            .next_back()
            .map_or(start, |(first, _)| *first);
        let all = self.ranges.range(before..end.max(before));
        let pieces = all.map(|(first, (past, call))| (*first, *past, *call));
        pieces.filter(|(_, past, _)| *past > start).collect()
    }

    fn add(&mut self, (start, end, call): Piece) {
        self.ranges.insert(start, (end, call));
    }

    /// Takes a range out; the parts of it that were locked.
    fn cut(&mut self, start: u64, end: u64) -> Vec<Piece> {
        let mut cut = Vec::new();
        for (first, past, call) in self.overlapping(start, end) {
            self.ranges.remove(&first);
            if first < start {
                self.add((first, start, call));
            }
            if end < past {
                self.add((end, past, call));
            }
            cut.push((first.max(start), past.min(end), call));
        }
        cut
    }

    fn of_call(&self, call: u32) -> Vec<(u64, u64)> {
        let all = self.ranges.iter().filter(|(_, (_, by))| *by == call);
        all.map(|(start, (end, _))| (*start, *end)).collect()
    }
}

impl Engine {
    /// A client's program is about to lock a range of its memory; what is there of it is locked at once. If that cannot
    /// be admitted, everything that the same `call` has locked is unlocked.
    ///
    /// # Errors
    /// [`EngineError::Lock`], [`EngineError::Range`], [`EngineError::Limit`], [`EngineError::NoSuchTask`],
    /// [`EngineError::NoSuchClient`].
    pub fn lock_memory(&mut self, id: ClientId, call: u32, address: u64, pages: u32) -> Result<(), EngineError> {
        self.step(|engine| {
            let locked = engine.lock_memory_now(id, call, address, pages);
            if locked.is_err() {
                engine.unlock_call(id, call);
            }
            locked
        })
    }

    fn lock_memory_now(&mut self, id: ClientId, call: u32, start: u64, pages: u32) -> Result<(), EngineError> {
        let task = self.locking_task(id).ok_or(EngineError::NoSuchTask)?;
        let end = start.checked_add(u64::from(pages) * crate::PAGE);
        let end = end.filter(|end| *end <= HIGHEST && pages <= TOGETHER && start.is_multiple_of(crate::PAGE));
        let end = end.ok_or(EngineError::Range { what: "address space" })?;
        let client = self.client(id).ok_or(EngineError::NoSuchClient)?;
        let gaps = client.memory.program_locks.gaps(start, end);
        if client.memory.program_locks.ranges.len().saturating_add(gaps.len()) > RANGES {
            let what = "locked ranges of a client";
            return Err(EngineError::Limit { what });
        }
        let wanted = gaps.iter().map(|(from, to)| (to - from) / crate::PAGE).sum();
        self.core.admit_program_lock(task, count(wanted))?;
        if let Some(client) = self.client_mut(id) {
            for (from, to) in gaps {
                client.memory.program_locks.add((from, to, call));
            }
        }
        self.for_each_page(id, start, end, |engine, segment, task, page| {
            engine.core.lock_in_place(task, segment.object, PageIndex::new(page));
        });
        Ok(())
    }

    /// A client's program has unlocked a range of its memory; `call`, where it is not 0, is the only one whose locks
    /// end.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`].
    pub fn unlock_memory(&mut self, id: ClientId, call: u32, address: u64, length: u64) -> Result<(), EngineError> {
        self.step(|engine| {
            if engine.client(id).is_none() {
                return Err(EngineError::NoSuchClient);
            }
            if call == 0 {
                engine.unlock_range(id, address, address.saturating_add(length));
            } else {
                engine.unlock_call(id, call);
            }
            Ok(())
        })
    }

    fn unlock_call(&mut self, id: ClientId, call: u32) {
        let ranges = self.client(id).map(|client| client.memory.program_locks.of_call(call));
        for (start, end) in ranges.unwrap_or_default() {
            self.unlock_range(id, start, end);
        }
    }

    /// What a client had locked in a range is locked no more. O(pages that it had locked there).
    pub(in crate::engine) fn unlock_range(&mut self, id: ClientId, start: u64, end: u64) {
        let Some(client) = self
            .client_mut(id)
            .filter(|client| !client.memory.program_locks.is_empty())
        else {
            return;
        };
        let cut = client.memory.program_locks.cut(start, end);
        let mut pages = 0;
        for (from, to, _) in cut {
            pages += (to - from) / crate::PAGE;
            self.for_each_page(id, from, to, |engine, segment, task, page| {
                if segment.kind == SegmentKind::Private || !engine.is_locked_by_others(segment, page) {
                    engine.core.unlock_in_place(task, segment.object, PageIndex::new(page));
                }
            });
        }
        if let Some(task) = self.locking_task(id) {
            self.core.return_program_lock(task, count(pages));
        }
    }

    /// A client has ended: it locks nothing any more.
    pub(in crate::engine) fn end_program_locks(&mut self, id: ClientId) {
        self.unlock_range(id, 0, HIGHEST);
    }

    /// Memory of a client has moved from `from` to `to`, with what was locked of it; what was there is gone.
    pub(in crate::engine) fn move_locks(&mut self, id: ClientId, from: u64, to: u64, length: u64) {
        self.unlock_range(id, to, to.saturating_add(length));
        if let Some(client) = self.client_mut(id) {
            for (start, end, call) in client.memory.program_locks.cut(from, from.saturating_add(length)) {
                client
                    .memory
                    .program_locks
                    .add((start - from + to, end - from + to, call));
            }
        }
    }

    /// A page is mapped at an address of a client, or has stayed there: it is locked if the program has locked it.
    pub(in crate::engine) fn lock_mapped(&mut self, id: ClientId, address: u64) {
        let Some(client) = self.client(id) else { return };
        if client.memory.program_locks.is_empty() || !client.memory.program_locks.contains(address) {
            return;
        }
        if let Some((start, segment)) = client.segment(address)
            && let Some(task) = self.core_task(segment.task)
        {
            let page = PageIndex::new(segment.page_at(start, address));
            self.core.lock_in_place(task, segment.object, page);
        }
    }

    /// The same of a page of private memory, wherever it is mapped.
    pub(in crate::engine) fn lock_arrived(&mut self, object: ObjectId, page: u32) {
        let Some(row) = self.object(object) else { return };
        let Content::Private { client: id, .. } = row.content else {
            return;
        };
        let Some(client) = self.client(id).filter(|client| !client.memory.program_locks.is_empty()) else {
            return;
        };
        let id = client.id;
        if let Some(address) = self.address_of(object, page) {
            self.lock_mapped(id, address);
        }
    }

    /// Whether another client of the same reservation has locked a page that both have.
    fn is_locked_by_others(&self, segment: &Segment, page: u32) -> bool {
        let reservation = |key: TaskKey| self.tasks.at(key.index()).and_then(|task| task.reservation);
        let own = reservation(segment.task);
        let segments = self.object(segment.object).map_or(&[][..], |object| &object.segments);
        segments.iter().any(|at| {
            let Some(client) = self
                .client(at.client)
                .filter(|client| !client.memory.program_locks.is_empty())
            else {
                return false;
            };
            let segment = client.space.get(&at.start);
            segment.is_some_and(|segment| {
                let address = address_in(at.start, segment, page);
                reservation(segment.task) == own && address.is_some_and(|at| client.memory.program_locks.contains(at))
            })
        })
    }

    /// Calls `each` with every page of a client that the engine knows in a range, and the core's task that has it.
    fn for_each_page(
        &mut self,
        id: ClientId,
        start: u64,
        end: u64,
        mut each: impl FnMut(&mut Self, &Segment, TaskId, u32),
    ) {
        for (first, segment) in self.overlapping(id, start, end) {
            let Some(task) = self.core_task(segment.task) else {
                continue;
            };
            let (from, to) = (start.max(first), end.min(segment.end));
            for page in segment.page_at(first, from)..segment.page_at(first, to) {
                each(self, &segment, task, page);
            }
        }
    }

    /// The core's task that a client's locks are charged to.
    fn locking_task(&self, id: ClientId) -> Option<TaskId> {
        self.core_task(*self.client(id)?.tasks.first()?)
    }

    fn core_task(&self, key: TaskKey) -> Option<TaskId> {
        let task = self.tasks.get(key.index(), key.generation())?;
        task.wait_slots.first().map(|wait_slot| wait_slot.core)
    }
}

/// Where a segment that begins at `start` shows a page of its object.
fn address_in(start: u64, segment: &Segment, page: u32) -> Option<u64> {
    let address = start + u64::from(page.checked_sub(segment.first)?) * crate::PAGE;
    (address < segment.end).then_some(address)
}

fn count(pages: u64) -> PageCount {
    PageCount::new(u32::try_from(pages).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::ProgramLocks;

    #[test]
    fn ranges_are_locked_once_and_cut_where_they_are_unlocked() {
        let page = |number: u64| number * crate::PAGE;
        let mut locks = ProgramLocks::default();
        locks.add((page(4), page(8), 1));
        assert_eq!(locks.gaps(page(2), page(10)), [(page(2), page(4)), (page(8), page(10))]);
        assert_eq!(locks.gaps(page(5), page(8)), []);
        assert!(locks.contains(page(7)) && !locks.contains(page(8)) && !locks.contains(page(3)));
        locks.add((page(8), page(10), 2));
        assert_eq!(locks.of_call(2), [(page(8), page(10))]);
        assert_eq!(
            locks.cut(page(6), page(9)),
            [(page(6), page(8), 1), (page(8), page(9), 2)]
        );
        assert_eq!(locks.cut(0, u64::MAX).len(), 2);
        assert!(locks.is_empty());
    }
}
