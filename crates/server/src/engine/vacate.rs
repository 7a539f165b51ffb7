//! Private memory that a client has given up, taken back piece by piece.
//!
//! A program may unmap gigabytes at once, or end with them. To take all of it back in one step would keep everybody
//! else's faults waiting for tens of milliseconds. So its segments go at once, whatever is mapped there next is new,
//! and the objects behind them wait in a queue of which each step takes a few.
//!
//! What a reservation faults on and evicts must not depend on when that happens (law 0): until all of a reservation's
//! objects are back, faults of its tasks wait, and pager threads go on with the queue for them. For tasks of the pool
//! only the client itself waits. For nobody in particular the reserve's thread goes on with it, which is nice.

use crate::engine::Engine;
use crate::engine::keys::{ClientId, TaskKey};
use crate::engine::rows::{Content, Object, Pending, Segment};
use freehold_core::id::{MappingId, ObjectId, ReservationId};
use std::collections::{BTreeMap, VecDeque};

/// Objects, of 4 MiB at most, that one step takes back.
const PIECE: usize = 4;

/// Whose faults wait until an object is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waiter {
    Reservation(ReservationId),
    Client(ClientId),
}

/// What is taken back.
#[derive(Debug)]
enum Piece {
    /// An object that nobody can reach any more, and its mapping.
    Object {
        object: ObjectId,
        mapping: Option<MappingId>,
        waiter: Waiter,
    },
    /// The tasks of a client that has ended, once its objects are back.
    Tasks(Vec<TaskKey>),
}

/// What waits to be taken back, in the order in which it was given up.
#[derive(Debug, Default)]
pub(super) struct Vacating {
    queue: VecDeque<Piece>,
    /// For how many objects each waits.
    waiters: BTreeMap<Waiter, usize>,
    /// Something has been given up in this step.
    fresh: bool,
}

impl Vacating {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn push(&mut self, object: ObjectId, mapping: Option<MappingId>, waiter: Waiter) {
        self.fresh = true;
        *self.waiters.entry(waiter).or_default() += 1;
        self.queue.push_back(Piece::Object {
            object,
            mapping,
            waiter,
        });
    }

    /// An object is back; whether the waiter waits for no other.
    fn is_done(&mut self, waiter: Waiter) -> bool {
        let Some(count) = self.waiters.get_mut(&waiter) else {
            return true;
        };
        *count -= 1;
        let done = *count == 0;
        if done {
            self.waiters.remove(&waiter);
        }
        done
    }
}

impl Engine {
    /// Gives up the whole of a private object, whose only segment begins at `start`; false where a part of it stays, or
    /// where a child may still want pages of it: then they are forgotten one by one.
    pub(super) fn give_up(&mut self, id: ClientId, start: u64, segment: &Segment) -> bool {
        let childless = |heirs: u32, bequests: usize| heirs == 0 && bequests == 0;
        let may = self
            .client(id)
            .is_some_and(|client| childless(client.family.heirs, client.family.bequests.len()));
        let alone = self
            .object(segment.object)
            .is_some_and(|row| row.segments == [(id, start)]);
        if !may || !alone {
            return false;
        }
        if let Some(client) = self.client_mut(id) {
            client.space.remove(&start);
        }
        self.regrant(id, segment.object);
        self.give_up_object(id, segment);
        true
    }

    /// As [`give_up`](Self::give_up), where the segment has gone from the client's address space.
    pub(super) fn give_up_object(&mut self, id: ClientId, segment: &Segment) {
        if let Some(row) = self.object_mut(segment.object) {
            row.segments.clear();
        }
        let mapping = self.take_mapping(segment.task, segment.object);
        let reservation = self.tasks.at(segment.task.index()).and_then(|task| task.reservation);
        let waiter = reservation.map_or(Waiter::Client(id), Waiter::Reservation);
        self.vacating.push(segment.object, mapping, waiter);
    }

    /// The tasks of a client that has ended go when all that it has given up is back.
    pub(super) fn give_up_tasks(&mut self, tasks: Vec<TaskKey>) {
        self.vacating.fresh = true;
        self.vacating.queue.push_back(Piece::Tasks(tasks));
    }

    /// What was granted of an object before its pages had come back from the client is looked at again.
    fn regrant(&mut self, id: ClientId, object: ObjectId) {
        for at in 0.. {
            let key = self.client(id).and_then(|client| client.tasks.get(at).copied());
            let Some(task) = key.and_then(|key| self.tasks.at_mut(key.index())) else {
                return;
            };
            for lane in &mut task.lanes {
                let granted = |pending: &mut Pending| pending.object == object && pending.mapped.is_some();
                if let Some(pending) = lane.pending.take_if(granted) {
                    self.again.push_back(pending.claim);
                }
            }
        }
    }

    /// Whether a client's faults wait until something is back.
    pub(super) fn waits_for_memory(&self, id: ClientId) -> bool {
        if self.vacating.waiters.is_empty() {
            return false;
        }
        let tasks = self.client(id).map_or(&[][..], |client| &client.tasks);
        let reserved = tasks.iter().filter_map(|key| self.tasks.at(key.index())?.reservation);
        let mut waiters = reserved.map(Waiter::Reservation).chain([Waiter::Client(id)]);
        waiters.any(|waiter| self.vacating.waiters.contains_key(&waiter))
    }

    /// Whether a fault waits until something is back.
    pub(super) fn is_memory_waited_for(&self) -> bool {
        !self.vacating.is_empty() && self.deferred.iter().any(|id| self.waits_for_memory(*id))
    }

    /// The first of what has been given up in this step.
    pub(super) fn vacate_first(&mut self) {
        if std::mem::take(&mut self.vacating.fresh) {
            self.vacate();
        }
    }

    /// Takes back a few objects. What follows is the caller's step to carry out.
    pub(super) fn vacate(&mut self) {
        for _ in 0..PIECE {
            match self.vacating.queue.pop_front() {
                Some(Piece::Object {
                    object,
                    mapping,
                    waiter,
                }) => {
                    self.closing.extend(mapping);
                    self.doom(object);
                    self.retire();
                    if self.vacating.is_done(waiter) {
                        self.look_again();
                    }
                }
                Some(Piece::Tasks(tasks)) => {
                    for task in tasks {
                        self.end_task(task);
                    }
                }
                None => return,
            }
        }
    }

    /// One step of that by whoever has time for it, or waits for it; whether there is more.
    pub(crate) fn vacate_some(&mut self) -> bool {
        if self.vacating.is_empty() {
            return false;
        }
        self.begin();
        self.vacate();
        self.settle();
        !self.vacating.is_empty()
    }

    /// Whether a page is of an object that is being taken back: nobody will look for what it held.
    pub(super) fn is_given_up(&self, object: ObjectId) -> bool {
        let given_up = |row: &Object| matches!(row.content, Content::Private { .. }) && row.segments.is_empty();
        self.object(object).is_some_and(given_up)
    }
}
