//! A scenario with `[[component]]`.

use super::model::{ComponentModel, KindModel, Model, ThreadModel};
use super::report::{TransientOutcome, WaitReport};
use super::run::{TransientOptions, simulate_components};
use crate::error::SimError;
use crate::options::Options;
use crate::outcome::{Outcome, TaskExtras};
use freehold_core::units::Duration;
use freehold_report::transient::{UnitState, Wait};
use freehold_scenario::results::{
    Engine, Laws, MemoryResult, RunHead, RunResult, StoreResult, TaskResult, TransientResult, UnitsResult, Violation,
};
use freehold_scenario::{Class, KINDS, POLICIES, Scenario, Task, Transient};

/// The law of transient memory.
const LAW: u8 = 7;

/// Its components and threads.
#[must_use]
pub fn model_of(scenario: &Scenario, transient: &Transient) -> Model {
    let kind = |units: freehold_scenario::Units| KindModel {
        frames: units.frames.get(),
        minimum: units.minimum,
        most: units.most,
    };
    let components = transient.components.iter().map(|component| ComponentModel {
        kinds: component.kinds.map(kind),
        calls: component.calls.clone(),
    });
    let threads = scenario.tasks.iter().zip(&transient.entries);
    Model {
        components: components.collect(),
        threads: threads.map(|(task, entries)| thread(task, entries)).collect(),
    }
}

fn thread(task: &Task, entries: &[usize]) -> ThreadModel {
    let nanoseconds = |time: Option<Duration>| time.map_or(u64::MAX / 4, Duration::get);
    ThreadModel {
        entries: entries.to_vec(),
        period: nanoseconds(task.period),
        deadline: nanoseconds(task.deadline),
        work: task.compute.get(),
        priority: match task.class {
            Class::Fifo { priority } => priority.into(),
            Class::Deadline | Class::BestEffort => 0,
        },
        active: (task.first_release().get(), task.stop.get()),
        skips: false,
    }
}

/// How it is run.
#[must_use]
pub fn options_of(scenario: &Scenario, transient: &Transient, steps: bool) -> TransientOptions {
    TransientOptions {
        limit: transient.limit.get(),
        policy: transient.policy,
        period: transient.period.get(),
        inheritance: transient.inheritance,
        duration: scenario.duration.get(),
        seed: scenario.seed,
        steps,
    }
}

/// Runs it. Of what is recorded there are jobs and units only, in the result.
pub(crate) fn simulate(scenario: &Scenario, transient: &Transient, _: &Options) -> Result<Outcome, SimError> {
    let model = model_of(scenario, transient);
    let outcome = simulate_components(&model, options_of(scenario, transient, false));
    let outcome = outcome.map_err(|reason| SimError::Components { reason })?;
    Ok(Outcome {
        result: result_of(scenario, transient, &outcome),
        counted_at: scenario.counts_at(),
        extras: vec![TaskExtras::default(); scenario.tasks.len()],
        history: Vec::new(),
        schedule: None,
        sequences: Vec::new(),
        recording: None,
    })
}

/// The document of a run.
#[must_use]
pub fn result_of(scenario: &Scenario, transient: &Transient, outcome: &TransientOutcome) -> RunResult {
    let (used, peak) = (u64::from(outcome.frames), u64::from(outcome.peak));
    RunResult {
        head: RunHead::of(scenario, Engine::Sim, None),
        tasks: (0..scenario.tasks.len())
            .map(|task| task_result(scenario, outcome, task))
            .collect(),
        reservations: Vec::new(),
        regions: Vec::new(),
        memory: MemoryResult {
            pool: scenario.pool.get().into(),
            used,
            peak,
            outside: used,
            resident_measured: 0,
        },
        store: StoreResult::default(),
        victim_cache: None,
        devices: Vec::new(),
        transient: Some(transient_result(scenario, transient, outcome)),
        laws: Laws {
            checked: outcome.runs.0,
            violations: outcome.broken.iter().map(|what| violation(scenario, what)).collect(),
        },
        lock: None,
        warnings: scenario.warnings.iter().map(ToString::to_string).collect(),
    }
}

fn violation(scenario: &Scenario, what: &str) -> Violation {
    Violation {
        law: LAW,
        at_ns: scenario.duration.get(),
        what: what.to_owned(),
    }
}

fn task_result(scenario: &Scenario, outcome: &TransientOutcome, at: usize) -> TaskResult {
    let report = outcome.threads.get(at).copied().unwrap_or_default();
    let mut result = TaskResult::of(scenario, at);
    result.jobs = report.jobs;
    result.misses = report.misses;
    result.max_tardiness_ns = report.latest;
    result.response_ns = report.response;
    result.times.cpu_ns = report.jobs.saturating_mul(scenario.tasks[at].compute.get());
    result.waits.unit_wait_ns = report.blocked;
    result
}

fn transient_result(scenario: &Scenario, transient: &Transient, outcome: &TransientOutcome) -> TransientResult {
    let named = POLICIES.iter().find(|(_, policy)| *policy == transient.policy);
    let kinds = transient.components.iter().flat_map(|component| {
        let kinds = KINDS.iter().zip(&component.kinds);
        kinds.map(|(kind, units)| (component.name.clone(), (*kind).to_owned(), units.minimum))
    });
    let rows = kinds
        .zip(&outcome.caches)
        .map(|((component, kind, minimum), report)| UnitsResult {
            state: UnitState {
                component,
                kind,
                requested: report.view.requested,
                allocated: report.view.allocated,
                desired: report.view.desired,
                used: report.view.used,
                contended: report.view.contended,
                blocked_ns: report.view.blocked,
                // Simulated components write nothing.
                violations: 0,
            },
            minimum,
            peak: report.view.peak,
            granted: report.view.granted,
            taken: report.view.taken,
            handed_over: report.handed_over,
        });
    TransientResult {
        policy: named.map_or("", |(name, _)| *name).to_owned(),
        inheritance: transient.inheritance,
        limit: transient.limit.get().into(),
        granted: outcome.frames.into(),
        peak: outcome.peak.into(),
        runs: outcome.runs.0,
        moves: outcome.runs.1,
        components: rows.collect(),
        waits: outcome
            .waits
            .iter()
            .map(|wait| wait_row(scenario, transient, wait))
            .collect(),
    }
}

fn wait_row(scenario: &Scenario, transient: &Transient, wait: &WaitReport) -> Wait {
    let name = |thread: usize| scenario.tasks.get(thread).map(|task| task.name.clone());
    let component = transient.components.get(wait.cache / KINDS.len());
    Wait {
        thread: name(wait.thread).unwrap_or_default(),
        component: component.map(|component| component.name.clone()).unwrap_or_default(),
        kind: KINDS[wait.cache % KINDS.len()].to_owned(),
        holder: wait.holder.and_then(name),
    }
}
