//! The tails of single runs, compared pair by pair.

use super::Side;
use crate::bench::rounds::{Found, Samples};

/// Compares the 99.9th percentile beside the sibling with another setting's, which it should not exceed by more than
/// `goal` times.
///
/// Without the stalls of the machine all runs together are judged, but where the goal is 1: of two that are equal
/// either may come out as the longer. There, and where a few stalls are all of a percentile, what is judged is the lower
/// end of the interval.
pub(super) fn compare_tails(found: &mut Found, ours: &Side, with: &str, other: &Side, goal: f64) {
    let what = format!("p99.9 beside the sibling / {with}");
    let pooled = ratio(&ours.without_stalls, &other.without_stalls);
    let tails = Tails::of(&ours.tails, &other.tails);
    if goal > 1.0 {
        found.goal_row(&what, pooled, "", goal);
        show(found, &what, tails, None);
    } else {
        found.row(&what, pooled, "");
        show(found, &what, tails, Some(goal));
    }
    let what = format!("{what}, with stalls");
    found.row(&what, ratio(&ours.samples, &other.samples), "");
    show(found, &what, Tails::of(&ours.stalled, &other.stalled), Some(goal));
}

fn ratio(ours: &Samples, other: &Samples) -> f64 {
    ours.quantiles().p999 / other.quantiles().p999
}

fn show(found: &mut Found, what: &str, tails: Option<Tails>, goal: Option<f64>) {
    let Some(tails) = tails else { return };
    let from = format!("{what}: the interval from");
    match goal {
        Some(goal) => found.goal_row(&from, tails.low, "", goal),
        None => found.row(&from, tails.low, ""),
    }
    found.row(&format!("{what}: to"), tails.high, "");
    found.row(&format!("{what}: median of runs"), tails.median, "");
}

/// Ratios of the 99.9th percentiles of runs that were made one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tails {
    median: f64,
    /// From here ...
    low: f64,
    /// ... to here the median lies in 95 of 100 cases, whatever the ratios' distribution.
    high: f64,
}

impl Tails {
    /// Nothing where there are no pairs.
    fn of(ours: &[f64], other: &[f64]) -> Option<Self> {
        let pairs = ours.iter().zip(other).filter(|(_, other)| **other > 0.0);
        Self::of_ratios(pairs.map(|(ours, other)| ours / other).collect())
    }

    /// The interval is that of the sign test: between two ratios in order of size, as far from the ends as the number
    /// of ratios below the median strays.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some thousand runs at most, and not negative"
    )]
    fn of_ratios(mut ratios: Vec<f64>) -> Option<Self> {
        ratios.sort_by(f64::total_cmp);
        let count = ratios.len();
        let outside = ((count as f64 - 1.96 * (count as f64).sqrt()) / 2.0).max(0.0) as usize;
        Some(Self {
            median: *ratios.get(count / 2)?,
            low: *ratios.get(outside)?,
            high: *ratios.get(count - 1 - outside)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Tails;

    #[test]
    fn the_interval_narrows_with_the_number_of_runs() {
        let ratios = |count: u32| (0..count).map(|at| f64::from(at) / f64::from(count)).collect();
        let few = Tails::of_ratios(ratios(10)).unwrap();
        let many = Tails::of_ratios(ratios(1000)).unwrap();
        assert!(few.low < many.low && many.low < many.median);
        assert!(few.high > many.high && many.high > many.median);
        assert_eq!(Tails::of_ratios(Vec::new()), None);
        let one = Tails::of_ratios(vec![1.5]).unwrap();
        assert_eq!((one.low, one.median, one.high), (1.5, 1.5, 1.5));
    }
}
