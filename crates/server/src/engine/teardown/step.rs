//! The ends of mappings, tasks, objects and reservations, in steps that stay short.
//!
//! Each costs something for every page, and a client may have millions of them. So one step visits so many pages; what
//! it does not get to waits in a queue, and goes on in a later one: see [`queue`](crate::engine::teardown::queue). What
//! cannot end yet, because something of it is under way, is looked at again in every step.

use crate::engine::Engine;
use crate::engine::keys::TaskKey;
use crate::engine::objects::Object;
use crate::engine::teardown::queue::{Piece, Waiter};
use freehold_core::effect::Holder;
use freehold_core::error::RemoveError;
use freehold_core::id::{MappingId, ObjectId, ReservationId};
use freehold_core::units::PageCount;

/// Pages that are always visited together: those of the largest private object.
const WHOLE: u32 = 1024;
/// What a task counts for, in pages.
const TASK: u32 = 256;

/// What ends as soon as nothing of it is under way.
#[derive(Debug, Default)]
pub(in crate::engine) struct Ending {
    pub(in crate::engine) mappings: Vec<MappingId>,
    pub(super) objects: Vec<ObjectId>,
}

/// How far the end of something has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has ended.
    Over,
    /// It goes on in a later step.
    Partly,
    /// Something of it is under way.
    Busy,
}

impl Progress {
    fn of(result: Result<bool, RemoveError>) -> Self {
        match result {
            Ok(true) | Err(RemoveError::Stale) => Self::Over,
            Ok(false) => Self::Partly,
            Err(RemoveError::Busy | RemoveError::Undrained) => Self::Busy,
        }
    }
}

impl Engine {
    /// Somebody needs an object no more. Whether anybody else does is looked at when the step ends: a range that is
    /// moved, or split, is nowhere for a moment.
    pub(in crate::engine) fn forget_if_unused(&mut self, object: ObjectId) {
        self.objects.idle_files.left.push(object);
    }

    /// Looks at the objects that somebody has left in this step.
    fn end_unused(&mut self) {
        while let Some(id) = self.objects.idle_files.left.pop() {
            let unused = |row: &Object| row.openings == 0 && row.segments.is_empty() && row.idle.is_none();
            if self.object(id).is_some_and(unused) && !self.keep_file(id) {
                self.doom(id);
            }
        }
    }

    /// The object is forgotten as soon as nothing of it is under way.
    pub(in crate::engine) fn doom(&mut self, object: ObjectId) {
        self.no_longer_idle(object);
        let frames = self.core.resident(object).map_or(0, PageCount::get);
        let Some(row) = self.object_mut(object) else { return };
        if row.doomed.replace(frames).is_some() {
            return;
        }
        self.objects.forget_name(object);
        self.teardown.ending.objects.push(object);
    }

    /// Whether nobody will look for what an object held.
    pub(in crate::engine) fn is_doomed(&self, object: ObjectId) -> bool {
        self.object(object).is_some_and(|row| row.doomed.is_some())
    }

    /// Ends what could not be ended before; whether the core has anything to do by that.
    pub(in crate::engine) fn teardown_step(&mut self) -> bool {
        self.drop_left();
        self.end_unused();
        let mut progress = false;
        let mut at = 0;
        while let Some(&mapping) = self.teardown.ending.mappings.get(at) {
            match self.end_mapping(mapping) {
                Progress::Busy => at += 1,
                Progress::Over => {
                    self.teardown.ending.mappings.swap_remove(at);
                    progress = true;
                }
                Progress::Partly => {
                    self.teardown.ending.mappings.swap_remove(at);
                    self.teardown
                        .queue
                        .push(self.waiter_for(mapping), Piece::Mapping(mapping));
                }
            }
            self.drain();
        }
        let mut at = 0;
        while let Some(&object) = self.teardown.ending.objects.get(at) {
            match self.end_object(object) {
                Progress::Busy => at += 1,
                Progress::Over => {
                    self.teardown.ending.objects.swap_remove(at);
                    progress = true;
                }
                Progress::Partly => {
                    self.teardown.ending.objects.swap_remove(at);
                    self.teardown.queue.push(Waiter::Nobody, Piece::Rest(object));
                }
            }
            self.drain();
        }
        progress
    }

    /// Until a mapping has ended, what the reservation will evict next is undecided.
    fn waiter_for(&self, mapping: MappingId) -> Waiter {
        let task = self.core.mapping(mapping).map(|(task, _)| task);
        match task.and_then(|task| self.core.holder(task)) {
            Some(Holder::Reservation(id)) => Waiter::Reservation(id),
            _ => Waiter::Nobody,
        }
    }

    fn end_mapping(&mut self, mapping: MappingId) -> Progress {
        let object = self.core.mapping(mapping).map(|(_, object)| object);
        let pages = object.and_then(|id| self.object(id)).map_or(0, |row| row.pages);
        let Some(most) = self.teardown.queue.visit(pages) else {
            return Progress::Partly;
        };
        match Progress::of(self.core.unmap_partly(mapping, most)) {
            Progress::Over => Progress::of(self.core.unmap(mapping).map(|()| true)),
            other => other,
        }
    }

    fn end_object(&mut self, id: ObjectId) -> Progress {
        let Some(row) = self.object(id) else {
            return Progress::Over;
        };
        if self.core.is_in_use(id) {
            return Progress::Busy;
        }
        // A part of private memory would be in frames by one book and in none by the other.
        let pages = row.pages;
        let most = match self.teardown.queue.visit(pages) {
            _ if pages <= WHOLE => PageCount::new(pages),
            Some(most) => most,
            None => return Progress::Partly,
        };
        let removed = match Progress::of(self.core.remove_object_partly(id, most)) {
            Progress::Over => Progress::of(self.core.remove_object(id).map(|()| true)),
            other => other,
        };
        if removed == Progress::Over {
            self.drop_object(id);
        }
        removed
    }

    fn drop_object(&mut self, id: ObjectId) {
        // Its frames are back with whoever holds them.
        self.step.moved += crate::backing::BATCH;
        if let Some(object) = self.objects.take(id) {
            self.drop_private(&object);
            self.forget_samples(id);
            let frames = object.doomed.map_or(0, |frames| frames as usize);
            self.defer_free(object, frames);
        }
    }

    /// Takes a task out of the core. Its segments are the caller's business.
    pub(super) fn end_task(&mut self, key: TaskKey) -> Progress {
        let Some(task) = self.tasks.get(key.index(), key.generation()) else {
            return Progress::Over;
        };
        let with_mappings = task.wait_slots.first().map(|wait_slot| wait_slot.core);
        let Some(most) = self.teardown.queue.visit(TASK) else {
            return Progress::Partly;
        };
        self.drain();
        let left = with_mappings.map(|task| self.core.remove_task_partly(task, most));
        if left == Some(Ok(false)) {
            self.teardown.queue.visit(most.get());
            return Progress::Partly;
        }
        self.drop_task(key);
        Progress::Over
    }

    fn drop_task(&mut self, key: TaskKey) {
        let Some(task) = self.tasks.remove(key.index(), key.generation()) else {
            return;
        };
        // Those that only wait go first: the last holds the mappings.
        for wait_slot in task.wait_slots.iter().rev() {
            self.drain();
            self.tasks.name_wait_slot(wait_slot.core, None);
            if self.core.remove_task(wait_slot.core).is_err() {
                self.notice("the core would not end a task");
            }
        }
        self.drain();
        if let Some(id) = task.reservation {
            if let Some(row) = self.reservation_mut(id) {
                row.tasks = row.tasks.saturating_sub(1);
            }
            self.end_reservation(id);
        }
        if let Some(id) = task.pinned {
            if let Some(row) = self.pinned_pool_mut(id) {
                row.tasks = row.tasks.saturating_sub(1);
            }
            self.end_pool(id);
        }
    }

    /// Ends a reservation if nobody holds it and no task uses it.
    pub(in crate::engine) fn end_reservation(&mut self, id: ReservationId) {
        if !self.reservation(id).is_some_and(|row| row.released && row.tasks == 0) {
            return;
        }
        let lists = self.core.reservation(id).unwrap_or_default();
        let pages = lists.active.get() + lists.inactive.get() + lists.locked.get();
        let released = match self.teardown.queue.visit(pages) {
            Some(most) => self.core.release_partly(id, most),
            None => Ok(false),
        };
        if released == Ok(false) {
            self.teardown.queue.push(Waiter::Nobody, Piece::Reservation(id));
        } else if released == Ok(true) {
            if let Some(row) = self.reservations.get_mut(id.index()) {
                *row = None;
            }
            self.drain();
            self.begin_spare();
        }
    }
}
