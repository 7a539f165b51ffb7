//! A run by the clock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_pager::{Pace, TaskTimes};
use freehold_rt::class::Class;
use freehold_rt::record::Record;
use freehold_rt::runner;
use freehold_rt::stop::StopFlag;
use freehold_rt::timing::Timing;
use freehold_scenario::results::RunResult;
use freehold_scenario::{Class as ScenarioClass, Scenario, Task};

use crate::collect::{self, Counts};
use crate::error::LiveError;
use crate::machine::{LiveTask, Machine, choose_cpus};
use crate::worker::{Harvest, Worker};

/// Time between the last thread's being ready and time 0.
const LEAD: Duration = Duration::from_millis(20);
/// How often the stop flag of the caller is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Stack of a task's thread.
const STACK: usize = 256 * 1024;

/// A run's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The document of `freehold run`.
    pub result: RunResult,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
}

/// What a task's thread brings back.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) record: Record,
    pub(crate) harvest: Harvest,
    pub(crate) times: TaskTimes,
}

/// Runs a scenario on real pages, in as much time as it says. Raising `stop` ends it early, cleanly.
///
/// # Errors
/// [`LiveError`]: what is missing, or refused and by whom. Nothing is left behind.
pub fn run(scenario: &Scenario, stop: &AtomicBool) -> Result<Outcome, LiveError> {
    let cpus = choose_cpus(scenario)?;
    let machine = Machine::new(scenario, Pace::Clock, None)?;
    let flag = StopFlag::new();
    let (counts, finished, origin) = threads(scenario, &machine, &cpus, &flag, stop)?;
    let counts = match counts {
        Some(counts) => counts,
        None => {
            machine.pager.settle()?;
            Counts::take(scenario, &machine, true)?
        }
    };
    machine.pager.settle()?;
    let stopped = flag.is_raised();
    let result = collect::result(scenario, &machine, counts, finished, origin)?;
    Ok(Outcome { result, stopped })
}

type Started = (Option<Counts>, Vec<Finished>, MonotonicTime);

/// Starts a thread for each task, lets all begin at once, and waits for them.
fn threads(
    scenario: &Scenario,
    machine: &Machine,
    cpus: &[usize],
    flag: &StopFlag,
    stop: &AtomicBool,
) -> Result<Started, LiveError> {
    thread::scope(|scope| {
        let (ready, readiness) = mpsc::channel();
        let mut starts = Vec::new();
        let mut handles = Vec::new();
        for (position, task) in machine.tasks.iter().enumerate() {
            let (start, begin) = mpsc::channel();
            starts.push(start);
            let ready = ready.clone();
            let thread = TaskThread {
                scenario,
                position,
                task,
                cpus,
                flag,
            };
            let spawned = thread::Builder::new()
                .name(scenario.tasks[position].name.chars().take(15).collect())
                .stack_size(STACK)
                .spawn_scoped(scope, move || thread.main(&ready, &begin));
            match spawned {
                Ok(handle) => handles.push(handle),
                Err(reason) => {
                    // Dropping the senders sends the threads that are there home.
                    return Err(LiveError::Thread {
                        name: scenario.tasks[position].name.clone(),
                        reason,
                    });
                }
            }
        }
        drop(ready);
        let origin = match start_all(&readiness, &starts, machine.tasks.len()) {
            Ok(origin) => origin,
            Err(error) => {
                drop(starts);
                handles.into_iter().for_each(|handle| drop(handle.join()));
                return Err(error);
            }
        };
        let counts = watch(scenario, machine, origin, &handles, flag, stop)?;
        let mut finished = Vec::new();
        for (position, handle) in handles.into_iter().enumerate() {
            let panicked = |_| LiveError::Panicked(scenario.tasks[position].name.clone());
            finished.extend(handle.join().map_err(panicked)?);
        }
        Ok((counts, finished, origin))
    })
}

/// Once all threads are ready, tells them when time 0 is.
fn start_all(
    readiness: &Receiver<Result<(), LiveError>>,
    starts: &[Sender<MonotonicTime>],
    tasks: usize,
) -> Result<MonotonicTime, LiveError> {
    for _ in 0..tasks {
        if let Ok(outcome) = readiness.recv() {
            outcome?;
        }
    }
    let origin = clock::now().saturating_add(LEAD);
    for start in starts {
        // A thread that is gone has reported why, above.
        let _ = start.send(origin);
    }
    Ok(origin)
}

/// Passes the caller's stop on while threads run, and takes the counts where the last full hyperperiod ends before
/// the run does.
fn watch(
    scenario: &Scenario,
    machine: &Machine,
    origin: MonotonicTime,
    handles: &[ScopedJoinHandle<'_, Option<Finished>>],
    flag: &StopFlag,
    stop: &AtomicBool,
) -> Result<Option<Counts>, LiveError> {
    let early = scenario.counts_at().get() < scenario.duration.get();
    let counts_at = origin.saturating_add(Duration::from_nanos(scenario.counts_at().get()));
    let mut counts = None;
    while handles.iter().any(|handle| !handle.is_finished()) {
        let now = clock::now();
        if early && counts.is_none() && now >= counts_at {
            counts = Some(Counts::take(scenario, machine, false)?);
        }
        if stop.load(Ordering::Relaxed) {
            flag.raise();
        }
        let due = if early && counts.is_none() {
            counts_at.saturating_since(now).min(LOOK)
        } else {
            LOOK
        };
        clock::sleep_until(now.saturating_add(due));
    }
    Ok(counts.filter(|_| !flag.is_raised()))
}

/// What a task's thread needs.
struct TaskThread<'a> {
    scenario: &'a Scenario,
    position: usize,
    task: &'a LiveTask,
    cpus: &'a [usize],
    flag: &'a StopFlag,
}

impl TaskThread<'_> {
    fn main(&self, ready: &Sender<Result<(), LiveError>>, begin: &Receiver<MonotonicTime>) -> Option<Finished> {
        let name = || self.scenario.tasks[self.position].name.clone();
        let spec = &self.scenario.tasks[self.position];
        let bound = match self.task.handle.enter() {
            Ok(bound) => bound,
            Err(reason) => {
                let _ = ready.send(Err(LiveError::Enter { name: name(), reason }));
                return None;
            }
        };
        let mut worker = Worker::new(self.scenario, self.position, &bound, &self.task.regions, self.flag);
        // Everything is allocated before the class is taken: from here on nothing waits for an allocator.
        let timing = self.timing(spec, MonotonicTime::from_nanos(0));
        let mut record = Record::for_timing(&timing);
        let outcome = class(spec).apply(&self.cpus_of(spec));
        let failed = outcome.is_err();
        let _ = ready.send(outcome.map_err(|reason| LiveError::Class { name: name(), reason }));
        let origin = begin.recv().ok().filter(|_| !failed)?;
        let timing = self.timing(spec, origin);
        worker.end_at(timing.end);
        if !spec.is_idle() {
            runner::run(&timing, self.flag, &mut worker, &mut record);
        }
        let times = bound.task().times();
        Some(Finished {
            record,
            harvest: worker.harvest(),
            times,
        })
    }

    fn timing(&self, spec: &Task, origin: MonotonicTime) -> Timing {
        let at = |nanos: u64| origin.saturating_add(Duration::from_nanos(nanos));
        let end = spec.stop.get().min(self.scenario.duration.get());
        Timing {
            first: at(spec.first_release().get()),
            period: spec.period.map(|period| Duration::from_nanos(period.get())),
            deadline: spec.deadline.map(|deadline| Duration::from_nanos(deadline.get())),
            end: at(end),
        }
    }

    /// The CPUs that the task is kept on. Linux keeps no deadline thread on some CPUs; the result says so.
    fn cpus_of(&self, spec: &Task) -> Vec<usize> {
        if matches!(spec.class, ScenarioClass::Deadline) && spec.cpus.len() == self.cpus.len() {
            return Vec::new();
        }
        spec.cpus
            .iter()
            .filter_map(|&cpu| self.cpus.get(usize::try_from(cpu).ok()?).copied())
            .collect()
    }
}

fn class(spec: &Task) -> Class {
    let span = |span: Option<freehold_core::units::Duration>| Duration::from_nanos(span.map_or(0, |span| span.get()));
    match spec.class {
        ScenarioClass::Fifo { priority } => Class::Fifo {
            priority: u32::from(priority),
        },
        ScenarioClass::Deadline => Class::Deadline {
            runtime: span(spec.budget),
            deadline: span(spec.deadline),
            period: span(spec.period),
        },
        ScenarioClass::BestEffort => Class::BestEffort,
    }
}
