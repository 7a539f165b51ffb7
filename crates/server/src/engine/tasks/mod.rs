//! Tasks and their wait slots.
//!
//! A task of the core waits for one page at a time, a process has many threads. So each task of a client has up to
//! eight wait slots: the core's task that has its mappings, and others of the same holder that only wait.

mod task;

use crate::engine::Engine;
use crate::engine::faults::fault_queue::FaultQueue;
use crate::engine::keys::{ClientId, MapKey, Membership, TaskKey};
use crate::engine::rows_of;
pub(crate) use task::{Mapped, Pending, Task, WaitSlot, WaitSlotName};

use crate::engine::table::Table;
use crate::error::EngineError;
use crate::settings::Settings;
use freehold_core::effect::Holder;
use freehold_core::error::CreateError;
use freehold_core::id::{MappingId, ObjectId, PinnedPoolId, ReservationId, TaskId};
use freehold_core::view::TaskCounts;
use std::collections::BTreeMap;
use std::time::Duration;

/// What there are no more of, in a refusal.
pub(super) const OF_ONE_USER: &str = "mappings of one user: others end";
/// Wait slots of a task, at most.
pub(super) const WAIT_SLOTS: usize = 8;

/// All tasks.
#[derive(Debug)]
pub(super) struct Tasks {
    rows: Table<Task>,
    /// Where each task of the core belongs, by its slot.
    wait_slots: Vec<Option<WaitSlotName>>,
    /// Those with faults that found every wait slot waiting.
    pub(super) crowded: Vec<TaskKey>,
    next_key: u32,
}

rows_of!(Tasks { rows: Table<Task> });

impl Tasks {
    /// None yet.
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            rows: Table::new(usize::from(settings.tables.tasks)),
            wait_slots: vec![None; usize::from(settings.tables.tasks)],
            crowded: Vec::new(),
            next_key: 1,
        }
    }

    /// Where a task of the core belongs.
    pub(super) fn wait_slot_name(&self, core: TaskId) -> Option<WaitSlotName> {
        self.wait_slots.get(core.index()).copied().flatten()
    }

    /// Says where a task of the core belongs from now on.
    pub(super) fn name_wait_slot(&mut self, core: TaskId, name: Option<WaitSlotName>) {
        if let Some(row) = self.wait_slots.get_mut(core.index()) {
            *row = name;
        }
    }

    /// How many tasks of the core there can be.
    pub(super) fn most_wait_slots(&self) -> usize {
        self.wait_slots.len()
    }

    /// What the next mapping is called.
    pub(super) fn next_map_key(&mut self) -> MapKey {
        let key = MapKey::new(self.next_key, 0);
        self.next_key = self.next_key.wrapping_add(1).max(1);
        key
    }
}

impl Engine {
    pub(super) fn task(&self, client: ClientId, key: TaskKey) -> Result<&Task, EngineError> {
        let found = self.tasks.get(key.index(), key.generation());
        found
            .filter(|task| task.client == client && !task.ending)
            .ok_or(EngineError::NoSuchTask)
    }

    /// Makes a task. The client's private memory belongs to its first.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`], [`EngineError::NoSuchReservation`], [`EngineError::Create`].
    pub fn add_task(
        &mut self,
        client: ClientId,
        reservation: Option<ReservationId>,
        urgency: u8,
        name: &str,
    ) -> Result<TaskKey, EngineError> {
        self.add_member(client, reservation.map(Membership::Reservation), urgency, name)
    }

    /// As [`add_task`](Self::add_task), also for a pinned page pool.
    ///
    /// # Errors
    /// [`EngineError::NoSuchClient`], [`EngineError::NoSuchReservation`], [`EngineError::NoSuchPool`],
    /// [`EngineError::Create`].
    pub fn add_member(
        &mut self,
        client: ClientId,
        membership: Option<Membership>,
        urgency: u8,
        name: &str,
    ) -> Result<TaskKey, EngineError> {
        self.step(|engine| {
            if engine.client(client).is_none() {
                return Err(EngineError::NoSuchClient);
            }
            let key = engine.new_task(client, membership, urgency, name)?;
            Ok(key)
        })
    }

    pub(super) fn new_task(
        &mut self,
        client: ClientId,
        membership: Option<Membership>,
        urgency: u8,
        name: &str,
    ) -> Result<TaskKey, EngineError> {
        let (reservation, pinned) = match membership {
            Some(Membership::Reservation(id)) if self.reservation(id).is_none() => {
                return Err(EngineError::NoSuchReservation);
            }
            Some(Membership::Pinned(id)) if self.pinned_pool(id).is_none() => return Err(EngineError::NoSuchPool),
            Some(Membership::Reservation(id)) => (Some(id), None),
            Some(Membership::Pinned(id)) => (None, Some(id)),
            None => (None, None),
        };
        if reservation.is_none() {
            self.look_for_unreserved()?;
        }
        if !self.tasks.has_room() {
            return Err(EngineError::Limit { what: "tasks" });
        }
        if !self.may_wait(client) {
            return Err(EngineError::Limit {
                what: "tasks of one user",
            });
        }
        let core = self.new_wait_slot(reservation, pinned)?;
        let made = self.tasks.insert(|_, _| Task {
            client,
            name: name.to_owned(),
            reservation,
            pinned,
            urgency,
            wait_slots: vec![WaitSlot { core, pending: None }],
            mappings: BTreeMap::new(),
            queued: FaultQueue::default(),
            ending: false,
            jobs: 0,
            misses: 0,
        });
        let (index, generation) = made.ok_or(EngineError::Limit { what: "tasks" })?;
        let key = TaskKey::new(index, generation);
        let (task, wait_slot) = (key, 0);
        self.tasks.name_wait_slot(core, Some(WaitSlotName { task, wait_slot }));
        if let Some(row) = reservation.and_then(|id| self.reservation_mut(id)) {
            row.tasks += 1;
        }
        if let Some(row) = pinned.and_then(|id| self.pinned_pool_mut(id)) {
            row.tasks += 1;
        }
        if let Some(client) = self.client_mut(client) {
            client.tasks.push(key);
            client.urgency = client.urgency.max(urgency);
            // Private memory may have been touched before there was a task to charge it to.
            let parked = std::mem::take(&mut client.waiting.parked);
            self.step.again.extend(parked);
        }
        Ok(key)
    }

    /// A task of the core: the mapping one of a task, or another that only waits.
    fn new_wait_slot(
        &mut self,
        reservation: Option<ReservationId>,
        pinned: Option<PinnedPoolId>,
    ) -> Result<TaskId, CreateError> {
        match pinned {
            Some(pool) => self.core.add_pinned_task(pool),
            None => self.core.add_task(reservation),
        }
    }

    /// An idle wait slot of a task; a new one where all wait and there may be more.
    pub(super) fn idle_wait_slot(&mut self, key: TaskKey) -> Option<usize> {
        let task = self.tasks.get(key.index(), key.generation())?;
        if let Some(idle) = task.wait_slots.iter().position(|wait_slot| wait_slot.pending.is_none()) {
            return Some(idle);
        }
        let at = task.wait_slots.len();
        // Where the core has no room for one more, or the user has his share, the fault waits for a wait slot.
        if at >= WAIT_SLOTS || !self.may_wait(task.client) {
            return None;
        }
        let (reservation, pinned) = (task.reservation, task.pinned);
        let core = self.new_wait_slot(reservation, pinned).ok()?;
        self.tasks.name_wait_slot(
            core,
            Some(WaitSlotName {
                task: key,
                wait_slot: u8::try_from(at).unwrap_or(0),
            }),
        );
        let task = self.tasks.get_mut(key.index(), key.generation())?;
        task.wait_slots.push(WaitSlot { core, pending: None });
        Some(at)
    }

    /// Ends a task; its mappings go.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`].
    pub fn remove_task(&mut self, client: ClientId, task: TaskKey) -> Result<(), EngineError> {
        self.step(|engine| {
            engine.task(client, task)?;
            let starts = engine.client(client).map(|client| {
                let segments = client.space.iter().filter(|(_, segment)| segment.task == task);
                segments
                    .map(|(start, segment)| (*start, segment.end))
                    .collect::<Vec<_>>()
            });
            for (start, end) in starts.unwrap_or_default() {
                engine.carve(client, start, end);
            }
            if let Some(row) = engine.clients.get_mut(client.index(), client.generation()) {
                row.tasks.retain(|found| *found != task);
                let urgencies = row.tasks.iter().filter_map(|key| engine.tasks.at(key.index()));
                row.urgency = urgencies.map(|task| task.urgency).max().unwrap_or(0);
            }
            engine.give_up_tasks(client, vec![task]);
            Ok(())
        })
    }

    /// Changes how urgent a task is; what its threads wait for is lifted.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`].
    pub fn set_urgency(&mut self, client: ClientId, task: TaskKey, urgency: u8) -> Result<(), EngineError> {
        self.step(|engine| {
            engine.task(client, task)?;
            let mut awaited = Vec::new();
            if let Some(task) = engine.tasks.get_mut(task.index(), task.generation()) {
                task.urgency = urgency;
                let pending = task.wait_slots.iter().filter_map(|wait_slot| wait_slot.pending);
                awaited.extend(pending.map(|pending| (pending.object, pending.page)));
            }
            if let Some(row) = engine.clients.get_mut(client.index(), client.generation()) {
                let urgencies = row.tasks.iter().filter_map(|key| engine.tasks.at(key.index()));
                row.urgency = urgencies.map(|task| task.urgency).max().unwrap_or(0);
            }
            for (object, page) in awaited {
                engine.boost(task, object, page);
            }
            Ok(())
        })
    }

    /// The urgency of a wait slot's task.
    pub(super) fn urgency_of(&self, core: TaskId) -> u8 {
        let name = self.tasks.wait_slot_name(core);
        let task = name.and_then(|name| self.tasks.at(name.task.index()));
        task.map_or(0, |task| task.urgency)
    }

    /// How urgent the most urgent task is that waits and has this holder. O(tasks).
    pub(super) fn urgency_for(&self, holder: Holder) -> u8 {
        let waits = self.tasks.iter().map(|(_, task)| task).filter(|task| {
            let same = match holder {
                Holder::Reservation(id) => task.reservation == Some(id),
                Holder::Pool => task.reservation.is_none(),
            };
            same && task.wait_slots.iter().any(|wait_slot| wait_slot.pending.is_some())
        });
        waits.map(|task| task.urgency).max().unwrap_or(0)
    }

    /// The task's mapping of an object, for one segment more.
    pub(super) fn use_object(&mut self, key: TaskKey, object: ObjectId) -> Result<MappingId, EngineError> {
        let missing = || EngineError::NoSuchTask;
        let task = self.tasks.get_mut(key.index(), key.generation()).ok_or_else(missing)?;
        if let Some(mapped) = task.mappings.get_mut(&object) {
            mapped.segments += 1;
            return Ok(mapped.mapping);
        }
        let wait_slot = task.wait_slots.first().ok_or_else(missing)?.core;
        if !self.may_map(key) {
            return Err(EngineError::Limit { what: OF_ONE_USER });
        }
        let mapping = loop {
            match self.core.map(wait_slot, object) {
                Err(CreateError::TableFull) if self.tear_down_any() => {}
                made => break made?,
            }
        };
        let task = self.tasks.get_mut(key.index(), key.generation()).ok_or_else(missing)?;
        task.mappings.insert(object, Mapped { mapping, segments: 1 });
        Ok(mapping)
    }

    /// A segment less: with the last, the core's mapping goes.
    pub(super) fn disuse_object(&mut self, key: TaskKey, object: ObjectId) {
        let mapping = self.take_mapping(key, object);
        self.teardown.ending.mappings.extend(mapping);
    }

    /// A segment less; with the last, the core's mapping, which is to go.
    pub(super) fn take_mapping(&mut self, key: TaskKey, object: ObjectId) -> Option<MappingId> {
        let task = self.tasks.get_mut(key.index(), key.generation())?;
        let mapped = task.mappings.get_mut(&object)?;
        mapped.segments -= 1;
        let (last, mapping) = (mapped.segments == 0, mapped.mapping);
        if last {
            task.mappings.remove(&object);
        }
        last.then_some(mapping)
    }

    /// What happened to a task so far.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`].
    pub fn counts(&self, client: ClientId, task: TaskKey) -> Result<TaskCounts, EngineError> {
        Ok(self.sum(self.task(client, task)?))
    }

    /// What happened to all tasks of a process so far, and its user. O(clients + tasks of the process).
    #[must_use]
    pub fn process_counts(&self, process: u32) -> Option<(u32, TaskCounts)> {
        let (_, client) = self.clients.iter().find(|(_, client)| client.process.pid == process)?;
        let tasks = client.tasks.iter();
        let tasks = tasks.filter_map(|key| self.tasks.get(key.index(), key.generation()));
        Some((client.process.uid, self.total(tasks.flat_map(|task| &task.wait_slots))))
    }

    pub(super) fn sum(&self, task: &Task) -> TaskCounts {
        self.total(task.wait_slots.iter())
    }

    fn total<'a>(&self, wait_slots: impl Iterator<Item = &'a WaitSlot>) -> TaskCounts {
        let mut sum = TaskCounts::default();
        for counts in wait_slots.filter_map(|wait_slot| self.core.task(wait_slot.core)) {
            sum.soft_faults += counts.soft_faults;
            sum.zero_fills += counts.zero_fills;
            sum.swap_ins += counts.swap_ins;
            sum.shared_swap_ins += counts.shared_swap_ins;
            sum.file_reads += counts.file_reads;
            sum.copies += counts.copies;
            sum.write_faults += counts.write_faults;
            sum.ahead += counts.ahead;
            sum.read_ahead += counts.read_ahead;
            sum.evictions += counts.evictions;
            sum.waited = sum.waited.saturating_add(counts.waited);
        }
        sum
    }

    /// A periodic task has ended a job.
    ///
    /// # Errors
    /// [`EngineError::NoSuchTask`].
    pub fn job_end(
        &mut self,
        client: ClientId,
        task: TaskKey,
        response: Duration,
        missed: bool,
    ) -> Result<(), EngineError> {
        self.step(|engine| {
            let _ = response;
            engine.task(client, task)?;
            if let Some(task) = engine.tasks.get_mut(task.index(), task.generation()) {
                task.jobs += 1;
                task.misses += u64::from(missed);
            }
            Ok(())
        })
    }
}
