//! What happened, event by event, for the run that this server was started for (`freehold run --report`, `--trace`).
//!
//! Buffers are allocated and touched before anybody connects. A full one keeps its first events and counts the others.
//! Where nothing is recorded each of the places below costs one branch. Times are those of the monotonic clock, which
//! is the client's too.

use crate::engine::Engine;
use crate::engine::keys::TaskKey;
use crate::settings::Settings;
use freehold_core::effect::{Effect, Resolution, Source};
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::{ObjectId, ReservationId, TaskId};
use freehold_core::units::{Duration, Instant, PageIndex};
use freehold_core::view::ReservationView;
use freehold_driver::{End, Ended, EventCapacity, FaultEnd, keep, touched};
use freehold_linux::clock;
use std::collections::BTreeMap;

/// Holds of the engine shorter than this that were waited for no longer, are left out.
const SHORTEST_HOLD: Duration = Duration::from_micros(2);

/// The lists at one moment.
#[derive(Clone, Debug)]
pub(crate) struct SampleEvent {
    pub(crate) at: u64,
    pub(crate) pool_free: u32,
    pub(crate) pool_used: u32,
    pub(crate) reservations: Vec<(ReservationId, ReservationView)>,
    /// Resident pages of shared objects.
    pub(crate) objects: Vec<(ObjectId, u32)>,
}

/// Everything that was recorded.
#[derive(Debug)]
pub(crate) struct Events {
    /// Nobody's thread holds the engine.
    pub(crate) happened: freehold_driver::Recorder,
    pub(crate) samples: Vec<SampleEvent>,
}

/// A transfer that is under way.
#[derive(Clone, Copy, Debug)]
struct Begun {
    since: Instant,
    /// The slot of who waits for it, if anybody does.
    task: Option<u16>,
}

/// The buffers, and what is known of what has begun.
#[derive(Debug)]
pub(crate) struct Recorder {
    events: Events,
    under_way: BTreeMap<(ObjectId, u32, bool), Begun>,
    /// How the fault of each wait slot was resolved, by the core's task slots.
    resolved: Vec<Option<Resolution>>,
    sample_step: u64,
    next_sample: u64,
}

impl Recorder {
    /// Empty buffers, where something is to be recorded.
    pub(super) fn new(settings: &Settings) -> Option<Box<Self>> {
        let room = settings.recording.as_ref()?;
        let capacity = EventCapacity {
            faults: room.faults,
            waits: 0,
            evictions: room.evictions,
            transfers: room.transfers,
            lock_holds: room.holds,
            shortest_hold: SHORTEST_HOLD,
            shortest_wait: SHORTEST_HOLD,
        };
        Some(Box::new(Self {
            events: Events {
                happened: freehold_driver::Recorder::new(&capacity),
                samples: touched(room.samples),
            },
            under_way: BTreeMap::new(),
            resolved: vec![None; usize::from(settings.tables.tasks)],
            sample_step: u64::try_from(room.sample_step.as_nanos()).unwrap_or(u64::MAX),
            next_sample: 0,
        }))
    }

    fn begins(&mut self, page: PageRef, kind: Request, begun: Begun) {
        self.under_way.insert(key(page, kind), begun);
    }

    fn resolve(&mut self, task: TaskId, resolution: Option<Resolution>) {
        if let Some(row) = self.resolved.get_mut(task.index()) {
            *row = resolution;
        }
    }
}

impl Engine {
    /// Whether what happens is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.journal.recorder.is_some()
    }

    /// Moves out what was recorded; from then on nothing is.
    pub(crate) fn take_events(&mut self) -> Option<Events> {
        self.journal.recorder.take().map(|recorder| recorder.events)
    }

    /// What the tasks of clients are called, by slot.
    pub(crate) fn task_names(&self) -> Vec<Option<String>> {
        by_slot(self.tasks.iter().map(|(slot, task)| (slot, task.name.clone())))
    }

    /// What objects are called, by slot.
    pub(crate) fn object_names(&self) -> Vec<Option<String>> {
        let objects = self.objects.iter().flatten();
        by_slot(objects.map(|object| (object.id.index(), object.name.clone())))
    }

    /// What reservations are called, by slot.
    pub(crate) fn reservation_names(&self) -> Vec<Option<String>> {
        let reservations = self.reservations.iter().flatten();
        by_slot(reservations.map(|row| (row.id.index(), row.name.clone())))
    }

    /// A hold of the engine ends now, which was wanted and had at these nanoseconds.
    pub(crate) fn record_hold(&mut self, wanted: u64, from: u64) {
        let Some(recorder) = self.journal.recorder.as_deref_mut() else {
            return;
        };
        let (waited, to) = (from.saturating_sub(wanted), clock::now().as_nanos());
        recorder.events.happened.lock_hold(None, (from, to), waited);
    }

    /// The core has decided.
    pub(super) fn record_effect(&mut self, effect: &Effect) {
        let Some(recorder) = self.journal.recorder.as_deref_mut() else {
            return;
        };
        let since = self.step.now;
        recorder.events.happened.decided(since, effect);
        match *effect {
            // Nobody faulted on it; the task may wait for another page.
            Effect::Map {
                resolution: Resolution::Ahead,
                ..
            } => {}
            Effect::Map { task, resolution, .. } => recorder.resolve(task, Some(resolution)),
            Effect::Fail { task, .. } => recorder.resolve(task, None),
            Effect::WriteBack { page, .. } => recorder.begins(page, Request::Evict, Begun { since, task: None }),
            Effect::Fill {
                page,
                source: Source::Store,
                urgent,
            } => {
                let wait_slot = urgent.and_then(|task| self.tasks.wait_slot_name(task));
                let task = wait_slot.map(|wait_slot| slot(wait_slot.task));
                recorder.begins(page, Request::Fill, Begun { since, task });
            }
            _ => {}
        }
    }

    /// The core is told of an end. A page that stays was not transferred.
    pub(super) fn record_end(&mut self, Ended { page, request, end }: Ended) {
        let to = self.step.now;
        let Some(recorder) = self.journal.recorder.as_deref_mut() else {
            return;
        };
        let begun = recorder.under_way.remove(&key(page, request));
        if let Some(Begun { since, task }) = begun.filter(|_| end != End::Kept) {
            let happened = &mut recorder.events.happened;
            happened.transfer((page, request), (since, to), task, end == End::Failed);
        }
    }

    /// The fault of a wait slot is over; `from` and `to` in nanoseconds.
    pub(super) fn record_fault(
        &mut self,
        task: TaskKey,
        wait_slot: TaskId,
        page: (ObjectId, PageIndex),
        span: (u64, u64),
    ) {
        let Some(recorder) = self.journal.recorder.as_deref_mut() else {
            return;
        };
        let resolution = recorder.resolved.get_mut(wait_slot.index()).and_then(Option::take);
        let end = resolution.map_or(FaultEnd::Failed, FaultEnd::Resolved);
        let page = (page.0.index(), page.1);
        recorder.events.happened.fault(Some(slot(task)), span, page, end);
    }

    /// Takes a sample of all lists, if one is due. O(reservations + objects) then.
    pub(super) fn record_sample(&mut self) {
        let at = self.step.now.get();
        let due = |recorder: &&Recorder| recorder.next_sample <= at;
        if self.journal.recorder.as_deref().filter(due).is_none() {
            return;
        }
        let reservations = self.reservations.iter().flatten();
        let objects = self.objects.iter().flatten().filter(|row| row.memory().is_some());
        let pool = self.core.pool_view();
        let sample = SampleEvent {
            at,
            pool_free: pool.free.get(),
            pool_used: pool.memory_used.get(),
            reservations: reservations
                .filter_map(|row| Some((row.id, self.core.reservation(row.id)?)))
                .collect(),
            objects: objects
                .filter_map(|row| Some((row.id, self.core.resident(row.id)?.get())))
                .collect(),
        };
        if let Some(recorder) = self.journal.recorder.as_deref_mut() {
            recorder.next_sample = at.saturating_add(recorder.sample_step);
            let events = &mut recorder.events;
            keep(&mut events.samples, &mut events.happened.lost, sample);
        }
    }
}

/// As long as the last slot in use demands.
fn by_slot(names: impl Iterator<Item = (usize, String)>) -> Vec<Option<String>> {
    let mut list = Vec::new();
    for (slot, name) in names {
        if list.len() <= slot {
            list.resize(slot + 1, None);
        }
        if let Some(row) = list.get_mut(slot) {
            *row = Some(name);
        }
    }
    list
}

fn key(page: PageRef, kind: Request) -> (ObjectId, u32, bool) {
    (page.object(), page.page().get(), kind == Request::Evict)
}

/// The slot of a task: their table is shorter than 2^16.
fn slot(task: TaskKey) -> u16 {
    u16::try_from(task.index()).unwrap_or(u16::MAX)
}
