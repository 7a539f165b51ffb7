//! What a client has given up, taken back piece by piece.
//!
//! A program may unmap gigabytes at once, or end with them. To take all of it back in one step would keep everybody
//! else's faults waiting for tens of milliseconds. So its segments go at once, whatever is mapped there next is new,
//! and the private objects behind them wait in a queue of which each step takes a few. Large objects of other kinds,
//! their mappings, and reservations with many pages wait there too, while they
//! [end](crate::engine::teardown::step) part by part.
//!
//! What a reservation faults on and evicts must not depend on when that happens (law 0): until all of a reservation's
//! objects are back, faults of its tasks wait, and pager threads go on with its queue for them, the most urgent first.
//! For tasks of the pool only the client itself waits. For nobody in particular the backing's thread goes on with it,
//! which is nice; and where a table is full, whoever wants a row.

use crate::engine::Engine;
use crate::engine::keys::{ClientId, TaskKey};
use crate::engine::objects::{Content, Object};
use crate::engine::spaces::Segment;
use crate::engine::tasks::Pending;
use crate::engine::teardown::step::Progress;
use freehold_core::id::{MappingId, ObjectId, ReservationId};
use freehold_core::units::PageCount;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Pieces that one step takes: of private objects, 4 MiB each.
const PIECES: usize = 4;
/// Pages that one step visits to end things: each of a private object twice, to unmap it and to remove it.
const VISITS: u32 = 8_192;

/// Whose faults wait until something is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waiter {
    Reservation(ReservationId),
    Client(ClientId),
    Nobody,
}

/// What is taken back.
#[derive(Debug)]
pub(super) enum Piece {
    /// A private object that nobody can reach any more, and its mapping.
    Object(ObjectId, Option<MappingId>),
    /// Pages of one of which others can be reached.
    Pages(ObjectId, Range<u32>),
    /// Tasks that have ended, the first last, once the private objects of their client are back.
    Tasks(Vec<TaskKey>),
    /// A mapping of a large object.
    Mapping(MappingId),
    /// What is left of a large object.
    Rest(ObjectId),
    /// A reservation that nobody holds or uses any more.
    Reservation(ReservationId),
}

/// What waits to be taken back, for each who waits for it in the order in which it was given up. No queue is empty.
#[derive(Debug, Default)]
pub(in crate::engine) struct TeardownQueue {
    queues: BTreeMap<Waiter, VecDeque<Piece>>,
    /// Who has given up something in this step.
    fresh: Option<Waiter>,
    /// Pages visited in this step.
    visited: u32,
}

impl TeardownQueue {
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Begins a step.
    pub(in crate::engine) fn begin(&mut self) {
        self.visited = 0;
    }

    /// Counts pages that are to be visited: how many of them may be in this step; none where it has visited enough.
    pub(super) fn visit(&mut self, pages: u32) -> Option<PageCount> {
        let left = VISITS.saturating_sub(self.visited);
        self.visited = self.visited.saturating_add(pages);
        (left > 0).then(|| PageCount::new(left))
    }

    /// Something goes on being ended in a later step.
    pub(super) fn push(&mut self, waiter: Waiter, piece: Piece) {
        self.queues.entry(waiter).or_default().push_back(piece);
    }

    /// Something is given up in this step.
    fn give_up(&mut self, waiter: Waiter, piece: Piece) {
        self.fresh = Some(waiter);
        self.push(waiter, piece);
    }

    /// The next piece of a queue, and whether it was the last.
    fn pop(&mut self, waiter: Waiter) -> Option<(Piece, bool)> {
        let queue = self.queues.get_mut(&waiter)?;
        let piece = queue.pop_front()?;
        let last = queue.is_empty();
        if last {
            self.queues.remove(&waiter);
        }
        Some((piece, last))
    }
}

impl Engine {
    /// Gives up the whole of the private object that a segment shows, where all its segments are within this range of
    /// addresses; false where a part of it stays, or where a child may still want pages of it: then they are forgotten
    /// one by one.
    pub(in crate::engine) fn give_up(&mut self, id: ClientId, range: Range<u64>, segment: &Segment) -> bool {
        let Some(client) = self.client(id).filter(|client| client.family.fork_children == 0) else {
            return false;
        };
        let within =
            |start: &u64| range.contains(start) && client.space.get(start).is_some_and(|row| row.end <= range.end);
        let starts = self.object(segment.object).map(|row| &row.segments);
        let Some(starts) = starts.filter(|all| all.iter().all(|at| at.client == id && within(&at.start))) else {
            return false;
        };
        let starts = starts.clone();
        if let Some(client) = self.client_mut(id) {
            for at in starts {
                client.space.remove(&at.start);
            }
        }
        self.regrant(id, segment.object);
        self.give_up_object(id, segment);
        true
    }

    /// Gives up pages of a private object of which others stay, where this step has taken back many already; false
    /// where it has not, or where a child may still want them.
    pub(in crate::engine) fn give_up_pages(&mut self, id: ClientId, segment: &Segment, pages: Range<u32>) -> bool {
        let has_fork_children = self.client(id).is_none_or(|client| client.family.fork_children > 0);
        if self.teardown.queue.visit(pages.end - pages.start).is_some() || has_fork_children {
            return false;
        }
        self.regrant(id, segment.object);
        let waiter = self.waiter(id, Some(segment.task));
        self.teardown.queue.give_up(waiter, Piece::Pages(segment.object, pages));
        true
    }

    fn forget_and_unbook(&mut self, object: ObjectId, pages: Range<u32>) {
        if let Some(id) = self.object(object).and_then(Object::private_client) {
            self.forget_private(object, pages.start, pages.end - pages.start);
            self.unbook(id, object, pages);
        }
    }

    /// As [`give_up`](Self::give_up), where the segment has gone from the client's address space.
    pub(in crate::engine) fn give_up_object(&mut self, id: ClientId, segment: &Segment) {
        if let Some(row) = self.object_mut(segment.object) {
            row.segments.clear();
        }
        let task = self.tasks.get_mut(segment.task.index(), segment.task.generation());
        let mapping = task.and_then(|task| Some(task.mappings.remove(&segment.object)?.mapping));
        let waiter = self.waiter(id, Some(segment.task));
        self.teardown
            .queue
            .give_up(waiter, Piece::Object(segment.object, mapping));
    }

    /// Tasks of a client go when all private memory is back that it has given up.
    pub(in crate::engine) fn give_up_tasks(&mut self, id: ClientId, mut tasks: Vec<TaskKey>) {
        for key in &tasks {
            if let Some(task) = self.tasks.at_mut(key.index()) {
                task.ending = true;
            }
        }
        let waiter = self.waiter(id, tasks.first().copied());
        tasks.reverse();
        self.teardown.queue.give_up(waiter, Piece::Tasks(tasks));
    }

    /// Who waits for what a task of a client had.
    fn waiter(&self, id: ClientId, task: Option<TaskKey>) -> Waiter {
        let reservation = task.and_then(|key| self.tasks.at(key.index())?.reservation);
        reservation.map_or(Waiter::Client(id), Waiter::Reservation)
    }

    /// What was granted of an object before its pages had come back from the client is looked at again.
    fn regrant(&mut self, id: ClientId, object: ObjectId) {
        for at in 0.. {
            let key = self.client(id).and_then(|client| client.tasks.get(at).copied());
            let Some(task) = key.and_then(|key| self.tasks.at_mut(key.index())) else {
                return;
            };
            for wait_slot in &mut task.wait_slots {
                let granted = |pending: &mut Pending| pending.object == object && pending.mapped.is_some();
                if let Some(pending) = wait_slot.pending.take_if(granted) {
                    self.step.again.push_back(pending.fault);
                }
            }
        }
    }

    /// Whether a client's faults wait until something is back.
    pub(in crate::engine) fn waits_for_memory(&self, id: ClientId) -> bool {
        !self.teardown.queue.is_empty() && self.awaits(id).is_some()
    }

    fn awaits(&self, id: ClientId) -> Option<Waiter> {
        let tasks = self.client(id).map_or(&[][..], |client| &client.tasks);
        let mut waiters = tasks.iter().map(|key| self.waiter(id, Some(*key)));
        waiters.find(|waiter| self.teardown.queue.queues.contains_key(waiter))
    }

    /// What the most urgent client waits for whose faults wait.
    fn awaited(&self) -> Option<Waiter> {
        let urgency = |id: &ClientId| self.client(*id).map_or(0, |client| client.urgency);
        let waiting = self
            .clients
            .deferred
            .iter()
            .filter_map(|id| Some((urgency(id), self.awaits(*id)?)));
        waiting.max_by_key(|(urgency, _)| *urgency).map(|(_, waiter)| waiter)
    }

    /// The first of what has been given up in this step.
    pub(in crate::engine) fn tear_down_first(&mut self) {
        if let Some(waiter) = self.teardown.queue.fresh.take() {
            self.tear_down(waiter);
        }
    }

    /// A few objects of those that somebody waits for; whether there is anybody. Counts as a step of its own. What has
    /// been looked at before in this one, and cannot end yet, would else leave it no visits, and pager threads ask
    /// again at once, ahead of everybody who could go on with it.
    pub(in crate::engine) fn tear_down_awaited(&mut self) -> bool {
        let awaited = if self.teardown.queue.is_empty() {
            None
        } else {
            self.awaited()
        };
        if let Some(waiter) = awaited {
            self.teardown.queue.begin();
            self.tear_down(waiter);
        }
        awaited.is_some()
    }

    /// A few objects of those that somebody waits for, or else of any; whether there were any. Counts as a step of its
    /// own: whoever cannot go on before asks until there is room.
    pub(in crate::engine) fn tear_down_any(&mut self) -> bool {
        self.teardown.queue.begin();
        let any = || self.teardown.queue.queues.keys().next().copied();
        let found = if self.teardown.queue.is_empty() {
            None
        } else {
            self.awaited().or_else(any)
        };
        if let Some(waiter) = found {
            self.tear_down(waiter);
        }
        found.is_some()
    }

    /// Takes back a few pieces. What follows is the caller's step to carry out.
    fn tear_down(&mut self, waiter: Waiter) {
        for _ in 0..PIECES {
            let Some((piece, last)) = self.teardown.queue.pop(waiter) else {
                return;
            };
            self.take_piece(waiter, piece);
            if last {
                self.look_at_all();
            }
        }
    }

    fn take_piece(&mut self, waiter: Waiter, piece: Piece) {
        match piece {
            Piece::Object(object, mapping) => {
                self.teardown.ending.mappings.extend(mapping);
                self.doom(object);
            }
            Piece::Mapping(mapping) => self.teardown.ending.mappings.push(mapping),
            Piece::Rest(object) => self.teardown.ending.objects.push(object),
            Piece::Pages(object, pages) => return self.forget_and_unbook(object, pages),
            Piece::Reservation(id) => return self.end_reservation(id),
            Piece::Tasks(tasks) => return self.take_tasks(waiter, tasks),
        }
        self.teardown_step();
    }

    fn take_tasks(&mut self, waiter: Waiter, mut tasks: Vec<TaskKey>) {
        while let Some(task) = tasks.pop() {
            if self.end_task(task) == Progress::Partly {
                tasks.push(task);
                return self.teardown.queue.push(waiter, Piece::Tasks(tasks));
            }
        }
    }

    /// One step of that by whoever has time for it, or cannot go on before; whether there is more.
    pub(crate) fn tear_down_some(&mut self) -> bool {
        if self.teardown.queue.is_empty() {
            return false;
        }
        self.step(Self::tear_down_any);
        !self.teardown.queue.is_empty()
    }

    /// Whether a page is of an object that is being taken back: nobody will look for what it held.
    pub(in crate::engine) fn is_given_up(&self, object: ObjectId) -> bool {
        let given_up = |row: &Object| matches!(row.content, Content::Private { .. }) && row.segments.is_empty();
        self.object(object).is_some_and(given_up)
    }
}
