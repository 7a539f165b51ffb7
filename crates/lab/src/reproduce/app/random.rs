//! Beyond the paper's figures: loads that nobody has tuned a policy for, drawn from seeds.

use freehold_core::units::ByteLen;
use freehold_scenario::results::ReproduceRow;
use freehold_scenario::{AppSpec, Pinning, Preset, Scenario, ScenarioSpec, parse_time};
use freehold_sim::{LOAD_NEIGHBOUR, LOAD_TASK, random_load};

use super::sample::Sample;
use super::{Bound, Laboratory, NEAR_ALL, number, percent, row, task_of};
use crate::reproduce::{Experiment, Kind};
use freehold_command::engine::Engine;
use freehold_command::exit_status::Failure;

/// Loads, by their seeds from 1 on.
const LOADS: u32 = 200;
/// How much slower than beside `none` the neighbour may be, in per cent.
const NEAR_NONE: f64 = 5.0;
/// Fixed pools that are tried where it is slower: so many parts of all memory.
const PARTS: u64 = 8;
/// Loads that are shown by their seeds.
const WORST: usize = 3;

/// A way to pin: its name, and what the task is to say.
type Policy = (&'static str, Pinning, Option<AppSpec>);

fn policies() -> [Policy; 4] {
    let paper = AppSpec {
        preset: Preset::Paper,
        ..AppSpec::default()
    };
    [
        ("none", Pinning::None, None),
        ("all", Pinning::All, None),
        ("paper", Pinning::App, Some(paper)),
        ("freehold", Pinning::App, Some(AppSpec::default())),
    ]
}

/// One policy's run of a load.
type Chosen = fn(&Load) -> Found;

/// What came of one load under one policy.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// In per cent of the jobs.
    misses: f64,
    /// Jobs that the neighbour finished.
    progress: f64,
}

/// One load under every policy.
#[derive(Clone, Copy, Debug)]
struct Load {
    seed: u64,
    none: Found,
    all: Found,
    paper: Found,
    ours: Found,
}

impl Load {
    /// By how many per cent the neighbour is slower than beside `none`.
    fn slower(&self, run: Found) -> f64 {
        (self.none.progress / run.progress.max(1.0) - 1.0) * 100.0
    }

    /// The most misses that this load allows.
    fn allowed(&self) -> f64 {
        self.none.misses.min(self.all.misses + NEAR_ALL)
    }

    /// Whether pinning everything costs the neighbour too much, so that something is asked for it.
    fn asks(&self) -> bool {
        self.slower(self.all) > NEAR_NONE
    }

    fn keeps(&self, run: Found) -> bool {
        run.misses <= self.allowed() && self.slower(run) <= NEAR_NONE
    }
}

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "app-random",
    about: "loads that no policy was tuned for: misses and the neighbour under none, all, and both presets",
    files: &[],
    kind: Kind::Models,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    if laboratory.session().engine() == Engine::Live {
        return Err(Failure::Input("app-random is simulated: use --engine sim".to_owned()));
    }
    let mut found = Vec::new();
    for (name, pinning, app) in policies() {
        let specs = (1..=u64::from(laboratory.seeds(LOADS))).map(random_load);
        let specs = specs.map(|spec| with(spec, pinning, app)).collect();
        found.push(measure(laboratory, specs, &format!("app-random, {name}"))?);
    }
    let [none, all, paper, ours] = &found[..] else {
        return Ok(Vec::new());
    };
    let runs = none.iter().zip(all).zip(paper.iter().zip(ours));
    let loads: Vec<Load> = (1..)
        .zip(runs)
        .map(|(seed, ((none, all), (paper, ours)))| Load {
            seed,
            none: *none,
            all: *all,
            paper: *paper,
            ours: *ours,
        })
        .collect();
    let mut rows = distribution(&loads);
    rows.extend(worst(&loads));
    rows.extend(verdicts(laboratory, &loads)?);
    Ok(rows)
}

fn with(mut spec: ScenarioSpec, pinning: Pinning, app: Option<AppSpec>) -> ScenarioSpec {
    if let Some(task) = spec.tasks.iter_mut().find(|task| task.name == LOAD_TASK) {
        (task.pinning, task.app) = (Some(pinning), app);
    }
    spec
}

/// Simulates loads, several at a time.
fn measure(laboratory: &Laboratory, specs: Vec<ScenarioSpec>, shown: &str) -> Result<Vec<Found>, Failure> {
    let duration = laboratory.duration().map(parse_time).transpose();
    let duration = duration.map_err(|why| Failure::Input(format!("--duration: {why}")))?;
    let scenario = |mut spec: ScenarioSpec| {
        spec.duration = duration.unwrap_or(spec.duration);
        Scenario::try_from(spec).map_err(|error| Failure::Input(format!("{shown}: {error}")))
    };
    let scenarios = specs.into_iter().map(scenario).collect::<Result<Vec<_>, _>>()?;
    let outcomes = laboratory.simulate_all(&scenarios, shown, false)?;
    let found = |outcome| {
        let task = task_of(outcome, LOAD_TASK);
        Found {
            misses: task.map_or(f64::NAN, |task| percent(task.misses, task.jobs)),
            progress: task_of(outcome, LOAD_NEIGHBOUR).map_or(f64::NAN, |hog| number(hog.jobs)),
        }
    };
    Ok(outcomes.iter().map(found).collect())
}

fn distribution(loads: &[Load]) -> Vec<ReproduceRow> {
    let mut rows = Vec::new();
    let policies: [(&str, Chosen); 4] = [
        ("none", |load| load.none),
        ("all", |load| load.all),
        ("paper", |load| load.paper),
        ("freehold", |load| load.ours),
    ];
    for (name, of) in policies {
        let misses = |load: &Load| of(load).misses;
        rows.extend(percentiles(&format!("{name}: misses"), loads, misses));
    }
    for (name, of) in &policies[1..] {
        let slower = |load: &Load| load.slower(of(load));
        rows.extend(percentiles(
            &format!("{name}: hog slower than beside none by"),
            loads,
            slower,
        ));
    }
    rows
}

fn percentiles(what: &str, loads: &[Load], of: impl Fn(&Load) -> f64) -> Vec<ReproduceRow> {
    let mut values: Vec<f64> = loads.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let shown = [
        (50, "median"),
        (90, "90th percentile"),
        (99, "99th percentile"),
        (100, "worst"),
    ];
    shown
        .iter()
        .filter_map(|(part, name)| {
            let value = *values.get((last * part).div_ceil(100))?;
            Some(shown_row(format!("{what}, {name}"), "%", value, Bound::Shown))
        })
        .collect()
}

/// The loads that are nearest to what is allowed, or furthest beyond.
fn worst(loads: &[Load]) -> Vec<ReproduceRow> {
    let mut rows = Vec::new();
    let mut put = |what: &str, unit: &str, of: &dyn Fn(&Load) -> f64| {
        let mut sorted: Vec<&Load> = loads.iter().collect();
        sorted.sort_by(|one, other| of(other).total_cmp(&of(one)));
        let seeds = sorted.iter().take(WORST);
        rows.extend(seeds.map(|load| shown_row(format!("load {}: {what}", load.seed), unit, of(load), Bound::Shown)));
    };
    put("freehold's misses beyond what is allowed", "points", &|load| {
        load.ours.misses - load.allowed()
    });
    put("freehold: hog slower by, where all slows it more", "%", &|load| {
        if load.asks() { load.slower(load.ours) } else { f64::MIN }
    });
    rows
}

fn verdicts(laboratory: &Laboratory, loads: &[Load]) -> Result<Vec<ReproduceRow>, Failure> {
    let count = |of: &dyn Fn(&&Load) -> bool| number(loads.iter().filter(|load| of(load)).count() as u64);
    let slow = |load: &&Load| load.asks() && load.slower(load.ours) > NEAR_NONE;
    let mut possible = Vec::new();
    for load in loads.iter().filter(|load| slow(load)) {
        if fixed_pool_keeps(laboratory, load)? {
            possible.push(load.seed);
        }
    }
    let unmet = number(possible.len() as u64);
    let none = Bound::AtMost(0.0);
    let mut rows = vec![
        shown_row("loads".to_owned(), "loads", number(loads.len() as u64), Bound::Shown),
        shown_row(
            "freehold misses more than none".to_owned(),
            "loads",
            count(&|load| load.ours.misses > load.none.misses),
            none,
        ),
        shown_row(
            format!("freehold misses over {NEAR_ALL} point more than all"),
            "loads",
            count(&|load| load.ours.misses > load.all.misses + NEAR_ALL),
            none,
        ),
        shown_row(
            format!("all slows the hog by over {NEAR_NONE} %"),
            "loads",
            count(&|load| load.asks()),
            Bound::Shown,
        ),
        shown_row("freehold does too".to_owned(), "loads", count(&slow), Bound::Shown),
        shown_row(
            "and a pool of fixed size would keep both misses and hog".to_owned(),
            "loads",
            unmet,
            none,
        ),
    ];
    let named = |seed: &u64| {
        shown_row(
            format!("load {seed}: a pool of fixed size keeps both"),
            "loads",
            1.0,
            none,
        )
    };
    rows.extend(possible.iter().map(named));
    Ok(rows)
}

/// Whether `none`, or a pool of a size that never shrinks, keeps this load's misses and its neighbour. The pool is the
/// paper's with β = 1: one that is too small grows.
fn fixed_pool_keeps(laboratory: &Laboratory, load: &Load) -> Result<bool, Failure> {
    if load.keeps(load.none) {
        return Ok(true);
    }
    let spec = random_load(load.seed);
    let of = |part: u64| AppSpec {
        preset: Preset::Paper,
        beta: 1.0,
        capacity: ByteLen::new((spec.memory.pool.get() * part / PARTS) & !4_095),
        ..AppSpec::default()
    };
    let specs = (1..PARTS)
        .map(|part| with(spec.clone(), Pinning::App, Some(of(part))))
        .collect();
    let found = measure(
        laboratory,
        specs,
        &format!("app-random, load {}, fixed pools", load.seed),
    )?;
    Ok(found.iter().any(|run| load.keeps(*run)))
}

fn shown_row(what: String, unit: &str, value: f64, bound: Bound) -> ReproduceRow {
    row(what, unit, None, &Sample::new(vec![value]), bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(none: (f64, f64), all: (f64, f64), ours: (f64, f64)) -> Load {
        let found = |(misses, progress)| Found { misses, progress };
        Load {
            seed: 1,
            none: found(none),
            all: found(all),
            paper: found(none),
            ours: found(ours),
        }
    }

    #[test]
    fn what_a_load_allows() {
        let near = load((8.0, 1000.0), (1.0, 900.0), (2.0, 960.0));
        assert!(near.asks() && near.keeps(near.ours));
        assert!(!near.keeps(near.none), "misses more than a point more than all");
        assert!(!near.keeps(near.all), "slows the hog by 11 %");
        let strict = load((0.5, 1000.0), (0.0, 999.0), (0.6, 1000.0));
        assert!(!strict.asks());
        assert!(!strict.keeps(strict.ours), "none misses less");
    }

    #[test]
    fn percentiles_are_of_sorted_loads() {
        let loads: Vec<Load> = (0..=100)
            .map(|misses| load((f64::from(100 - misses), 1.0), (0.0, 1.0), (0.0, 1.0)))
            .collect();
        let rows = percentiles("none", &loads, |load| load.none.misses);
        let values: Vec<f64> = rows.iter().map(|row| row.ours).collect();
        assert_eq!(values, [50.0, 90.0, 99.0, 100.0]);
    }
}
