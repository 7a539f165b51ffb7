//! What happened when, for pictures and traces: the part of a recording that is not of jobs. It listens and changes
//! nothing.

use std::collections::VecDeque;

use freehold_core::effect::Effect;
use freehold_core::units::Instant;
use freehold_driver::{EvictionEvent, Evictions};
use freehold_scenario::Scenario;
use freehold_scenario::recording::{
    Capacity, Eviction, FaultKind, FaultSpan, Recording, ReservationCounts, Sample, Transfer, TransferKind, keep,
};

use crate::world::{FaultEnd, World};

/// Writes a recording while the run goes on; `None` inside: nobody asked for one.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    inner: Option<Box<Inner>>,
}

#[derive(Debug)]
struct Inner {
    recording: Recording,
    room: Capacity,
    end: u64,
    faults: Vec<TaskFaults>,
    /// The number of the sample to be taken next.
    next_sample: u64,
    told: Evictions,
}

/// The faults of one task that are not over.
#[derive(Debug, Default)]
struct TaskFaults {
    /// Since when the access under way has been held up.
    open: Option<u64>,
    /// Faults whose service is not paid yet: the position in the record, and what is left.
    unpaid: VecDeque<(Option<usize>, u64)>,
    /// What a fault cost that is tried again.
    handed_on: u64,
}

impl EventLog {
    pub(crate) fn new(scenario: &Scenario, room: Option<Capacity>) -> Self {
        let inner = room.map(|room| {
            Box::new(Inner {
                recording: Recording::new(scenario.tasks.len()),
                room,
                end: scenario.duration.get(),
                faults: scenario.tasks.iter().map(|_| TaskFaults::default()).collect(),
                next_sample: 0,
                told: Evictions::default(),
            })
        });
        Self { inner }
    }

    /// The recording so far; the log is empty and deaf afterwards. Transfers under way end with the run.
    pub(crate) fn take(&mut self) -> Option<Recording> {
        let mut inner = self.inner.take()?;
        for transfer in &mut inner.recording.transfers {
            transfer.to_ns = transfer.to_ns.min(inner.end);
        }
        inner.recording.sort();
        Some(inner.recording)
    }

    /// A task's access is held up; restorers are left out. Where it was before, and the page went again before the
    /// task could use it, what the last fault cost and is not paid yet belongs to this one.
    pub(crate) fn fault(&mut self, now: u64, task: usize) {
        let Some(inner) = &mut self.inner else { return };
        if task >= inner.faults.len() {
            return;
        }
        let (faults, list) = (&mut inner.faults[task], &inner.recording.tasks[task].faults);
        if faults.open.is_none() {
            let last = faults.unpaid.back().and_then(|(position, _)| list.get((*position)?));
            if last.is_some_and(|last| last.to_ns < now) {
                faults.handed_on += faults.unpaid.drain(..).map(|(_, left)| left).sum::<u64>();
            }
            faults.open = Some(now);
        }
    }

    /// A fault ended. One that is only to be tried again goes on.
    pub(crate) fn fault_ended(&mut self, now: u64, task: usize, page: (usize, u32), end: FaultEnd) {
        let Some(inner) = self.inner.as_mut().filter(|inner| task < inner.faults.len()) else {
            return;
        };
        let Some(kind) = kind(end) else { return };
        let fault = FaultSpan {
            from_ns: inner.faults[task].open.take().unwrap_or(now),
            to_ns: now,
            region: narrow(page.0),
            page: page.1,
            kind,
        };
        let (list, room) = (&mut inner.recording.tasks[task].faults, inner.room.per_task_faults);
        let position = (list.len() < room).then_some(list.len());
        keep(list, room, &mut inner.recording.lost, fault);
        inner.faults[task].unpaid.push_back((position, 0));
    }

    /// What the task's latest fault costs. One that is tried again hands its cost on.
    pub(crate) fn fault_costs(&mut self, task: usize, end: FaultEnd, cost: u64) {
        let Some(inner) = &mut self.inner else { return };
        let faults = &mut inner.faults[task];
        if end == FaultEnd::Retry {
            faults.handed_on += cost;
        } else if let Some((_, left)) = faults.unpaid.back_mut() {
            *left = cost + std::mem::take(&mut faults.handed_on);
        }
    }

    /// From `start` on a task paid so much for its faults: each lasts until it is paid, and the next one begins then.
    pub(crate) fn fault_served(&mut self, start: u64, task: usize, mut paid: u64) {
        let Some(inner) = &mut self.inner else { return };
        let (faults, list) = (&mut inner.faults[task], &mut inner.recording.tasks[task].faults);
        let mut now = start;
        while let Some((position, left)) = faults.unpaid.front_mut() {
            let part = paid.min(*left);
            (paid, *left, now) = (paid - part, *left - part, now + part);
            if let Some(fault) = position.and_then(|position| list.get_mut(position)) {
                fault.to_ns = fault.to_ns.max(now);
            }
            if *left > 0 {
                return;
            }
            faults.unpaid.pop_front();
            let next = faults.unpaid.front().and_then(|(position, _)| *position);
            if let Some(fault) = next.and_then(|position| list.get_mut(position)) {
                (fault.from_ns, fault.to_ns) = (fault.from_ns.max(now), fault.to_ns.max(now));
            }
        }
    }

    /// The core has decided: what left the lists of whom, if it is a page, for [`EventLog::evicted`].
    pub(crate) fn decided(&mut self, now: u64, effect: &Effect) -> Option<EvictionEvent> {
        self.inner.as_mut()?.told.told(Instant::new(now), effect)
    }

    /// A page has left the lists of this reservation, or of the pool.
    pub(crate) fn evicted(&mut self, event: &EvictionEvent, region: usize, reservation: Option<usize>) {
        let Some(inner) = &mut self.inner else { return };
        let eviction = Eviction {
            at_ns: event.at.get(),
            region: narrow(region),
            page: event.page.get(),
            reservation: reservation.map(narrow),
            reason: event.reason.into(),
            write_back: event.write_back,
        };
        let recording = &mut inner.recording;
        keep(
            &mut recording.evictions,
            inner.room.evictions,
            &mut recording.lost,
            eviction,
        );
    }

    /// A page is asked from or handed to the store. Returns what to end the transfer with.
    pub(crate) fn transfer(&mut self, now: u64, place: (usize, u32), kind: TransferKind) -> Option<usize> {
        let inner = self.inner.as_mut()?;
        let transfer = Transfer {
            from_ns: now,
            to_ns: u64::MAX,
            region: narrow(place.0),
            page: place.1,
            kind,
            failed: false,
            task: None,
        };
        let list = &mut inner.recording.transfers;
        let position = (list.len() < inner.room.transfers).then_some(list.len());
        keep(list, inner.room.transfers, &mut inner.recording.lost, transfer);
        position
    }

    /// A transfer has ended.
    pub(crate) fn transferred(&mut self, now: u64, position: Option<usize>, failed: bool) {
        let list = self.inner.as_mut().map(|inner| &mut inner.recording.transfers);
        let found = list.zip(position).and_then(|(list, position)| list.get_mut(position));
        if let Some(transfer) = found {
            (transfer.to_ns, transfer.failed) = (now, failed);
        }
    }
}

impl Inner {
    /// The instant of the next sample: the first at time 0, the last at the end.
    fn sample_due(&self) -> Option<u64> {
        let last = u64::try_from(self.room.samples).ok()?.checked_sub(1)?;
        if self.next_sample > last {
            return None;
        }
        let at = u128::from(self.end) * u128::from(self.next_sample) / u128::from(last.max(1));
        u64::try_from(at).ok()
    }
}

impl World<'_> {
    /// Takes the samples that are due by `now`. Lists change only with facts, so what is true now was true at the
    /// instants since the last one.
    pub(crate) fn sample(&mut self, now: u64) {
        while let Some(at_ns) = self.sample_due().filter(|at| *at <= now) {
            let sample = self.sample_at(at_ns);
            if let Some(inner) = &mut self.log.inner {
                inner.recording.samples.push(sample);
                inner.next_sample += 1;
            }
        }
    }

    fn sample_due(&self) -> Option<u64> {
        self.log.inner.as_ref()?.sample_due()
    }

    fn sample_at(&self, at_ns: u64) -> Sample {
        let view = |id: &Option<freehold_core::id::ReservationId>| id.and_then(|id| self.memory.reservation(id));
        let reservations = self.names.reservations.iter();
        let pool = self.memory.pool_view();
        Sample {
            at_ns,
            reservations: reservations
                .map(|id| ReservationCounts::from(&view(id).unwrap_or_default()))
                .collect(),
            pool_free: u64::from(pool.free.get()),
            pool_used: u64::from(pool.memory_used.get()),
            regions_resident: (0..self.scenario.regions.len())
                .map(|region| self.physical.resident(region))
                .collect(),
        }
    }
}

fn kind(end: FaultEnd) -> Option<FaultKind> {
    match end {
        FaultEnd::Retry => None,
        FaultEnd::Failed(_) => Some(FaultKind::Failed),
        FaultEnd::Mapped(resolution) => Some(resolution.into()),
    }
}

/// Positions are below `MAX_ENTRIES`.
fn narrow(position: usize) -> u16 {
    u16::try_from(position).unwrap_or(u16::MAX)
}
