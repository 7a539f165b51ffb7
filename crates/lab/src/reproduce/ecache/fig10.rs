//! Figure 10: policies that choose where a device goes.

use freehold_scenario::results::ReproduceRow;
use freehold_sim::replay::{Choice, Replayed};

use super::study::{Study, cut};
use super::workload::{MULTIMEDIA, WORKLOADS};
use super::{SEEDS, per_cent, row};
use crate::reproduce::app::{Bound, Sample};
use crate::reproduce::{Experiment, Kind, Laboratory};
use freehold_command::exit_status::Failure;
use freehold_command::output;

/// The experiment.
pub(in crate::reproduce) const EXPERIMENT: Experiment = Experiment {
    name: "ecache-fig10",
    about: "hit ratio, utilisation and read I/O by the policy that places devices",
    files: &[],
    kind: Kind::Models,
    run,
};

const POLICIES: [(&str, Choice); 5] = [
    ("lru", Choice::Lru),
    ("count", Choice::Count),
    ("static, best order", Choice::Static),
    ("random", Choice::Random),
    ("optimal, greedy", Choice::Optimal),
];
/// How near `lru` must come to `optimal`, where devices open seldom and where they open often.
const NEAR: f64 = 0.95;
const NEAR_MULTIMEDIA: f64 = 0.85;

fn run(laboratory: &Laboratory) -> Result<Vec<ReproduceRow>, Failure> {
    let choices: Vec<Choice> = POLICIES.iter().map(|(_, choice)| *choice).collect();
    let mut study = Study::new(&choices, laboratory.seeds(SEEDS))?;
    let mut rows = Vec::new();
    for place in 0..study.sizes.len() {
        for (workload, name) in WORKLOADS.iter().enumerate() {
            study.replay(place, workload)?;
            let what = format!("{}, {name}", study.sizes[place].name);
            let begin = rows.len();
            for (policy, choice) in POLICIES {
                rows.extend(shown(&study, place, workload, (policy, choice), &what));
            }
            rows.extend(judged(&study, place, workload, &what, MULTIMEDIA.contains(name)));
            tell(&rows[begin..]);
        }
    }
    Ok(rows)
}

/// A part that has ended, for who waits for the whole.
fn tell(rows: &[ReproduceRow]) {
    for row in rows {
        output::note(&format!("{}: {:.2} {}", row.what, row.ours, row.unit));
    }
}

fn hit_ratio(replayed: &Replayed) -> f64 {
    per_cent(replayed.pages.hits, replayed.pages.gets)
}

fn shown(
    study: &Study,
    sizes: usize,
    workload: usize,
    (policy, choice): (&str, Choice),
    what: &str,
) -> Vec<ReproduceRow> {
    let sample = |of: &dyn Fn(&Replayed) -> f64| study.sample(sizes, workload, choice, of);
    let line = |word: &str, sample: &Sample| row(format!("{what}, {policy}: {word}"), "%", None, sample, Bound::Shown);
    vec![
        line("hit ratio", &sample(&hit_ratio)),
        line("utilisation", &sample(&|found| 100.0 * found.utilisation.by_access)),
        line("read I/O cut", &sample(&cut)),
    ]
}

/// The claims of `lru`'s cut: near `optimal`, and where devices open often better than by chance. Beside `count` it is
/// shown which is ahead: the paper has `lru` ahead by 2 to 13 %.
fn judged(study: &Study, sizes: usize, workload: usize, what: &str, is_multimedia: bool) -> Vec<ReproduceRow> {
    let cut = |choice| study.sample(sizes, workload, choice, cut);
    let (lru, optimal, random, count) = (
        cut(Choice::Lru),
        cut(Choice::Optimal),
        cut(Choice::Random),
        cut(Choice::Count),
    );
    let near = if is_multimedia { NEAR_MULTIMEDIA } else { NEAR };
    let part = Sample::new(vec![lru.mean() / optimal.mean()]);
    let mut rows = vec![row(
        format!("{what}: lru's cut beside optimal's"),
        "",
        None,
        &part,
        Bound::AtLeast(near),
    )];
    let ahead = |other: &Sample| lru.less(other);
    let beside_random = if is_multimedia {
        Bound::AtLeast(0.0)
    } else {
        Bound::Shown
    };
    rows.push(row(
        format!("{what}: lru ahead of random"),
        "points",
        None,
        &ahead(&random),
        beside_random,
    ));
    rows.push(row(
        format!("{what}: lru ahead of count"),
        "points",
        None,
        &ahead(&count),
        Bound::Shown,
    ));
    rows
}
