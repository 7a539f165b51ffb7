//! A scenario in the core's terms: what every engine asks of the core, and what it reports of it.
//!
//! In which order it is set up, [`set_up`](crate::set_up()) says.

pub(super) mod order;

use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_core::pinning::{PinnedPoolView, PinningPolicy, PinningSettings, Ratio, UnpinnedGoTo};
use freehold_core::units::{Duration, PageCount};
use freehold_core::view::TaskCounts;

use crate::model::{self, Region, RegionKind, Reservation, ReservationIndex, Scenario, Sharing, Task};
use crate::pinning::{AppSettings, Pinning, Preset, Unpinned};
use crate::results::TaskResult;

/// Who restores looks so many times whether a page has left, at most.
const RESTORE_LOOKS: u64 = 16;
/// And not more often than this, in nanoseconds.
const LEAST_RESTORE_PAUSE: u64 = 100_000;

/// The core's tables, just large enough for this scenario.
#[must_use]
pub fn limits(scenario: &Scenario) -> Limits {
    let sum = |pages: &mut dyn Iterator<Item = PageCount>| pages.fold(PageCount::ZERO, PageCount::saturating_add);
    let compared = |region: &&Region| region.sharing == Sharing::None;
    let mappings = (0..scenario.tasks.len())
        .map(|task| mapped_regions(scenario, task).count())
        .sum::<usize>();
    let restoring = restorers(scenario).map(|task| mapped_regions(scenario, task).count());
    let restored = restoring.sum::<usize>();
    let uses = scenario
        .reservations
        .iter()
        .flat_map(|reservation| &reservation.regions);
    let kept = uses.filter(|used| !used.locks.is_empty()).count();
    Limits {
        frames: scenario.pool,
        pages: sum(&mut scenario.regions.iter().map(|region| region.pages)).max(PageCount::new(1)),
        reservations: at_least_one(scenario.reservations.len()),
        objects: at_least_one(scenario.regions.len()),
        tasks: at_least_one(scenario.tasks.len() + scenario.reservations.len() + restorers(scenario).count()),
        mappings: at_least_one(mappings + kept + restored),
        compared_pages: sum(&mut scenario.regions.iter().filter(compared).map(|region| region.pages)),
        shared_locks: sum(&mut scenario.reservations.iter().map(Reservation::locked)),
    }
}

fn at_least_one(count: usize) -> u16 {
    u16::try_from(count.max(1)).unwrap_or(u16::MAX)
}

/// The object that a region becomes.
#[must_use]
pub fn object(region: &Region) -> ObjectSpec {
    let kind = match region.kind {
        RegionKind::Shared => ObjectKind::Shared,
        RegionKind::Private => ObjectKind::Private,
        RegionKind::File => ObjectKind::File,
    };
    let regime = if region.sharing == Sharing::None {
        Regime::Unmanaged
    } else {
        Regime::Conserve
    };
    ObjectSpec {
        kind,
        pages: region.pages,
        regime,
    }
}

/// What is asked of admission for a reservation.
#[must_use]
pub fn reservation(reservation: &Reservation) -> ReservationSpec {
    let kind = match reservation.kind {
        model::ReservationKind::Hard => ReservationKind::Hard,
        model::ReservationKind::Firm => ReservationKind::Firm,
    };
    ReservationSpec {
        capacity: reservation.capacity,
        kind,
    }
}

/// What the pinned page pool of a task is opened with; `None` where it has none.
#[must_use]
pub fn pinning(task: &Task) -> Option<PinningSettings> {
    let (budget, period) = (task.budget?, task.period?);
    let paper = PinningSettings {
        swap_budget: false,
        highest_swap_budget: Duration::ZERO,
        ..PinningSettings::paper(budget, period)
    };
    match task.pinning {
        Pinning::None => None,
        Pinning::All => Some(PinningSettings {
            policy: PinningPolicy::All,
            ..paper
        }),
        Pinning::App | Pinning::AppNoBudget => {
            let app = task.app.as_ref()?;
            Some(adaptive(app, task.pinning == Pinning::App, paper))
        }
    }
}

fn adaptive(app: &AppSettings, swap_budget: bool, paper: PinningSettings) -> PinningSettings {
    // Validation keeps ratios within 1 and a million millionths.
    let ratio = |millionths| Ratio::from_millionths(millionths).unwrap_or(Ratio::ONE);
    if app.preset == Preset::Freehold {
        return PinningSettings {
            swap_budget,
            highest_swap_budget: app.highest_swap_budget,
            lambda: ratio(app.lambda),
            ..PinningSettings::freehold(paper.budget, paper.period)
        };
    }
    PinningSettings {
        policy: PinningPolicy::Adaptive,
        initial_capacity: app.capacity,
        alpha: ratio(app.alpha),
        beta: ratio(app.beta),
        gamma: app.gamma,
        lambda: ratio(app.lambda),
        unpinned_go_to: match app.unpinned {
            Unpinned::Text => UnpinnedGoTo::Text,
            Unpinned::Listing => UnpinnedGoTo::Listing,
        },
        swap_budget,
        highest_swap_budget: app.highest_swap_budget,
        memory_share: app.memory_share,
        steady: app.steady,
        restore: PageCount::new(app.restore),
        ..paper
    }
}

/// The positions of the tasks for which pages are restored, ascending.
pub fn restorers(scenario: &Scenario) -> impl Iterator<Item = usize> + '_ {
    let restores = |task: &Task| task.app.is_some_and(|app| app.restore > 0);
    let tasks = scenario.tasks.iter().enumerate();
    tasks
        .filter(move |(_, task)| restores(task))
        .map(|(position, _)| position)
}

/// How long before a release pages begin to be restored: as late as so many can be, where each takes the store twice
/// its latency. Sooner, most would not have gone yet, or would go again. And how long to wait, until the release, where
/// none is to be restored at the moment.
#[must_use]
pub fn restore_times(scenario: &Scenario, quota: u32) -> (Duration, Duration) {
    let costs = scenario.costs;
    let page = scenario.store.latency.get() + costs.swap_in.get() + costs.eviction.get();
    let lead = page.saturating_mul(2).saturating_mul(u64::from(quota));
    (
        Duration::new(lead),
        Duration::new((lead / RESTORE_LOOKS).max(LEAST_RESTORE_PAUSE)),
    )
}

/// The positions of the regions that a task maps, ascending: those that its accesses name.
pub fn mapped_regions(scenario: &Scenario, task: usize) -> impl Iterator<Item = usize> + '_ {
    let task = scenario.tasks.get(task);
    (0..scenario.regions.len()).filter(move |&region| task.is_some_and(|task| touches(task, region)))
}

fn touches(task: &Task, region: usize) -> bool {
    task.accesses.iter().any(|step| step.region.get() == region)
}

/// The positions of the regions that a reservation locks although none of its tasks maps them.
pub fn kept_regions(scenario: &Scenario, reservation: ReservationIndex) -> impl Iterator<Item = usize> + '_ {
    let uses = scenario
        .reservations
        .get(reservation.get())
        .map_or(&[][..], |found| &found.regions);
    let mine = move |task: &&Task| task.reservation == Some(reservation);
    let mapped = move |region: usize| scenario.tasks.iter().filter(mine).any(|task| touches(task, region));
    let locked = uses.iter().enumerate().filter(|(_, used)| !used.locks.is_empty());
    locked.map(|(region, _)| region).filter(move |&region| !mapped(region))
}

/// Puts a task's counts into its line of the result.
pub fn set_task_counts(result: &mut TaskResult, counts: &TaskCounts) {
    result.faults.soft_faults = counts.soft_faults;
    result.faults.zero_fills = counts.zero_fills;
    result.faults.swap_ins = counts.swap_ins;
    result.faults.shared_swap_ins = counts.shared_swap_ins;
    result.write_faults = counts.write_faults;
    result.faults.read_ahead = counts.read_ahead;
    result.faults.evictions = counts.evictions;
}

/// Puts what a task's pinned page pool is into its line of the result.
pub fn set_pinned_pool(result: &mut TaskResult, pool: &PinnedPoolView) {
    result.pinned.pinned_pages = u64::from(pool.active.get()) + u64::from(pool.inactive.get());
    result.pinned.capacity_pages = result.pinned.pinning.adapts().then_some(u64::from(pool.capacity.get()));
    result.pinned.swap_budget_ns = pool.swap_budget.get();
}
