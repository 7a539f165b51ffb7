//! The recording of a run: the pager's events, the jobs and the samples, in the scenario's terms and its time.
//!
//! What goes on past the end of the run is cut off there; what was before time 0 is left out. The states of a task come
//! from its jobs and from the waits in its faults. Linux does not say when a thread had to give up its CPU; it shows
//! while the task computes ([`Computation`](crate::compute::Computation)), and only there. Time without a CPU that is
//! not seen counts as running, and is in the job's delays all the same.

pub(crate) mod embedded;

use freehold_core::units::Instant;
use freehold_linux::clock::MonotonicTime;
use freehold_pager::{EventCapacity, WaitEvent};
use freehold_rt::job::Job;
use freehold_scenario::recording::{
    Capacity, Eviction, FaultSpan, JobSpan, LockHold, Recording, Sample, TaskRecording, Transfer, keep,
};
use freehold_scenario::{Scenario, Task};

use crate::result;
use crate::run::Finished;
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
        shortest_wait: freehold_core::units::Duration::new(1),
    }
}

/// What the pager tells of a run, wherever it is.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    /// In the scenario's order.
    pub(crate) tasks: Vec<TaskHappened>,
    pub(crate) evictions: Vec<Eviction>,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) lock_holds: Vec<LockHold>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) lost: u64,
}

/// What it tells of one task.
#[derive(Debug, Default)]
pub(crate) struct TaskHappened {
    pub(crate) faults: Vec<FaultSpan>,
    /// By the monotonic clock, where it is not the thread itself that noted them.
    pub(crate) waits: Vec<WaitEvent>,
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

    /// Whether time 0 has been.
    pub(crate) fn has_begun(self, nanos: u64) -> bool {
        nanos >= self.origin
    }

    pub(crate) fn instant(self, instant: Instant) -> u64 {
        self.at(instant.get())
    }

    fn is_over(self, nanos: u64) -> bool {
        nanos.saturating_sub(self.origin) > self.duration
    }
}

/// Everything that was recorded.
pub(crate) fn recording(
    scenario: &Scenario,
    finished: &[Finished],
    happened: Happened,
    clock: RunClock,
    room: &Capacity,
) -> Recording {
    let mut recording = Recording::new(scenario.tasks.len());
    recording.lost = happened.lost;
    let tasks = scenario.tasks.iter().zip(finished).zip(happened.tasks);
    for (((spec, finished), happened), task) in tasks.zip(&mut recording.tasks) {
        let sources = TaskSources {
            spec,
            finished,
            happened,
        };
        *task = sources.recording(clock, room, &mut recording.lost);
    }
    let lost = &mut recording.lost;
    bounded(
        happened.evictions.into_iter(),
        &mut recording.evictions,
        room.evictions,
        lost,
    );
    bounded(
        happened.transfers.into_iter(),
        &mut recording.transfers,
        room.transfers,
        lost,
    );
    let mut holds = happened.lock_holds;
    holds.sort_by_key(|hold| hold.from_ns);
    bounded(holds.into_iter(), &mut recording.lock_holds, room.lock_holds, lost);
    bounded(happened.samples.into_iter(), &mut recording.samples, room.samples, lost);
    recording
}

fn bounded<T>(items: impl Iterator<Item = T>, list: &mut Vec<T>, room: usize, lost: &mut u64) {
    for item in items {
        keep(list, room, lost, item);
    }
}

/// What is known of one task.
struct TaskSources<'a> {
    spec: &'a Task,
    finished: &'a Finished,
    happened: TaskHappened,
}

impl TaskSources<'_> {
    fn recording(mut self, clock: RunClock, room: &Capacity, lost: &mut u64) -> TaskRecording {
        let mut recording = TaskRecording::default();
        let record = &self.finished.record;
        let jobs = record.jobs().iter().map(|job| self.job(job, clock));
        bounded(jobs, &mut recording.jobs, room.per_task_jobs, lost);
        let output = &self.finished.output;
        let noted = in_faults(&output.waits, &self.happened.faults, clock);
        self.happened.waits.extend(noted);
        let interruptions = spans::interruptions(&self.happened.waits, &output.preempted);
        let all_jobs = record.jobs().iter().chain(&record.open);
        let spans = spans::of(all_jobs, &interruptions, self.spec.period.is_some());
        let spans = spans
            .into_iter()
            .filter(|span| !clock.is_over(span.from_ns))
            .map(|mut span| {
                span.from_ns = clock.at(span.from_ns);
                span.to_ns = clock.at(span.to_ns);
                span
            });
        bounded(spans, &mut recording.spans, room.per_task_spans, lost);
        let faults = self.happened.faults.into_iter();
        bounded(faults, &mut recording.faults, room.per_task_faults, lost);
        if let Some(told) = &output.told {
            let (judgements, unkept) = told.judgements.kept();
            recording.pinning = judgements.to_vec();
            recording.pinning_lost = unkept;
            *lost += unkept;
        }
        *lost += record.unkept + output.preemptions_lost + output.waits_lost;
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
            deadline_ns: self
                .spec
                .deadline
                .map(|deadline| clock.at(job.release) + deadline.get()),
            missed: job.late,
            finished: job.finished,
            delays: result::delays(job),
        }
    }
}

/// The long accesses that were faults: any other is one whose thread lost its CPU. Both lists are ascending.
fn in_faults<'a>(
    waits: &'a [WaitEvent],
    faults: &'a [FaultSpan],
    clock: RunClock,
) -> impl Iterator<Item = WaitEvent> + use<'a> {
    let mut faults = faults.iter().peekable();
    waits.iter().copied().filter(move |wait| {
        let (from, to) = (clock.instant(wait.from), clock.instant(wait.to));
        while faults.next_if(|fault| fault.to_ns < from).is_some() {}
        faults.peek().is_some_and(|fault| fault.from_ns <= to)
    })
}
