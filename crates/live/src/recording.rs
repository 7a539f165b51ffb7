//! The recording of a run: the pager's events, the jobs and the samples, in the scenario's terms and its time.
//!
//! What goes on past the end of the run is cut off there; what was before time 0 is left out. The states of a task come
//! from its jobs and from the waits in its faults. Linux does not say when a thread had to give up its CPU; it shows
//! while the task computes ([`Computation`](crate::compute::Computation)), and only there. Time without a CPU that is
//! not seen counts as running, and is in the job's delays all the same.

use freehold_core::effect::{Holder, Resolution, UnmapReason};
use freehold_core::fact::Request;
use freehold_core::units::Instant;
use freehold_linux::clock::MonotonicTime;
use freehold_pager::{EventCapacity, Events, FaultEnd, FaultEvent, TaskEvents};
use freehold_rt::job::Job;
use freehold_scenario::Scenario;
use freehold_scenario::recording::{
    Capacity, Eviction, EvictionReason, FaultKind, FaultSpan, JobSpan, LockHold, Recording, TaskRecording, Transfer,
    TransferKind, keep,
};

use crate::collect;
use crate::machine::Machine;
use crate::run::Finished;
use crate::sampler::Sampled;
use crate::spans;

/// Holds of the core's lock shorter than this, for which nobody had waited, are not recorded.
const SHORTEST_HOLD: freehold_core::units::Duration = freehold_core::units::Duration::from_micros(2);
/// A thread's least share of the room for events that are kept together.
const LEAST_SHARE: usize = 1024;

/// What each thread of the pager keeps: of the events that are kept together, twice its even share, because nobody
/// knows beforehand whose they will be.
pub(crate) fn event_capacity(scenario: &Scenario, capacity: &Capacity) -> EventCapacity {
    let tasks = scenario.tasks.len().max(1);
    let share = |room: usize| room.min((room / tasks).saturating_mul(2).max(LEAST_SHARE));
    EventCapacity {
        faults: capacity.per_task_faults,
        waits: capacity.per_task_spans,
        evictions: share(capacity.evictions),
        transfers: share(capacity.transfers),
        lock_holds: share(capacity.lock_holds),
        shortest_hold: SHORTEST_HOLD,
    }
}

/// Nanoseconds since time 0, from the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock {
    origin: u64,
    duration: u64,
}

impl RunClock {
    pub(crate) fn new(scenario: &Scenario, origin: MonotonicTime) -> Self {
        Self {
            origin: origin.as_nanos(),
            duration: scenario.duration.get(),
        }
    }

    /// The time of the run, no later than its end.
    pub(crate) fn at(self, nanos: u64) -> u64 {
        nanos.saturating_sub(self.origin).min(self.duration)
    }

    fn instant(self, instant: Instant) -> u64 {
        self.at(instant.get())
    }

    fn is_over(self, nanos: u64) -> bool {
        nanos.saturating_sub(self.origin) > self.duration
    }
}

/// Everything that was recorded.
pub(crate) fn recording(
    scenario: &Scenario,
    machine: &Machine,
    finished: &[Finished],
    events: Events,
    sampled: Sampled,
) -> Recording {
    let names = Names::of(machine);
    let (clock, room) = (sampled.clock, sampled.capacity);
    let mut recording = Recording::new(scenario.tasks.len());
    recording.lost = events.lost + sampled.lost;
    for (position, finished) in finished.iter().enumerate() {
        let slot = machine.tasks[position].handle.id().index();
        let nothing = TaskEvents::default();
        let task = TaskSources {
            deadline: scenario.tasks[position].deadline.map(|deadline| deadline.get()),
            periodic: scenario.tasks[position].period.is_some(),
            finished,
            events: events.tasks.get(slot).unwrap_or(&nothing),
        };
        recording.tasks[position] = task.recording(clock, &room, &names, &mut recording.lost);
    }
    let evictions = events.evictions.iter().map(|eviction| names.eviction(eviction, clock));
    bounded(evictions, &mut recording.evictions, room.evictions, &mut recording.lost);
    let transfers = events.transfers.iter().map(|transfer| names.transfer(transfer, clock));
    bounded(transfers, &mut recording.transfers, room.transfers, &mut recording.lost);
    let holds = events.lock_holds.iter().map(|hold| names.lock_hold(hold, clock));
    let mut holds: Vec<LockHold> = holds.chain(sampled.holds).collect();
    holds.sort_by_key(|hold| hold.from_ns);
    bounded(
        holds.into_iter(),
        &mut recording.lock_holds,
        room.lock_holds,
        &mut recording.lost,
    );
    recording.samples = sampled.samples;
    recording
}

fn bounded<T>(items: impl Iterator<Item = T>, list: &mut Vec<T>, room: usize, lost: &mut u64) {
    for item in items {
        keep(list, room, lost, item);
    }
}

/// What is known of one task.
struct TaskSources<'a> {
    deadline: Option<u64>,
    periodic: bool,
    finished: &'a Finished,
    events: &'a TaskEvents,
}

impl TaskSources<'_> {
    fn recording(&self, clock: RunClock, room: &Capacity, names: &Names, lost: &mut u64) -> TaskRecording {
        let mut recording = TaskRecording::default();
        let record = &self.finished.record;
        let jobs = record.jobs().iter().map(|job| self.job(job, clock));
        bounded(jobs, &mut recording.jobs, room.per_task_jobs, lost);
        let interruptions = spans::interruptions(&self.events.waits, &self.finished.harvest.preempted);
        let all_jobs = record.jobs().iter().chain(&record.open);
        let spans = spans::of(all_jobs, &interruptions, self.periodic);
        let spans = spans
            .into_iter()
            .filter(|span| !clock.is_over(span.from_ns))
            .map(|mut span| {
                span.from_ns = clock.at(span.from_ns);
                span.to_ns = clock.at(span.to_ns);
                span
            });
        bounded(spans, &mut recording.spans, room.per_task_spans, lost);
        let faults = faults(&self.events.faults, names, clock);
        bounded(faults, &mut recording.faults, room.per_task_faults, lost);
        if let Some(told) = &self.finished.harvest.told {
            let (judgements, unkept) = told.judgements.kept();
            recording.pinning = judgements.to_vec();
            recording.pinning_lost = unkept;
            *lost += unkept;
        }
        *lost += record.unkept + self.finished.harvest.preemptions_lost;
        recording
    }

    fn job(&self, job: &Job, clock: RunClock) -> JobSpan {
        // One that never got to run begins where it ends.
        let began = job.finished || !job.cpu.is_zero();
        JobSpan {
            number: job.number,
            release_ns: clock.at(job.release),
            begin_ns: clock.at(if began { job.start } else { job.finish }),
            end_ns: clock.at(job.finish),
            deadline_ns: self.deadline.map(|deadline| clock.at(job.release) + deadline),
            missed: job.late,
            finished: job.finished,
            delays: collect::delays(job),
        }
    }
}

/// A fault that was let go to fault afresh is one with the next.
fn faults<'a>(events: &'a [FaultEvent], names: &'a Names, clock: RunClock) -> impl Iterator<Item = FaultSpan> + 'a {
    let mut again: Option<&FaultEvent> = None;
    events.iter().filter_map(move |event| {
        let kind = match event.end {
            FaultEnd::Again => {
                again.get_or_insert(event);
                return None;
            }
            FaultEnd::Failed => FaultKind::Failed,
            FaultEnd::Resolved(resolution) => kind_of(resolution),
        };
        let page = (event.object, event.page);
        let first = again.take().filter(|first| (first.object, first.page) == page);
        Some(FaultSpan {
            from_ns: clock.instant(first.unwrap_or(event).from),
            to_ns: clock.instant(event.to),
            region: names.region(event.object),
            page: event.page.get(),
            kind,
        })
    })
}

fn kind_of(resolution: Resolution) -> FaultKind {
    match resolution {
        // Embedded, nothing is mapped ahead of a fault.
        Resolution::Soft | Resolution::Ahead => FaultKind::Soft,
        Resolution::ZeroFill => FaultKind::ZeroFill,
        Resolution::SwapIn { shared: false } => FaultKind::SwapIn,
        Resolution::SwapIn { shared: true } => FaultKind::SharedSwapIn,
        Resolution::FileRead => FaultKind::FileRead,
        Resolution::Copy => FaultKind::Copy,
        Resolution::Upgrade => FaultKind::Upgrade,
    }
}

/// The scenario's positions of what the pager names by its slots.
struct Names {
    tasks: Vec<usize>,
    regions: Vec<usize>,
    reservations: Vec<usize>,
}

impl Names {
    fn of(machine: &Machine) -> Self {
        Self {
            tasks: machine.tasks.iter().map(|task| task.handle.id().index()).collect(),
            regions: machine.objects.iter().map(|object| object.index()).collect(),
            reservations: machine.reservations.iter().map(|id| id.index()).collect(),
        }
    }

    /// Of the scenario's tasks; those that only keep regions mapped have none.
    fn task(&self, slot: Option<u16>) -> Option<u16> {
        position(&self.tasks, usize::from(slot?))
    }

    fn region(&self, object: u16) -> u16 {
        // All objects are regions.
        position(&self.regions, usize::from(object)).unwrap_or(object)
    }

    fn eviction(&self, event: &freehold_pager::EvictionEvent, clock: RunClock) -> Eviction {
        Eviction {
            at_ns: clock.instant(event.at),
            region: self.region(event.object),
            page: event.page.get(),
            reservation: match event.holder {
                Some(Holder::Reservation(id)) => position(&self.reservations, id.index()),
                Some(Holder::Pool) | None => None,
            },
            reason: match event.reason {
                UnmapReason::Demotion => EvictionReason::Demotion,
                UnmapReason::Eviction => EvictionReason::Eviction,
                UnmapReason::TakenBack => EvictionReason::TakenBack,
                UnmapReason::Left => EvictionReason::Left,
                UnmapReason::Copied => EvictionReason::Copied,
            },
            write_back: event.write_back,
        }
    }

    fn transfer(&self, event: &freehold_pager::TransferEvent, clock: RunClock) -> Transfer {
        Transfer {
            from_ns: clock.instant(event.from),
            to_ns: clock.instant(event.to),
            region: self.region(event.object),
            page: event.page.get(),
            kind: match event.kind {
                Request::Fill => TransferKind::Read,
                Request::Evict => TransferKind::Write,
            },
            failed: event.failed,
            task: self.task(event.task),
        }
    }

    fn lock_hold(&self, event: &freehold_pager::LockHoldEvent, clock: RunClock) -> LockHold {
        LockHold {
            from_ns: clock.instant(event.from),
            to_ns: clock.instant(event.to),
            waited_ns: event.waited.get(),
            task: self.task(event.task),
        }
    }
}

fn position(slots: &[usize], slot: usize) -> Option<u16> {
    let position = slots.iter().position(|&other| other == slot)?;
    u16::try_from(position).ok()
}
