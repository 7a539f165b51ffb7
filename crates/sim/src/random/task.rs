//! Random tasks and what they touch.

use std::sync::Arc;

use freehold_core::units::{ByteLen, Duration, PAGE_SIZE, PageIndex};
use freehold_scenario::{
    AccessSpec, AppSpec, ClassSpec, Pattern, Pinning, Preset, RegionKind, RegionSpec, ScenarioSpec, TaskSpec,
    TraceEntry, Unpinned,
};

use super::{Swarm, pages};
use crate::rng::Rng;

/// At least one task for most reservations, and some without.
pub(super) fn tasks(rng: &mut Rng, swarm: &Swarm, spec: &mut ScenarioSpec) {
    for reservation in 0..spec.reservations.len() {
        let frames = spec.reservations[reservation].size.get() / PAGE_SIZE;
        let most = if swarm.mix.threads { (frames / 2).min(3) } else { 1 };
        let tasks = if rng.one_in(12) { 0 } else { rng.within(1, most) };
        for _ in 0..tasks {
            let name = spec.reservations[reservation].name.clone();
            push(rng, swarm, spec, Some(name));
        }
    }
    if swarm.mix.unreserved {
        for _ in 0..rng.within(0, 2) {
            push(rng, swarm, spec, None);
        }
    }
    if swarm.mix.pinning {
        for _ in 0..rng.within(1, 3) {
            push(rng, swarm, spec, None);
            if let Some(task) = spec.tasks.last_mut() {
                pin(rng, task);
            }
        }
    }
}

/// Gives a task without a reservation a pinned page pool, small enough to fill up.
fn pin(rng: &mut Rng, task: &mut TaskSpec) {
    let period = task.period.map_or(1_000_000, Duration::get);
    task.period = Some(Duration::new(period));
    task.deadline = None;
    task.class = Some(ClassSpec::Deadline);
    task.budget = Some(Duration::new(rng.within(1_000, period / 6)));
    task.pinning = Some(rng.pick(&[Pinning::All, Pinning::App, Pinning::App, Pinning::AppNoBudget]));
    if !task.pinning.is_some_and(Pinning::adapts) || rng.one_in(6) {
        return;
    }
    if rng.one_in(2) {
        task.app = Some(AppSpec::default());
        return;
    }
    task.app = Some(AppSpec {
        preset: Preset::Paper,
        capacity: pages(rng.pick(&[1, 2, 5, 20, 100])),
        alpha: rng.pick(&[0.1, 0.9, 1.0]),
        beta: rng.pick(&[0.5, 0.9, 0.98]),
        gamma: rng.pick(&[1, 2, 4]),
        lambda: rng.pick(&[0.2, 0.8, 1.0]),
        unpinned: rng.pick(&[Unpinned::Text, Unpinned::Listing]),
        memory_share: rng.one_in(2),
        steady: rng.one_in(2),
        restore: rng.pick(&[0, 0, 1, 10]),
    });
}

fn push(rng: &mut Rng, swarm: &Swarm, spec: &mut ScenarioSpec, reservation: Option<String>) {
    let mut task = TaskSpec::new(format!("t{}", spec.tasks.len()));
    task.reservation = reservation;
    timing(rng, swarm, &mut task);
    if swarm.lifetimes && rng.one_in(3) {
        task.start = Duration::new(rng.within(0, spec.duration.get() / 2));
        let stop = rng.within(task.start.get() + 1, spec.duration.get());
        task.stop = rng.one_in(2).then(|| Duration::new(stop));
    }
    if swarm.affinity && rng.one_in(2) {
        task.cpus = Some(vec![u32::try_from(rng.below(u64::from(spec.cpus))).unwrap_or(0)]);
    }
    if rng.one_in(2) {
        task.compute = Duration::from_micros(rng.within(1, 400));
    }
    for _ in 0..rng.within(1, 3) {
        let region = region(rng, swarm, spec, &task);
        task.accesses.push(access(rng, swarm, spec, region));
    }
    spec.tasks.push(task);
}

fn timing(rng: &mut Rng, swarm: &Swarm, task: &mut TaskSpec) {
    if swarm.best_effort && rng.one_in(3) {
        task.class = Some(ClassSpec::BestEffort);
        if rng.one_in(2) {
            return;
        }
    }
    let period = rng.pick(&[200, 250, 400, 500, 1_000, 2_000]);
    task.period = Some(Duration::from_micros(period));
    task.phase = Duration::from_micros(rng.pick(&[0, 0, period / 3]));
    if rng.one_in(3) {
        task.deadline = Some(Duration::from_micros(rng.within(period / 2, period)));
    }
    if task.class.is_some() {
        return;
    }
    if swarm.deadline && rng.one_in(2) {
        task.class = Some(ClassSpec::Deadline);
        task.budget = Some(Duration::from_micros(rng.within(1, period / 6)));
    } else if rng.one_in(2) {
        task.class = Some(ClassSpec::Fifo(Some(u8::try_from(rng.within(1, 5)).unwrap_or(1))));
    }
}

/// Any region, but a view only for tasks of its reservation.
fn region<'a>(rng: &mut Rng, swarm: &Swarm, spec: &'a ScenarioSpec, task: &TaskSpec) -> &'a RegionSpec {
    let position = usize::try_from(rng.below(spec.regions.len() as u64)).unwrap_or(0);
    let region = &spec.regions[position];
    let reservation = spec
        .reservations
        .get(position % spec.reservations.len())
        .map(|found| &found.name);
    let strange = task.reservation.as_ref() != reservation && !swarm.common_views;
    let base = region.copy_of.as_ref().filter(|_| strange);
    base.and_then(|base| spec.regions.iter().find(|other| other.name == *base))
        .unwrap_or(region)
}

fn access(rng: &mut Rng, swarm: &Swarm, spec: &ScenarioSpec, region: &RegionSpec) -> AccessSpec {
    let size = region.size.map_or(1, |size| size.get() / PAGE_SIZE);
    let may_write = swarm.writes && !is_base(region, &spec.regions);
    let pattern = pattern(rng, size, may_write);
    let mut access = AccessSpec::new(region.name.clone(), pattern);
    if rng.one_in(2) {
        access.amount = Some(pages(rng.within(1, 2 * size)));
    }
    access.write = may_write && !matches!(access.pattern, Pattern::Trace { .. }) && rng.one_in(2);
    access
}

/// A base with views cannot be written.
fn is_base(region: &RegionSpec, regions: &[RegionSpec]) -> bool {
    region.kind == RegionKind::File && regions.iter().any(|other| other.copy_of.as_ref() == Some(&region.name))
}

fn pattern(rng: &mut Rng, size: u64, may_write: bool) -> Pattern {
    match rng.below(5) {
        0 => Pattern::Sequential,
        1 => Pattern::Random,
        2 => Pattern::Zipf {
            exponent: rng.pick(&[0.5, 0.9, 1.5]),
        },
        3 => Pattern::Window {
            size: pages(rng.within(1, size)),
            shift: within_region(rng, size),
            every: 1,
        },
        _ => {
            let entry = |line| TraceEntry {
                page: PageIndex::new(u32::try_from(rng.below(size)).unwrap_or(0)),
                write: may_write && rng.one_in(3),
                line,
            };
            let entries: Arc<[TraceEntry]> = (1..=u32::try_from(size.min(30)).unwrap_or(1)).map(entry).collect();
            Pattern::Trace {
                file: "random.trace".to_owned(),
                entries,
            }
        }
    }
}

fn within_region(rng: &mut Rng, size: u64) -> ByteLen {
    pages(rng.within(0, size))
}
