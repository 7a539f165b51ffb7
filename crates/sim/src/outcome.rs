//! What a run gives.

use freehold_core::units::Instant;
use freehold_scenario::recording::Recording;
use freehold_scenario::results::{Engine as EngineKind, RunHead, RunResult, TaskResult};
use freehold_scenario::{Scenario, setup};

use crate::advice::run_decided;
use crate::component;
use crate::counts::Counts;
use crate::engine::Engine;
use crate::error::SimError;
use crate::history::Interval;
use crate::lockstep::Schedule;
use crate::options::Options;
use crate::pinned::Pinned;
use crate::runner::Runner;
use crate::sequence::PageEvent;
use crate::usage::Usage;

/// A run: its result, and whatever [`Options`] asked to record.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The document of `freehold run`. Faults, evictions, lists, residency and the store are counted at
    /// [`counted_at`](Self::counted_at); jobs, misses and times are those of the whole run.
    pub result: RunResult,
    /// When counts were taken: the end of the last full hyperperiod, or of the run.
    pub counted_at: Instant,
    /// What the document has no field for, for each task.
    pub extras: Vec<TaskExtras>,
    /// For each task, what it did when; empty unless asked for.
    pub history: Vec<Vec<Interval>>,
    /// The order of everything; `None` unless asked for.
    pub schedule: Option<Schedule>,
    /// For each reservation, the pages it faulted on and evicted, in order, to the end of the run; empty unless asked
    /// for.
    pub sequences: Vec<Vec<PageEvent>>,
    /// What happened when, to the end of the run; `None` unless asked for.
    pub recording: Option<Recording>,
}

/// What the document has no field for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskExtras {
    /// Accesses that ended with an error: the page could not be read, or no frame could be had for it. The access was
    /// left out and the job went on. Counted to the end of the run.
    pub errors: u64,
    /// Pages of files read for the first time.
    pub file_reads: u64,
    /// Pages copied on write.
    pub copies: u64,
}

impl Outcome {
    /// Whether every law held.
    #[must_use]
    pub fn laws_hold(&self) -> bool {
        self.result.laws.violations.is_empty()
    }
}

/// Runs a scenario in virtual time.
///
/// The same scenario and options always give the same outcome. Where a region asks for `auto`,
/// [`decide`](crate::decide) decides first; the result says how.
///
/// ```
/// use freehold_scenario::Scenario;
/// use freehold_sim::{Options, simulate};
///
/// let text = r#"
/// name = "one-task"
/// duration = "1s"
/// memory.pool = "1MiB"
/// [[region]]
/// name = "data"
/// size = "400KiB"
/// [[reservation]]
/// name = "r1"
/// size = "512KiB"
/// [[task]]
/// name = "tau1"
/// reservation = "r1"
/// period = "100ms"
/// budget = "40ms"
/// [[task.access]]
/// region = "data"
/// "#;
/// let scenario = Scenario::parse(text, "one-task.toml")?;
/// let outcome = simulate(&scenario, &Options::default())?;
/// let task = &outcome.result.tasks[0];
/// assert_eq!((task.jobs, task.misses, task.faults.zero_fills), (10, 0, 100));
/// assert!(outcome.laws_hold());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SimError`] where the core refuses what the scenario asks for, with the core's reason.
pub fn simulate(scenario: &Scenario, options: &Options) -> Result<Outcome, SimError> {
    if let Some(transient) = &scenario.transient {
        return component::simulate(scenario, transient, options);
    }
    let run = |decided: &Scenario| run(decided, options);
    run_decided(scenario, |refused| refused, run, |outcome| &mut outcome.result)
}

/// As [`simulate`], everything decided.
fn run(scenario: &Scenario, options: &Options) -> Result<Outcome, SimError> {
    let mut engine = Engine::new(scenario, options)?;
    engine.run()?;
    let sequences = engine.world.sequences.take();
    let schedule = engine.recorder.finish();
    let recording = engine.world.log.take();
    engine.settle();
    let recorded = Recorded {
        schedule,
        sequences,
        recording,
    };
    Ok(report(scenario, options, engine, recorded))
}

/// What was recorded until the end of the run.
struct Recorded {
    schedule: Option<Schedule>,
    sequences: Vec<Vec<PageEvent>>,
    recording: Option<Recording>,
}

fn report(scenario: &Scenario, options: &Options, engine: Engine<'_>, mut recorded: Recorded) -> Outcome {
    let counts = engine.counts.unwrap_or_default();
    let reports: Vec<TaskReport> = (engine.runners.into_iter().enumerate())
        .map(|(position, runner)| TaskReport::of(scenario, position, runner, &counts, recorded.recording.as_mut()))
        .collect();
    let jobs: Vec<u64> = reports.iter().map(|report| report.ended).collect();
    let extras: Vec<TaskExtras> = reports.iter().map(|report| report.extras).collect();
    let usage = Usage {
        scenario,
        tables: &engine.world.tables,
        jobs: &jobs,
    };
    let resident = |region: usize| counts.resident.get(region).copied().unwrap_or_default();
    let regions = (0..scenario.regions.len())
        .map(|region| usage.region(region, resident(region)))
        .collect();
    let (tasks, history): (Vec<_>, Vec<_>) = reports
        .into_iter()
        .map(|report| (report.result, report.history))
        .unzip();
    let result = RunResult {
        head: RunHead::of(scenario, EngineKind::Sim, None),
        tasks,
        reservations: counts.reservations,
        regions,
        memory: counts.memory,
        store: counts.store,
        victim_cache: counts.victim_cache,
        devices: counts.devices,
        transient: None,
        laws: engine.world.laws.into_laws(),
        lock: None,
        warnings: warnings(scenario, options, &extras),
    };
    let history = history.into_iter().flatten().collect();
    Outcome {
        result,
        counted_at: scenario.counts_at(),
        extras,
        history,
        schedule: recorded.schedule,
        sequences: recorded.sequences,
        recording: recorded.recording,
    }
}

/// What is to be said of one task.
struct TaskReport {
    result: TaskResult,
    extras: TaskExtras,
    /// Jobs that ended.
    ended: u64,
    history: Option<Vec<Interval>>,
}

impl TaskReport {
    fn of(
        scenario: &Scenario,
        position: usize,
        runner: Runner,
        counts: &Counts,
        recording: Option<&mut Recording>,
    ) -> Self {
        let end = scenario.duration.get();
        let counted = counts.tasks.get(position).copied().unwrap_or_default();
        let (mut account, pinned) = (runner.account, runner.pinned);
        let ended = account.ended();
        account.close(end);
        let history = account.ledger.finish(end);
        if let Some(recording) = recording {
            let (mut task, lost) = account.take_recording();
            (task.pinning, task.pinning_lost) = pinned.as_ref().map(Pinned::recording).unwrap_or_default();
            recording.lost = recording.lost.saturating_add(lost).saturating_add(task.pinning_lost);
            if let Some(place) = recording.tasks.get_mut(position) {
                task.faults = std::mem::take(&mut place.faults);
                *place = task;
            }
        }
        let extras = TaskExtras {
            errors: account.errors,
            file_reads: counted.file_reads,
            copies: counted.copies,
        };
        let mut result = TaskResult::of(scenario, position);
        account.report(&mut result);
        setup::set_task_counts(&mut result, &counted);
        if let Some(pinned) = &pinned {
            pinned.set_result(&mut result);
            set_pool(scenario, position, counts, &mut result);
        }
        Self {
            result,
            extras,
            ended,
            history,
        }
    }
}

/// What the counts say of a task's pinned page pool.
fn set_pool(scenario: &Scenario, position: usize, counts: &Counts, result: &mut TaskResult) {
    let Some(pool) = counts.pools.get(position).copied().flatten() else {
        return;
    };
    setup::set_pinned_pool(result, &pool);
    let restorer = setup::restorers(scenario).position(|owner| owner == position);
    let restorer = restorer.and_then(|number| counts.tasks.get(scenario.tasks.len() + number));
    result.pinned.restored = restorer.map_or(0, |restorer| restorer.swap_ins);
}

fn warnings(scenario: &Scenario, options: &Options, extras: &[TaskExtras]) -> Vec<String> {
    let mut warnings: Vec<String> = scenario.warnings.iter().map(ToString::to_string).collect();
    if let Some(only) = options.only.and_then(|only| scenario.reservations.get(only.get())) {
        warnings.push(format!("only the tasks of reservation {} ran", only.name));
    }
    for (task, extras) in scenario
        .tasks
        .iter()
        .zip(extras)
        .filter(|(_, extras)| extras.errors > 0)
    {
        warnings.push(format!(
            "task.{}: {} accesses ended with an error",
            task.name, extras.errors
        ));
    }
    warnings
}
