//! The paper's experiment (section VI.B): its components (Fig. 8) and its task sets.
//!
//! Figure 8 is a picture, of which the text says this: two components on top of the real-time part, likewise of the
//! best-effort part; calls go downwards, with a probability of 3/4 towards the line between the parts; three
//! components on the line call to both sides alike; 48 pages are the minimum of the real-time and the shared part, 74
//! of all. Our reading has ten rows, since a job works a tenth of its time in each component; 13 components in each
//! part and 11 that are shared, each with stacks and buffers, so that the minima are these.

use super::model::{ComponentModel, KindModel, Model, ThreadModel};
use crate::rng::Rng;

const ROWS: usize = 10;
const TOWARDS: f64 = 0.75;
/// Units that a component may have of each kind: as many as threads could hold.
const MOST: u32 = 16;
const MILLISECOND: u64 = 1_000_000;

/// A place in the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Of the real-time part or the best-effort one: row, and how far from the line (1 or 0).
    Part(bool, usize, usize),
    /// Shared: row, and the side of the line (0, 1), the real-time part's first.
    Shared(usize, usize),
}

/// Rows of a part, and the place of its single last component.
const PART_ROWS: usize = 6;
/// The first row of shared components.
const SHARED_ROW: usize = 4;

fn places(best_effort: bool) -> Vec<Place> {
    let mut places = Vec::new();
    for row in 0..ROWS {
        for part in [true, false] {
            let here = part || best_effort;
            let columns = if row < PART_ROWS {
                2
            } else {
                usize::from(row == PART_ROWS)
            };
            let all = (0..columns).map(|column| Place::Part(part, row, column));
            places.extend(all.filter(|_| here));
        }
        if row >= SHARED_ROW {
            let columns = if row == ROWS - 1 { 1 } else { 2 };
            places.extend((0..columns).map(|column| Place::Shared(row, column)));
        }
    }
    places
}

/// Whom a component calls. Those of a part's column 0 are the nearer to the line.
fn callees(place: Place) -> Vec<(Place, f64)> {
    let (toward, away) = match place {
        Place::Shared(row, _) if row == ROWS - 1 => return Vec::new(),
        Place::Shared(row, _) if row == ROWS - 2 => return vec![(Place::Shared(row + 1, 0), 1.0)],
        // The three on the line.
        Place::Shared(row, 0) if row >= ROWS - 5 => {
            return vec![(Place::Shared(row + 1, 0), 0.5), (Place::Shared(row + 1, 1), 0.5)];
        }
        Place::Shared(row, column) => (Place::Shared(row + 1, 0), Place::Shared(row + 1, column.max(1))),
        Place::Part(part, row, column) if row < PART_ROWS => {
            // The nearer of a row calls over the line as soon as there is something.
            let over = column == 0 && row + 1 >= SHARED_ROW;
            let toward = if over {
                Place::Shared(row + 1, usize::from(!part))
            } else {
                Place::Part(part, row + 1, 0)
            };
            (toward, Place::Part(part, row + 1, usize::from(row + 1 < PART_ROWS)))
        }
        Place::Part(part, row, _) => {
            let side = usize::from(!part);
            (Place::Shared(row + 1, side), Place::Shared(row + 1, 1 - side))
        }
    };
    vec![(toward, TOWARDS), (away, 1.0 - TOWARDS)]
}

/// The components of Figure 8, without or with the best-effort part, and those that the threads of each part enter.
#[must_use]
pub fn figure_8(best_effort: bool) -> (Vec<ComponentModel>, [Vec<usize>; 2]) {
    let places = places(best_effort);
    let at = |wanted: Place| places.iter().position(|place| *place == wanted).unwrap_or(0);
    let kind = KindModel {
        frames: 1,
        minimum: 1,
        most: MOST,
    };
    let components = places.iter().map(|place| ComponentModel {
        kinds: [kind; 2],
        calls: callees(*place)
            .into_iter()
            .map(|(callee, chance)| (at(callee), chance))
            .collect(),
    });
    let entries = |part| {
        let tops = (0..places.len()).filter(|at| matches!(places[*at], Place::Part(of, 0, _) if of == part));
        tops.collect()
    };
    (components.collect(), [entries(true), entries(false)])
}

/// Threads of each part.
const THREADS: usize = 8;
const UTILISATION: f64 = 0.8;

/// Periods and work of eight threads: periods exponential about 100 ms, utilisations exponential about a tenth, 0.8
/// together.
fn loads(random: &mut Rng) -> Vec<(u64, u64)> {
    let periods: Vec<u64> = (0..THREADS).map(|_| period(random)).collect();
    let shares: Vec<f64> = (0..THREADS).map(|_| exponential(random)).collect();
    let all: f64 = shares.iter().sum();
    let work = |(period, share): (&u64, &f64)| (*period, scaled(*period, UTILISATION * share / all));
    periods.iter().zip(&shares).map(work).collect()
}

/// Eight real-time threads, with rate-monotonic priorities.
#[must_use]
pub fn task_set(seed: u64) -> Model {
    let (components, [entries, _]) = figure_8(false);
    let loads = loads(&mut Rng::stream(seed, 0));
    let threads = loads.iter().map(|(period, work)| ThreadModel {
        entries: entries.clone(),
        period: *period,
        deadline: *period,
        work: *work,
        // The shorter the period, the more urgent; of equals the first.
        priority: 1 + loads
            .iter()
            .filter(|(other, _)| other > period)
            .count()
            .try_into()
            .unwrap_or(0),
        active: (0, u64::MAX / 2),
        skips: false,
    });
    Model {
        threads: threads.collect(),
        components,
    }
}

/// The same real-time threads beside all components of Figure 8, and eight best-effort threads from one time to another
/// in seconds, if there are such. The paper has each thread work as it says of real-time threads, so their loads are
/// drawn in the same way: together they want four times what is left of the CPU.
#[must_use]
pub fn best_effort(seed: u64, active: Option<(u64, u64)>) -> Model {
    const SECOND: u64 = 1000 * MILLISECOND;
    let (components, [real_time, best_effort]) = figure_8(true);
    let mut threads = task_set(seed).threads;
    threads
        .iter_mut()
        .for_each(|thread| thread.entries.clone_from(&real_time));
    if let Some((from, to)) = active {
        let loads = loads(&mut Rng::stream(seed, u64::MAX));
        threads.extend((0..).zip(loads).map(|(at, (period, work))| ThreadModel {
            entries: best_effort.clone(),
            period,
            deadline: period,
            work,
            priority: 0,
            active: (from * SECOND + at * MILLISECOND, to * SECOND),
            // What they have not got done by then is nobody's.
            skips: true,
        }));
    }
    Model { threads, components }
}

/// From 10 ms to a second.
fn period(random: &mut Rng) -> u64 {
    scaled(100 * MILLISECOND, exponential(random)).clamp(10 * MILLISECOND, 1000 * MILLISECOND)
}

/// Exponential with mean 1.
fn exponential(random: &mut Rng) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "at most 2^53")]
    let unit = ((random.next_u64() >> 11) as f64 + 1.0) / 9_007_199_254_740_993.0;
    -unit.ln()
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times far below 2^53, and positive"
)]
fn scaled(time: u64, by: f64) -> u64 {
    (time as f64 * by) as u64
}
