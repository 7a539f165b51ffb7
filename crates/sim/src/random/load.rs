//! Random loads for Adaptive Page Pinning: one soft-real-time task beside a neighbour that wants the same memory.
//!
//! Nothing is fitted to a policy: sizes, laws, periods, budgets and stores are drawn from ranges that a user may have.

use freehold_core::units::{ByteLen, Duration};
use freehold_scenario::{AccessSpec, ClassSpec, Pattern, RegionKind, RegionSpec, ScenarioSpec, Sharing, TaskSpec};

use super::pages;
use crate::rng::Rng;

/// The soft-real-time task of a random load.
pub const LOAD_TASK: &str = "rt";
/// Its neighbour, best effort, on a CPU of its own: what it loses, it loses to memory.
pub const LOAD_NEIGHBOUR: &str = "hog";

/// Jobs of the soft-real-time task in one run.
const JOBS: u64 = 1_000;
/// Keeps random loads apart from random scenarios of the same seed.
const STREAM: u64 = 0x10ad;

/// A random load, the same for the same seed. Neither task is pinned: the caller says how [`LOAD_TASK`] is.
///
/// - The pool is 8 to 64 MiB. The task's jobs touch a region of 5 to 80 % of it, 5 to 100 % of the region in each, by
///   any law; in half of the loads a start writes
///   that before, and another region, up to 40 % of the pool, that no job uses.
/// - The neighbour's region is as large as the pool lacks for all of them, and 5 to 150 % of the pool besides.
/// - The period is 10 to 100 ms, the deadline its end. A job computes for 5 to 60 % of it, and its budget is 1.1 to 2
///   times that, at most 90 % of the period.
/// - The store needs 4 to 500 us for a page and serves 1 to 32 at once.
#[must_use]
pub fn random_load(seed: u64) -> ScenarioSpec {
    let mut rng = Rng::stream(seed, STREAM);
    let pool = rng.logarithmic(2_048, 16_384);
    let period = rng.logarithmic(10_000, 100_000);
    let mut spec = ScenarioSpec::new(
        format!("load-{seed}"),
        Duration::from_micros(period * JOBS),
        pages(pool),
    );
    spec.seed = rng.next_u64() >> 1;
    spec.cpus = 2;
    spec.memory.latency = Duration::from_micros(rng.logarithmic(4, 500));
    spec.memory.parallel = rng.pick(&[1, 2, 4, 8, 16, 32]);
    let hot = pool * rng.within(5, 80) / 100;
    let starts = rng.one_in(2);
    let cold = if starts { pool * rng.within(0, 40) / 100 } else { 0 };
    let lacking = pool.saturating_sub(hot + cold);
    let theirs = lacking + pool * rng.within(5, 150) / 100;
    task(&mut rng, &mut spec, hot, period);
    if starts {
        start(&mut spec, cold);
    }
    neighbour(&mut rng, &mut spec, theirs);
    read_from_files(&mut spec);
    spec
}

fn region(spec: &mut ScenarioSpec, name: &str, size: u64) {
    let mut region = RegionSpec::new(name, pages(size));
    region.sharing = Sharing::None;
    spec.regions.push(region);
}

fn task(rng: &mut Rng, spec: &mut ScenarioSpec, hot: u64, period: u64) {
    region(spec, "hot", hot);
    let mut task = TaskSpec::new(LOAD_TASK);
    let touched = (hot * rng.within(5, 100) / 100).max(1);
    let work = period * rng.within(5, 60) / 100;
    let budget = (work * rng.within(110, 200) / 100).min(period * 90 / 100);
    // What its accesses cost is part of the work, where that is not longer.
    let accesses = touched * spec.costs.access.get();
    task.class = Some(ClassSpec::Deadline);
    task.period = Some(Duration::from_micros(period));
    task.budget = Some(Duration::from_micros(budget).max(Duration::new(accesses * 11 / 10)));
    task.compute = Duration::new((work * 1_000).saturating_sub(accesses));
    task.start = Duration::from_micros(period * rng.pick(&[0, 0, 20]));
    task.cpus = Some(vec![0]);
    task.accesses.push(access(rng, "hot", hot, touched));
    spec.tasks.push(task);
}

/// The task's start writes all that is the task's once, and leaves; of the cold region the task uses one page.
fn start(spec: &mut ScenarioSpec, cold: u64) {
    region(spec, "cold", cold.max(1));
    let mut start = TaskSpec::new("rt-start");
    start.class = Some(ClassSpec::BestEffort);
    start.cpus = Some(vec![0]);
    start.stop = Some(Duration::from_millis(1_500));
    start.compute = Duration::from_millis(100);
    for name in ["hot", "cold"] {
        let mut all = AccessSpec::new(name, Pattern::Sequential);
        all.write = true;
        start.accesses.push(all);
    }
    spec.tasks.push(start);
    let one = Pattern::Window {
        size: pages(1),
        shift: ByteLen::new(0),
        every: 1,
    };
    if let Some(task) = spec.tasks.first_mut() {
        task.start = Duration::from_millis(2_000);
        task.accesses.insert(0, AccessSpec::new("cold", one));
    }
}

fn neighbour(rng: &mut Rng, spec: &mut ScenarioSpec, size: u64) {
    region(spec, "theirs", size);
    let mut hog = TaskSpec::new(LOAD_NEIGHBOUR);
    hog.class = Some(ClassSpec::BestEffort);
    hog.cpus = Some(vec![1]);
    // Short jobs, so that their number says how far it came.
    let touched = 64;
    hog.compute = Duration::from_micros(touched * rng.logarithmic(20, 80));
    hog.accesses.push(access(rng, "theirs", size, touched));
    spec.tasks.push(hog);
}

/// What nobody writes has content all the same: it is a file's.
fn read_from_files(spec: &mut ScenarioSpec) {
    let accesses = || spec.tasks.iter().flat_map(|task| &task.accesses);
    let written = |name: &str| accesses().any(|access| access.write && access.region == name);
    for region in &mut spec.regions {
        if !written(&region.name) {
            region.kind = RegionKind::File;
        }
    }
}

fn access(rng: &mut Rng, region: &str, size: u64, touched: u64) -> AccessSpec {
    let pattern = match rng.below(4) {
        0 => Pattern::Sequential,
        1 => Pattern::Random,
        2 => Pattern::Zipf {
            exponent: rng.pick(&[0.5, 0.7, 0.9, 1.1, 1.3]),
        },
        _ => {
            let window = touched.min(size);
            Pattern::Window {
                size: pages(window),
                shift: pages(window * rng.within(0, 30) / 100),
                every: 1,
            }
        }
    };
    let mut access = AccessSpec::new(region, pattern);
    access.amount = Some(pages(touched));
    access.write = rng.one_in(2);
    access
}
