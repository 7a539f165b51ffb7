//! The tails of single runs, compared pair by pair.

use super::Side;
use crate::bench::pairs::Paired;
use crate::bench::rounds::{Found, Samples};

/// Compares the 99.9th percentile beside the sibling with another setting's, which it should not exceed by more than
/// `goal` times.
///
/// Without the stalls of the machine all runs together are judged, but where the goal is 1: of two that are equal
/// either may come out as the longer. There, and where a few stalls are all of a percentile, the interval is judged:
/// the goal is open where the interval has both sides of it.
pub(super) fn compare_tails(found: &mut Found, ours: &Side, with: &str, other: &Side, goal: f64) {
    let what = format!("p99.9 beside the sibling / {with}");
    let pooled = ratio(&ours.without_stalls, &other.without_stalls);
    let tails = Paired::of(&ours.tails, &other.tails);
    if goal > 1.0 {
        found.goal_row(&what, pooled, "", goal);
        show(found, &what, tails, None);
    } else {
        found.row(&what, pooled, "");
        show(found, &what, tails, Some(goal));
    }
    let what = format!("{what}, with stalls");
    found.row(&what, ratio(&ours.samples, &other.samples), "");
    show(found, &what, Paired::of(&ours.stalled, &other.stalled), Some(goal));
}

fn ratio(ours: &Samples, other: &Samples) -> f64 {
    ours.quantiles().p999 / other.quantiles().p999
}

fn show(found: &mut Found, what: &str, tails: Option<Paired>, goal: Option<f64>) {
    let Some(tails) = tails else { return };
    let from = format!("{what}: the interval from");
    match goal {
        Some(goal) => found.interval_row(&from, [tails.low, tails.high], "", goal),
        None => found.row(&from, tails.low, ""),
    }
    found.row(&format!("{what}: to"), tails.high, "");
    found.row(&format!("{what}: median of runs"), tails.median, "");
}
