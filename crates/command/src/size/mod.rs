//! The smallest reservation that keeps every deadline of a scenario, or that a program runs in undisturbed.

pub mod program;
mod search;

use freehold_core::units::{ByteLen, PAGE_SIZE};
use freehold_scenario::{Scenario, TaskIndex};
use serde::Serialize;

use crate::engine::{Engine, Session};
use crate::exit_status::Failure;

/// The largest fine step of live runs, in pages: each takes as long as the scenario lasts.
const LIVE_STEP: u32 = 64;
/// Frames beside the pages themselves that the walk begins with.
const SLACK: u32 = 64;

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The scenario's name.
    pub scenario: String,
    /// `sim` or `live`.
    pub engine: String,
    /// The task asked for.
    pub task: String,
    /// Its reservation.
    pub reservation: String,
    /// The smallest size in pages; none where no size keeps the deadlines.
    pub pages: Option<u32>,
    /// The same in bytes.
    pub bytes: Option<u64>,
    /// The largest size tried that fails, in pages; none where all hold.
    pub failing_pages: Option<u32>,
    /// How many sizes were tried.
    pub tried: u32,
    /// The largest size tried, in pages.
    pub from_pages: u32,
    /// How far apart the sizes near the answer are, in pages.
    pub step_pages: u32,
}

/// Finds the smallest reservation of `task` that keeps every deadline of all its tasks.
///
/// # Errors
/// A task without reservation or deadline, an engine that fails, a broken law, or a stop.
pub fn smallest(session: &Session, scenario: &Scenario, task: TaskIndex, step: Option<u32>) -> Result<Answer, Failure> {
    let name = &scenario.tasks[task.get()].name;
    let Some(reservation) = scenario.tasks[task.get()].reservation else {
        return Err(Failure::Input(format!("--task: `{name}` has no reservation to size")));
    };
    let bound = scenario
        .tasks
        .iter()
        .filter(|task| task.reservation == Some(reservation));
    let names: Vec<String> = bound
        .filter(|task| task.deadline.is_some())
        .map(|task| task.name.clone())
        .collect();
    if names.is_empty() {
        return Err(Failure::Input(format!(
            "--task: no task of `{name}`'s reservation has a deadline to keep"
        )));
    }
    let live = session.engine() == Engine::Live;
    let step = step.unwrap_or(if live { LIVE_STEP } else { 1 });
    let range = search::Range {
        from: ample(scenario, reservation.get()),
        to: 2,
        step,
        coarse: search::COARSE_STEPS,
    };
    let found = search::walk(range, |pages| {
        keeps(session, scenario, reservation.get(), pages, &names)
    })?;
    Ok(Answer {
        scenario: scenario.name.clone(),
        engine: session.engine().to_string(),
        task: name.clone(),
        reservation: scenario.reservations[reservation.get()].name.clone(),
        pages: found.smallest,
        bytes: found.smallest.map(|pages| u64::from(pages) * PAGE_SIZE),
        failing_pages: found.failing,
        tried: found.tried,
        from_pages: range.from,
        step_pages: step,
    })
}

/// All pages the reservation's tasks can touch and some slack, within what the pool has left for it.
fn ample(scenario: &Scenario, reservation: usize) -> u32 {
    let regions = scenario.regions.iter().zip(&scenario.reservations[reservation].regions);
    let pages: u64 = regions
        .filter(|(_, used)| used.mapped)
        .map(|(region, _)| u64::from(region.pages.get()))
        .sum();
    let others = scenario
        .reservations
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != reservation);
    let promised: u64 = others.map(|(_, other)| u64::from(other.capacity.get())).sum();
    let room = u64::from(scenario.pool.get()).saturating_sub(promised);
    u32::try_from((pages + u64::from(SLACK)).min(room))
        .unwrap_or(u32::MAX)
        .max(2)
}

/// Whether the reservation with `pages` frames keeps every deadline of the tasks named, and fails none of their
/// accesses: a store that is full fails those that need room in it. A size that the scenario's
/// own rules refuse does not: it could not be admitted.
fn keeps(
    session: &Session,
    scenario: &Scenario,
    reservation: usize,
    pages: u32,
    tasks: &[String],
) -> Result<bool, Failure> {
    let mut spec = scenario.spec().clone();
    spec.reservations[reservation].size = ByteLen::new(u64::from(pages) * PAGE_SIZE);
    let Ok(sized) = Scenario::try_from(spec) else {
        return Ok(false);
    };
    let outcome = session.run(&sized)?;
    if let Some(law) = outcome.broken_laws().next() {
        return Err(Failure::Law(format!("with {pages} pages: {law}")));
    }
    if outcome.stopped {
        return Err(Failure::Stopped);
    }
    let bound = outcome.result.tasks.iter().filter(|task| tasks.contains(&task.name));
    // A job that left out what it could not have is not one that was served.
    Ok(bound.map(|task| task.misses + task.failed_accesses).sum::<u64>() == 0)
}
