//! What happened, event by event, for the run that this server was started for (`freehold run --report`, `--trace`).
//!
//! Buffers are allocated and touched before anybody connects. A full one keeps its first events and counts the others.
//! Where nothing is recorded each of the places below costs one branch. Times are those of the monotonic clock, which
//! is the client's too.

use crate::engine::keys::TaskKey;
use crate::engine::{End, Ended, Engine};
use crate::settings::Settings;
use freehold_core::effect::{Effect, Holder, Resolution, Scope, Source, UnmapReason};
use freehold_core::fact::{PageRef, Request};
use freehold_core::id::{ObjectId, ReservationId, TaskId};
use freehold_core::units::{Instant, PageIndex};
use freehold_core::view::ReservationView;
use freehold_linux::clock;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;

/// Holds of the engine shorter than this, in nanoseconds, that were waited for no longer, are left out.
const SHORTEST_HOLD: u64 = 2_000;

/// A fault, from its message on. It failed where there is no resolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultEvent {
    pub(crate) task: TaskKey,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) object: ObjectId,
    pub(crate) page: PageIndex,
    pub(crate) resolution: Option<Resolution>,
}

/// A page taken from its holder's lists; demotions are left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvictionEvent {
    pub(crate) at: u64,
    pub(crate) page: PageRef,
    /// Whose it was, where that is one holder.
    pub(crate) holder: Option<Holder>,
    pub(crate) reason: UnmapReason,
    pub(crate) write_back: bool,
}

/// A page that went to or came from the store or a file, from the core's request on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransferEvent {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) page: PageRef,
    pub(crate) kind: Request,
    pub(crate) failed: bool,
    /// Who waited for it, if anybody did.
    pub(crate) task: Option<TaskKey>,
}

/// A hold of the engine, by any thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldEvent {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) waited: u64,
}

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
    pub(crate) faults: Vec<FaultEvent>,
    pub(crate) evictions: Vec<EvictionEvent>,
    pub(crate) transfers: Vec<TransferEvent>,
    pub(crate) holds: Vec<HoldEvent>,
    pub(crate) samples: Vec<SampleEvent>,
    /// Events that found no room.
    pub(crate) lost: u64,
}

/// A transfer that is under way.
#[derive(Clone, Copy, Debug)]
struct Begun {
    since: Instant,
    task: Option<TaskKey>,
}

/// The buffers, and what is known of what has begun.
#[derive(Debug)]
pub(crate) struct Recorder {
    events: Events,
    under_way: BTreeMap<(ObjectId, u32, bool), Begun>,
    /// How the fault of each lane was resolved, by the core's task slots.
    resolved: Vec<Option<Resolution>>,
    sample_step: u64,
    next_sample: u64,
}

impl Recorder {
    /// Empty buffers, where something is to be recorded.
    pub(super) fn new(settings: &Settings) -> Option<Box<Self>> {
        let room = settings.recording.as_ref()?;
        Some(Box::new(Self {
            events: Events {
                faults: touched(room.faults),
                evictions: touched(room.evictions),
                transfers: touched(room.transfers),
                holds: touched(room.holds),
                samples: touched(room.samples),
                lost: 0,
            },
            under_way: BTreeMap::new(),
            resolved: vec![None; usize::from(settings.tasks)],
            sample_step: u64::try_from(room.sample_step.as_nanos()).unwrap_or(u64::MAX),
            next_sample: 0,
        }))
    }

    fn expelled(&mut self, page: PageRef, holder: Holder, write_back: bool) {
        // Its unmapping is the effect before this one.
        let last = self.events.evictions.last_mut().filter(|last| last.page == page);
        if let Some(last) = last {
            (last.holder, last.write_back) = (Some(holder), write_back);
        }
    }

    fn begins(&mut self, page: PageRef, kind: Request, begun: Begun) {
        self.under_way.insert(key(page, kind), begun);
    }

    fn unmapped(&mut self, at: u64, page: PageRef, from: Scope, reason: UnmapReason) {
        if reason == UnmapReason::Demotion {
            return;
        }
        let holder = match from {
            Scope::Everyone => None,
            Scope::Of(holder) => Some(holder),
        };
        let eviction = EvictionEvent {
            at,
            page,
            holder,
            reason,
            write_back: false,
        };
        keep(&mut self.events.evictions, &mut self.events.lost, eviction);
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
        self.recorder.is_some()
    }

    /// Moves out what was recorded; from then on nothing is.
    pub(crate) fn take_events(&mut self) -> Option<Events> {
        self.recorder.take().map(|recorder| recorder.events)
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
        let Some(recorder) = self.recorder.as_deref_mut() else {
            return;
        };
        let (waited, to) = (from.saturating_sub(wanted), clock::now().as_nanos());
        if waited >= SHORTEST_HOLD || to.saturating_sub(from) >= SHORTEST_HOLD {
            keep(
                &mut recorder.events.holds,
                &mut recorder.events.lost,
                HoldEvent { from, to, waited },
            );
        }
    }

    /// The core has decided.
    pub(super) fn record_effect(&mut self, effect: &Effect) {
        let Some(recorder) = self.recorder.as_deref_mut() else {
            return;
        };
        let since = self.now;
        match *effect {
            // Nobody faulted on it; the task may wait for another page.
            Effect::Map {
                resolution: Resolution::Ahead,
                ..
            } => {}
            Effect::Map { task, resolution, .. } => recorder.resolve(task, Some(resolution)),
            Effect::Fail { task, .. } => recorder.resolve(task, None),
            Effect::Unmap { page, from, reason } => recorder.unmapped(since.get(), page, from, reason),
            Effect::WriteBack { page, holder } => {
                recorder.expelled(page, holder, true);
                recorder.begins(page, Request::Evict, Begun { since, task: None });
            }
            Effect::Discard { page, holder } => recorder.expelled(page, holder, false),
            Effect::Fill {
                page,
                source: Source::Store,
                urgent,
            } => {
                let lane = urgent.and_then(|task| self.lanes.get(task.index()).copied().flatten());
                let task = lane.map(|lane| lane.task);
                recorder.begins(page, Request::Fill, Begun { since, task });
            }
            _ => {}
        }
    }

    /// The core is told of an end. A page that stays was not transferred.
    pub(super) fn record_end(&mut self, Ended { page, request, end }: Ended) {
        let to = self.now.get();
        let Some(recorder) = self.recorder.as_deref_mut() else {
            return;
        };
        let begun = recorder.under_way.remove(&key(page, request));
        if let Some(Begun { since, task }) = begun.filter(|_| end != End::Kept) {
            let transfer = TransferEvent {
                from: since.get(),
                to,
                page,
                kind: request,
                failed: end == End::Failed,
                task,
            };
            keep(&mut recorder.events.transfers, &mut recorder.events.lost, transfer);
        }
    }

    /// The fault of a lane is over; `from` and `to` in nanoseconds.
    pub(super) fn record_fault(&mut self, task: TaskKey, lane: TaskId, page: (ObjectId, PageIndex), span: (u64, u64)) {
        let Some(recorder) = self.recorder.as_deref_mut() else {
            return;
        };
        let fault = FaultEvent {
            task,
            from: span.0,
            to: span.1,
            object: page.0,
            page: page.1,
            resolution: recorder.resolved.get_mut(lane.index()).and_then(Option::take),
        };
        keep(&mut recorder.events.faults, &mut recorder.events.lost, fault);
    }

    /// Takes a sample of all lists, if one is due. O(reservations + objects) then.
    pub(super) fn record_sample(&mut self) {
        let at = self.now.get();
        let due = |recorder: &&Recorder| recorder.next_sample <= at;
        if self.recorder.as_deref().filter(due).is_none() {
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
        if let Some(recorder) = self.recorder.as_deref_mut() {
            recorder.next_sample = at.saturating_add(recorder.sample_step);
            keep(&mut recorder.events.samples, &mut recorder.events.lost, sample);
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

fn keep<T>(list: &mut Vec<T>, lost: &mut u64, item: T) {
    if list.len() < list.capacity() {
        list.push(item);
    } else {
        *lost = lost.saturating_add(1);
    }
}

/// An empty buffer whose memory is there: the kernel would otherwise give it page by page, in a step.
fn touched<T>(capacity: usize) -> Vec<T> {
    let mut buffer = Vec::with_capacity(capacity);
    buffer.spare_capacity_mut().fill_with(MaybeUninit::zeroed);
    buffer
}
