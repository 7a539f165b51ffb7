//! Mapping and unmapping a page that another reservation uses too, with Shared-Page Conservation and without.
//!
//! Two tasks share a region, each the first on every second page. Then each maps the other's pages: that is the
//! mapping measured, a soft fault that finds another owner. Then one of them ends, and its reservation with it, which
//! takes it off every page: that is the unmapping measured, half of the pages being its own, which pass to the other,
//! and half foreign. As in the paper's measurement no page is swapped.

use freehold_core::limits::{ObjectKind, Regime};
use freehold_pager::{Bound, MappedRegion, TaskHandle};

use super::Bench;
use super::rounds::{Effort, Found, Samples, refused};
use super::world::{self, WORDS};
use super::{callgrind, operations::Operation};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

const PAGES: u32 = 512;
/// Pagers in one round.
const PASSES: u32 = 12;
/// The paper's ratios (Table II).
const GOAL_MAP: f64 = 1.16;
const GOAL_UNMAP: f64 = 1.27;

/// The benchmark.
pub(super) const MAP: Bench = Bench {
    name: "map-shared",
    about: "a page that another reservation owns is mapped, with Shared-Page Conservation",
    floor: "the same under `none`",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.05,
    run: map,
};

fn map(effort: Effort) -> Result<Found, Failure> {
    let found = measure(effort, |live| &mut live.mapping)?;
    with_core(found, effort, Operation::Map, GOAL_MAP)
}

/// The benchmark.
pub(super) const UNMAP: Bench = Bench {
    name: "unmap-shared",
    about: "a sharer ends: what each of its pages costs, with Shared-Page Conservation",
    floor: "the same under `none`",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.05,
    run: unmap,
};

fn unmap(effort: Effort) -> Result<Found, Failure> {
    let found = measure(effort, |live| &mut live.unmapping)?;
    with_core(found, effort, Operation::Unmap, GOAL_UNMAP)
}

/// What one regime costs, live.
#[derive(Debug)]
pub(crate) struct Live {
    /// The first touch of a page.
    pub(crate) first: Samples,
    /// The mapping of a page of another's.
    pub(crate) mapping: Samples,
    /// The end of a sharer, for each page.
    pub(crate) unmapping: Samples,
}

impl Live {
    /// # Errors
    /// No memory.
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self {
            first: Samples::new()?,
            mapping: Samples::new()?,
            unmapping: Samples::new()?,
        })
    }

    /// One pager, one pair of sharers.
    ///
    /// # Errors
    /// What the machine refuses.
    pub(crate) fn pass(&mut self, regime: Regime) -> Result<(), Failure> {
        let pager = world::pager(2 * (PAGES + 16), PAGES)?;
        let object = world::object(&pager, ObjectKind::Shared, PAGES, regime)?;
        let sharer = || -> Result<_, Failure> {
            let reservation = world::reserve(&pager, PAGES + 8)?;
            let task = pager.add_task(Some(reservation)).map_err(refused)?;
            let region = task.map(object).map_err(refused)?;
            Ok((reservation, task, region))
        };
        let ((_, stays, its_region), (reservation, goes, region)) = (sharer()?, sharer()?);
        touch(&stays, &its_region, 0, &mut self.first)?;
        touch(&goes, &region, 1, &mut self.first)?;
        touch(&stays, &its_region, 1, &mut self.mapping)?;
        touch(&goes, &region, 0, &mut self.mapping)?;
        world::expect("soft faults", stays.counts().soft_faults, u64::from(PAGES / 2))?;
        world::expect("soft faults", goes.counts().soft_faults, u64::from(PAGES / 2))?;
        let mut ended = Samples::new()?;
        ended
            .time(|| {
                drop(goes);
                pager.release(reservation)
            })
            .map_err(refused)?;
        self.unmapping.merge_means(&ended, PAGES.into());
        Ok(())
    }
}

/// Writes every second page from `first` on.
fn touch(task: &TaskHandle, region: &MappedRegion, first: usize, samples: &mut Samples) -> Result<(), Failure> {
    let bound: Bound<'_> = task.enter().map_err(refused)?;
    for page in (first..PAGES as usize).step_by(2) {
        samples
            .time(|| bound.write_word(region, page * WORDS, 1))
            .map_err(refused)?;
    }
    Ok(())
}

fn measure(effort: Effort, which: fn(&mut Live) -> &mut Samples) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let passes = effort.scaled(PASSES);
    let pass = |samples: &mut Samples, regime| -> Result<(), Failure> {
        let mut live = Live::new()?;
        (0..passes).try_for_each(|_| live.pass(regime))?;
        samples.merge(which(&mut live));
        Ok(())
    };
    found.alternate(
        effort,
        |samples| pass(samples, Regime::Unmanaged),
        |samples| pass(samples, Regime::Conserve),
    )?;
    Ok(found)
}

/// Adds the core alone, in instructions where they can be counted.
fn with_core(mut found: Found, effort: Effort, operation: Operation, goal: f64) -> Result<Found, Failure> {
    let none = callgrind::cost(operation, Regime::Unmanaged, effort.quick)?;
    let spc = callgrind::cost(operation, Regime::Conserve, effort.quick)?;
    let unit = none.unit();
    found.row("core alone, none", none.value(), unit);
    found.row("core alone, spc", spc.value(), unit);
    found.goal_row("core alone, spc / none", spc.value() / none.value(), "", goal);
    found.notes.extend(none.note());
    Ok(found)
}
