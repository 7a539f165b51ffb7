//! A run by the clock.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use freehold_linux::clock::{self, MonotonicTime};
use freehold_linux::program::{self, Kept};
use freehold_linux::stack;
use freehold_pager::{EnterError, Pace, TaskTimes};
use freehold_rt::class::Class;
use freehold_rt::record::Record;
use freehold_rt::runner;
use freehold_rt::stop::StopFlag;
use freehold_rt::timing::Timing;
use freehold_scenario::recording::{Capacity, Recording};
use freehold_scenario::results::RunResult;
use freehold_scenario::{Class as ScenarioClass, Scenario, Task};
use freehold_sim::Profile;

use crate::component_run;
use crate::device_memory::DeviceMemory;
use crate::error::LiveError;
use crate::placement::embedded::{Machine, choose_cpus};
use crate::placement::task_memory::PlacedTask;
use crate::recording::{self, embedded};
use crate::reporter::{PinnedTask, Reporter};
use crate::restorer::{Gate, Opener, Restorer};
use crate::result::{self, Counts};
use crate::sampler::{Sampled, Sampler};
use crate::start_delay;
use crate::steal_time::stolen;
use crate::usage::{self, Usage};
use crate::watch::Watch;
use crate::worker::{TaskOutput, Worker};

/// Stack of a task's thread.
const STACK: usize = 256 * 1024;

/// A run's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The document of `freehold run`.
    pub result: RunResult,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
    /// What happened, if that was asked for; never in lockstep, where there is no real time.
    pub recording: Option<Recording>,
}

/// What to do besides running.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Record what happens, so much at most. Takes the memory for it beforehand, beside the scenario's pool, and holds
    /// the core's lock for about a microsecond at each sample.
    pub recording: Option<Capacity>,
}

/// What a task's thread brings back.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) record: Record,
    pub(crate) output: TaskOutput,
    pub(crate) times: TaskTimes,
}

/// Runs a scenario on real pages, in as much time as it says. Raising `stop` ends it early, cleanly. Where a region
/// asks for `auto`, [`freehold_sim::decide`] decides first.
///
/// # Errors
/// [`LiveError`]: what is missing, or refused and by whom. Nothing is left behind.
pub fn run(scenario: &Scenario, stop: &AtomicBool) -> Result<Outcome, LiveError> {
    run_with(scenario, &Options::default(), stop)
}

/// As [`run`], with options.
///
/// # Errors
/// As [`run`].
pub fn run_with(scenario: &Scenario, options: &Options, stop: &AtomicBool) -> Result<Outcome, LiveError> {
    if let Some(transient) = &scenario.transient {
        return component_run::run(scenario, transient, stop);
    }
    decided(scenario, |scenario| run_decided(scenario, options, stop))
}

/// A server that is not of this run has not the run's devices.
pub(crate) fn refuse_devices(scenario: &Scenario) -> Result<(), LiveError> {
    if scenario.devices.is_empty() {
        Ok(())
    } else {
        Err(LiveError::Devices)
    }
}

/// Components have units of their own, which no server brings.
pub(crate) fn refuse_components(scenario: &Scenario) -> Result<(), LiveError> {
    if scenario.transient.is_none() {
        Ok(())
    } else {
        Err(LiveError::Components)
    }
}

/// Runs a scenario once `auto` is resolved.
pub(crate) fn decided(
    scenario: &Scenario,
    run: impl FnOnce(&Scenario) -> Result<Outcome, LiveError>,
) -> Result<Outcome, LiveError> {
    freehold_sim::run_decided(scenario, LiveError::Decision, run, |outcome| &mut outcome.result)
}

fn run_decided(scenario: &Scenario, options: &Options, stop: &AtomicBool) -> Result<Outcome, LiveError> {
    let cpus = choose_cpus(scenario)?;
    let capacity = options.recording;
    let events = capacity.map(|capacity| recording::event_capacity(scenario, &capacity));
    let machine = Machine::new(scenario, Pace::Clock, None, events)?;
    // What locks brought in was before time 0.
    drop(machine.pager.take_events());
    let flag = StopFlag::new();
    let watch = Watch {
        scenario,
        paging: &machine,
        flag: &flag,
        stop,
    };
    let stolen_before = stolen(&cpus);
    let socket = machine.devices.as_ref().map(DeviceMemory::socket);
    let run = || threads(watch, &cpus, capacity);
    let (started, openings) = machine.clients.beside(scenario, socket.unwrap_or(Path::new("")), run)?;
    let stolen = stolen(&cpus)
        .zip(stolen_before)
        .map(|(after, before)| after.saturating_sub(before));
    let counts = match started.counts {
        Some(counts) => counts,
        None => {
            machine.pager.settle()?;
            Counts::take(scenario, &machine, true)?
        }
    };
    machine.pager.settle()?;
    let recorded = machine.pager.take_events().zip(started.sampled);
    let recording = recorded.map(|(events, sampled)| {
        let (clock, room) = (sampled.clock, sampled.capacity);
        let happened = embedded::happened(&machine, events, sampled);
        recording::recording(scenario, &started.finished, happened, clock, &room)
    });
    let mut result = result::result(scenario, &machine, counts, started.finished, started.origin)?;
    let ((victim_cache, devices), watched) = machine.device_results(scenario, &openings);
    (result.victim_cache, result.devices) = (victim_cache, devices);
    result.laws.checked += watched.checked;
    result.laws.violations.extend(watched.violations);
    result.warnings.extend(start_delay::warning(scenario));
    result.warnings.extend(started.unlocked);
    result.warnings.extend(result::stolen_warning(&result.tasks, stolen));
    Ok(Outcome {
        result,
        stopped: flag.is_raised(),
        recording,
    })
}

/// Takes a profile on real pages: runs the scenario with room for everything ([`freehold_sim::ample`]), in as much time
/// as it says. `None` where `stop` was raised before the end.
///
/// # Errors
/// As [`run`]; the pool is as large as all that every reservation touches.
pub fn profile(scenario: &Scenario, stop: &AtomicBool) -> Result<Option<Profile>, LiveError> {
    let scenario = &freehold_sim::ample(scenario).map_err(LiveError::Decision)?;
    let cpus = choose_cpus(scenario)?;
    let machine = Machine::new(scenario, Pace::Clock, None, None)?;
    let flag = StopFlag::new();
    let watch = Watch {
        scenario,
        paging: &machine,
        flag: &flag,
        stop,
    };
    let started = threads(watch, &cpus, None)?;
    machine.pager.settle()?;
    let usages: Vec<Usage> = started.finished.into_iter().map(|task| task.output.usage).collect();
    Ok((!flag.is_raised()).then(|| usage::profile(scenario, &usages)))
}

/// What the threads and the watch brought home.
pub(crate) struct Started {
    pub(crate) counts: Option<Counts>,
    pub(crate) finished: Vec<Finished>,
    pub(crate) origin: MonotonicTime,
    pub(crate) sampled: Option<Sampled>,
    /// What is to be said where the program itself is not locked.
    pub(crate) unlocked: Option<String>,
}

/// Starts a thread for each task, lets all begin at once, and waits for them.
pub(crate) fn threads(watch: Watch<'_>, cpus: &[usize], capacity: Option<Capacity>) -> Result<Started, LiveError> {
    let scenario = watch.scenario;
    let unlocked = lock_program()?;
    let restorers = watch.paging.restorers(scenario);
    let gates: Vec<(usize, Gate)> = restorers.iter().map(|(owner, _)| (*owner, Gate::default())).collect();
    thread::scope(|scope| {
        let (ready, readiness) = mpsc::channel();
        let mut starts = Vec::new();
        let mut handles = Vec::new();
        for (position, placed) in watch.paging.seats().into_iter().enumerate() {
            let (start, begin) = mpsc::channel();
            starts.push(start);
            let ready = ready.clone();
            let gate = gates.iter().find(|(owner, _)| *owner == position);
            let thread = TaskThread {
                scenario,
                position,
                placed,
                cpus,
                flag: watch.flag,
                // Whichever way the thread ends, its restorer ends with it.
                opener: gate.map(|(_, gate)| Opener::new(gate)),
                recording: capacity,
            };
            let name = &scenario.tasks[position].name;
            handles.push(spawn(scope, name, move || thread.main(&ready, &begin))?);
        }
        drop(ready);
        let mut restoring = Vec::new();
        for ((owner, handle), (_, gate)) in restorers.iter().zip(&gates) {
            let restorer = Restorer::new(scenario, *owner, handle, gate);
            let name = &scenario.tasks[*owner].name;
            restoring.push((name, spawn(scope, name, move || restorer.main())?));
        }
        let origin = match start_all(&readiness, &starts, start_delay::lead(scenario)) {
            Ok(origin) => origin,
            Err(error) => {
                drop(starts);
                handles.into_iter().for_each(|handle| drop(handle.join()));
                return Err(error);
            }
        };
        let mut sampler = capacity.map(|capacity| Sampler::new(scenario, origin, capacity));
        let counts = watch.watch(origin, &handles, sampler.as_mut())?;
        let mut finished = Vec::new();
        for (position, handle) in handles.into_iter().enumerate() {
            let panicked = |_| LiveError::Panicked(scenario.tasks[position].name.clone());
            finished.extend(handle.join().map_err(panicked)?);
        }
        restoring.into_iter().try_for_each(end_restorer)?;
        Ok(Started {
            counts,
            finished,
            origin,
            sampled: sampler.map(Sampler::finish),
            unlocked,
        })
    })
}

/// Keeps the program itself in memory, after everything else has had its share of the limit on locked memory.
pub(crate) fn lock_program() -> Result<Option<String>, LiveError> {
    Ok(match program::lock().map_err(LiveError::Program)? {
        Kept::Locked => None,
        Kept::BroughtIn => Some(
            "the program's own code is not locked: a job waits for a page of it where the kernel has taken that away \
             (raise RLIMIT_MEMLOCK)"
                .to_owned(),
        ),
    })
}

/// The restorer of the named task has gone home, or does so now.
fn end_restorer((name, handle): (&String, ScopedJoinHandle<'_, Result<(), EnterError>>)) -> Result<(), LiveError> {
    let ended = handle.join().map_err(|_| LiveError::Panicked(name.clone()))?;
    ended.map_err(|reason| LiveError::Enter {
        name: name.clone(),
        reason,
    })
}

/// Starts a thread for a task. Where that fails, those that are there go home, because nobody tells them when to begin.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: &str,
    main: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, LiveError> {
    let builder = thread::Builder::new().name(name.chars().take(15).collect());
    let spawned = builder.stack_size(STACK).spawn_scoped(scope, main);
    spawned.map_err(|reason| LiveError::Thread {
        name: name.to_owned(),
        reason,
    })
}

/// Once all threads are ready, tells them when time 0 is.
pub(crate) fn start_all(
    readiness: &Receiver<Result<(), LiveError>>,
    starts: &[Sender<MonotonicTime>],
    lead: Duration,
) -> Result<MonotonicTime, LiveError> {
    for _ in starts {
        if let Ok(outcome) = readiness.recv() {
            outcome?;
        }
    }
    let origin = clock::now().saturating_add(lead);
    for start in starts {
        // A thread that is gone has reported why, above.
        let _ = start.send(origin);
    }
    Ok(origin)
}

/// What a task's thread needs.
struct TaskThread<'a> {
    scenario: &'a Scenario,
    position: usize,
    placed: PlacedTask<'a>,
    cpus: &'a [usize],
    flag: &'a StopFlag,
    /// Where it tells who restores for it.
    opener: Option<Opener<'a>>,
    /// Room for what is to be recorded, if anything is.
    recording: Option<Capacity>,
}

impl TaskThread<'_> {
    fn main(mut self, ready: &Sender<Result<(), LiveError>>, begin: &Receiver<MonotonicTime>) -> Option<Finished> {
        let name = || self.scenario.tasks[self.position].name.clone();
        let spec = &self.scenario.tasks[self.position];
        let pages = match self.placed.take() {
            Ok(pages) => pages,
            Err(reason) => {
                let _ = ready.send(Err(LiveError::Enter { name: name(), reason }));
                return None;
            }
        };
        let mut worker = Worker::new(self.scenario, self.position, pages, self.flag);
        if let Some(capacity) = self.recording {
            worker.note_interruptions(capacity.per_task_spans);
        }
        let judgements = self.recording.map(|capacity| capacity.per_task_jobs);
        let reporter = Reporter::new(self.scenario, self.position, judgements);
        let opener = self.opener.take();
        worker.tell_devices(self.placed.signals());
        worker.take_on(reporter.map(|reporter| PinnedTask::new(reporter, opener)));
        // Everything is allocated before the class is taken: from here on nothing waits for an allocator.
        let mut record = Record::for_timing(&timing(self.scenario, spec, MonotonicTime::from_nanos(0)));
        let present = stack::bring_in_current().map_err(LiveError::Program);
        let outcome = present.and_then(|()| take_class(spec, self.cpus, true));
        let failed = outcome.is_err();
        let _ = ready.send(outcome);
        let origin = begin.recv().ok().filter(|_| !failed)?;
        let timing = timing(self.scenario, spec, origin);
        worker.begin(origin, &timing);
        if !spec.is_idle() {
            runner::run(&timing, self.flag, &mut worker, &mut record);
        }
        let times = worker.times();
        Some(Finished {
            record,
            output: worker.output(),
            times,
        })
    }
}

/// When a task's jobs are released and end, from time 0 on.
pub(crate) fn timing(scenario: &Scenario, spec: &Task, origin: MonotonicTime) -> Timing {
    let at = |nanos: u64| origin.saturating_add(Duration::from_nanos(nanos));
    let end = spec.stop.get().min(scenario.duration.get());
    Timing {
        first: at(spec.first_release().get()),
        period: spec.period.map(|period| Duration::from_nanos(period.get())),
        deadline: spec.deadline.map(|deadline| Duration::from_nanos(deadline.get())),
        end: at(end),
    }
}

/// Gives the calling thread the task's CPUs, and its class; without `has_class` it stays an ordinary one.
pub(crate) fn take_class(spec: &Task, cpus: &[usize], has_class: bool) -> Result<(), LiveError> {
    let class = if has_class { class(spec) } else { Class::BestEffort };
    class.apply(&cpus_of(spec, cpus)).map_err(|reason| LiveError::Class {
        name: spec.name.clone(),
        reason,
    })
}

/// The CPUs that a task is kept on. Linux keeps no deadline thread on some CPUs; the result says so.
fn cpus_of(spec: &Task, cpus: &[usize]) -> Vec<usize> {
    if matches!(spec.class, ScenarioClass::Deadline) && spec.cpus.len() == cpus.len() {
        return Vec::new();
    }
    spec.cpus
        .iter()
        .filter_map(|&cpu| cpus.get(usize::try_from(cpu).ok()?).copied())
        .collect()
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
