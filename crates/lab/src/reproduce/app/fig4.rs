//! Figure 4: misses of the soft-real-time tasks, and what each policy costs the graph walk.

use freehold_scenario::results::ReproduceRow;

use super::{
    ALL, APP, APP_NO_BUDGET, Bench, Bound, LISTING, Laboratory, Measured, NEAR_ALL, NONE, Policy, STEADY,
    STEADY_RESTORE, THREE, row,
};
use crate::reproduce::{Experiment, Kind};
use freehold_command::exit_status::Failure;

/// A model runs ten times for each.
const SEEDS: u32 = 10;

const SHARE: Policy = Policy {
    name: "app, memory-share and steady",
    sets: &[
        "pinning=app",
        "app.preset=paper",
        "app.memory-share=true",
        "app.steady=true",
    ],
};
/// The pool begins with a tenth of the paper's pages: what it lacks is brought back.
const RESTORE: Policy = Policy {
    name: "app and restore",
    sets: &[
        "pinning=app",
        "app.preset=paper",
        "app.restore=2000",
        "app.capacity=\"2800KiB\"",
    ],
};

/// A model and what the paper has of it.
struct Paper {
    file: &'static str,
    tasks: &'static [&'static str],
    /// Misses under Pin_All, in per cent.
    all: f64,
    /// GraphChi's slow-down under it, in per cent.
    slow_down: f64,
    /// By how much APP reduces misses, in points, and the swap budget's part.
    cut: Option<(f64, f64)>,
}

const MODELS: [Paper; 3] = [
    Paper {
        file: "app/ranger.toml",
        tasks: &["ranger"],
        all: 0.0,
        slow_down: 82.0,
        cut: Some((27.0, 6.0)),
    },
    Paper {
        file: "app/opencv.toml",
        tasks: &["opencv"],
        all: 5.0,
        slow_down: 73.0,
        cut: Some((15.0, 4.0)),
    },
    Paper {
        file: "app/mplayer.toml",
        tasks: &["mplayer"],
        all: 1.0,
        slow_down: 44.0,
        cut: None,
    },
];

/// What is claimed: slow-down within five points of `none`.
const NEAR_NONE: f64 = 5.0;
/// With restore, pinned pages at most this share of the paper's algorithm's.
const PINNED_SHARE: f64 = 0.75;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "app-fig4",
    about: "misses of three soft-real-time tasks, and what each policy costs the graph walk",
    files: THREE,
    kind: Kind::Models,
    run,
};

/// Runs the experiment.
fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let mut rows = Vec::new();
    for paper in &MODELS {
        let bench = Bench::new(laboratory, paper.file, paper.tasks, SEEDS)?;
        let alone = bench.alone(&[])?;
        let of = |policy: &Policy| bench.measure(policy, &[]);
        let runs = Runs {
            none: of(&NONE)?,
            all: of(&ALL)?,
            app: of(&APP)?,
            no_budget: of(&APP_NO_BUDGET)?,
            listing: of(&LISTING)?,
            steady: of(&STEADY)?,
            share: of(&SHARE)?,
            restore: of(&RESTORE)?,
            steady_restore: of(&STEADY_RESTORE)?,
        };
        rows.extend(misses(paper, &runs));
        rows.extend(slow_downs(paper, &runs, &alone));
        rows.extend(pinned(paper, &runs));
    }
    Ok(rows)
}

struct Runs {
    none: Measured,
    all: Measured,
    app: Measured,
    no_budget: Measured,
    listing: Measured,
    steady: Measured,
    share: Measured,
    restore: Measured,
    steady_restore: Measured,
}

impl Runs {
    fn named(&self) -> [(&'static str, &Measured); 9] {
        [
            (NONE.name, &self.none),
            (ALL.name, &self.all),
            (APP.name, &self.app),
            (APP_NO_BUDGET.name, &self.no_budget),
            (LISTING.name, &self.listing),
            (STEADY.name, &self.steady),
            (SHARE.name, &self.share),
            (RESTORE.name, &self.restore),
            (STEADY_RESTORE.name, &self.steady_restore),
        ]
    }
}

fn misses(paper: &Paper, runs: &Runs) -> Vec<ReproduceRow> {
    let task = paper.tasks[0];
    let all = runs.all.misses[0].mean();
    let mut rows: Vec<_> = runs
        .named()
        .into_iter()
        .map(|(policy, run)| {
            let (figure, bound) = match policy {
                "all" => (Some(paper.all), Bound::Shown),
                policy if [APP.name, LISTING.name, STEADY.name, STEADY_RESTORE.name].contains(&policy) => {
                    (None, Bound::AtMost(all + NEAR_ALL))
                }
                policy if policy == RESTORE.name => (None, Bound::AtMost(all)),
                _ => (None, Bound::Shown),
            };
            row(format!("{task}, {policy}: misses"), "%", figure, &run.misses[0], bound)
        })
        .collect();
    if let Some((cut, part)) = paper.cut {
        let app = &runs.app.misses[0];
        for (what, other, paper) in [
            ("fewer misses than none", &runs.none, cut),
            ("fewer than app-no-budget", &runs.no_budget, part),
        ] {
            let fewer = other.misses[0].less(app);
            rows.push(row(
                format!("{task}, app: {what}"),
                "points",
                Some(paper),
                &fewer,
                Bound::AtLeast(paper),
            ));
        }
    }
    rows
}

fn slow_downs(paper: &Paper, runs: &Runs, alone: &Measured) -> Vec<ReproduceRow> {
    let near = runs.none.slow_down(alone).mean() + NEAR_NONE;
    let task = paper.tasks[0];
    let row = |(policy, run): (&str, &Measured)| {
        let (figure, bound) = match policy {
            "none" | "app-no-budget" => (None, Bound::Shown),
            "all" => (Some(paper.slow_down), Bound::AtLeast(paper.slow_down)),
            _ => (None, Bound::AtMost(near)),
        };
        let what = format!("hog beside {task}, {policy}: slower than alone by");
        row(what, "%", figure, &run.slow_down(alone), bound)
    };
    let swap_ins = |(policy, run): (&str, &Measured)| {
        let what = format!("hog beside {task}, {policy}: swap-ins");
        self::row(what, "pages", None, &run.hog_swap_ins, Bound::Shown)
    };
    let shown = [(NONE.name, &runs.none), (ALL.name, &runs.all)];
    let rows = runs.named().into_iter().map(row);
    rows.chain([("alone", alone)].into_iter().chain(shown).map(swap_ins))
        .collect()
}

fn pinned(paper: &Paper, runs: &Runs) -> Vec<ReproduceRow> {
    let task = paper.tasks[0];
    let app = runs.app.pinned.mean();
    let pooled = runs.named().into_iter().skip(1);
    pooled
        .map(|(policy, run)| {
            let bound = match policy {
                // Less than nothing cannot be claimed.
                policy if policy == RESTORE.name && app > 0.0 => Bound::AtMost(app * PINNED_SHARE),
                _ => Bound::Shown,
            };
            row(format!("{task}, {policy}: pinned"), "pages", None, &run.pinned, bound)
        })
        .collect()
}
