//! The scenario's store and its tasks' urgencies, as the pager wants them.

use freehold_core::units::FrameCount;
use freehold_pager::store::{FileConfig, SetupError, StoreStats, Urgency};
use freehold_pager::{Pager, StartError, StoreMedium, StoreShape};
use freehold_scenario::results::StoreResult;
use freehold_scenario::{Class, Scenario, StoreKind};

use crate::error::LiveError;

/// The highest priority that SCHED_FIFO has.
const HIGHEST_PRIORITY: u32 = 99;
/// The priority of the store's threads beside deadline tasks only, which outrank every fixed priority.
const BESIDE_DEADLINES: u32 = 50;
/// Above every fixed priority.
const DEADLINE_URGENCY: u8 = 100;

/// How the store behaves.
pub(crate) fn shape(scenario: &Scenario) -> StoreShape {
    StoreShape {
        latency: scenario.store.latency,
        parallel: u16::try_from(scenario.store.parallel).unwrap_or(u16::MAX),
    }
}

/// What the store is made of.
pub(crate) fn medium(scenario: &Scenario) -> StoreMedium {
    match scenario.store.kind {
        StoreKind::Memory => StoreMedium::Memory,
        StoreKind::Compressed => {
            let capacity = scenario.store.capacity.map(|pages| FrameCount::new(pages.get()));
            StoreMedium::Compressed(capacity)
        }
        StoreKind::File => StoreMedium::File(FileConfig {
            priority: priority(scenario),
            // The pager knows how many.
            ..FileConfig::new(0, scenario.store.directory.clone())
        }),
    }
}

/// Names the directory where that is what is wrong.
pub(crate) fn start_error(scenario: &Scenario, error: StartError) -> LiveError {
    match error {
        StartError::Store(reason @ (SetupError::Directory(_) | SetupError::NoRoom { .. })) => LiveError::Store {
            directory: scenario.store.directory.display().to_string(),
            reason,
        },
        error => LiveError::Start(error),
    }
}

/// The priority of the store's threads while somebody hurries: above the tasks' fixed priorities, none where no task
/// has any.
fn priority(scenario: &Scenario) -> Option<u32> {
    let tasks = scenario.tasks.iter();
    tasks
        .filter_map(|task| match task.class {
            Class::Fifo { priority } => Some((u32::from(priority) + 1).min(HIGHEST_PRIORITY)),
            Class::Deadline => Some(BESIDE_DEADLINES),
            Class::BestEffort => None,
        })
        .max()
}

/// How urgent tasks of a class are: as in the simulator.
pub(crate) fn urgency(class: Class) -> Urgency {
    match class {
        Class::Deadline => Urgency::new(DEADLINE_URGENCY),
        Class::Fifo { priority } => Urgency::new(priority),
        Class::BestEffort => Urgency::BACKGROUND,
    }
}

/// What the store did since `before`, and what it is.
pub(crate) fn result(pager: &Pager, stats: &StoreStats, before: &StoreStats) -> StoreResult {
    let description = pager.store().describe();
    StoreResult {
        reads: stats.reads - before.reads,
        writes: stats.writes - before.writes,
        read_bytes: stats.read_bytes - before.read_bytes,
        kind: description.kind.name().to_owned(),
        backend: Some(description.backend.name().to_owned()),
        direct: description.direct,
        own_frames: u64::from(stats.frames.get()),
        failed_reads: stats.failed_reads - before.failed_reads,
        failed_writes: stats.failed_writes - before.failed_writes,
        retried: stats.retried - before.retried,
        stored_bytes: stats.stored_bytes,
    }
}

/// What the store had to do without.
pub(crate) fn shortfalls(pager: &Pager) -> Vec<String> {
    let shortfalls = pager.store().describe().shortfalls;
    let missed = shortfalls.iter();
    missed.map(|missed| format!("memory.swap: {missed}")).collect()
}

/// What the store had to do without, or does otherwise than the scenario says.
pub(crate) fn warnings(scenario: &Scenario, pager: &Pager) -> Vec<String> {
    let mut warnings = shortfalls(pager);
    if scenario.store.capacity.is_some() && scenario.store.kind != StoreKind::Compressed {
        let kind = scenario.store.kind.name();
        warnings.push(format!(
            "memory.swap.capacity: live, a store in {kind} has room for every page"
        ));
    }
    warnings
}
