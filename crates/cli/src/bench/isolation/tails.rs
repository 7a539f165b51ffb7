//! The tails of single runs, compared pair by pair.

use super::Side;
use crate::bench::rounds::{Found, Samples};

/// Compares the 99.9th percentile beside the sibling with another setting's, which it is to exceed by `goal` times at
/// most, without the stalls of the machine and with them.
pub(super) fn compare_tails(found: &mut Found, ours: &Side, with: &str, other: &Side, goal: f64) {
    let what = format!("p99.9 beside the sibling / {with}");
    let ratio = |ours: &Samples, other: &Samples| ours.quantiles().p999 / other.quantiles().p999;
    found.goal_row(&what, ratio(&ours.without_stalls, &other.without_stalls), "", goal);
    let stalled = ratio(&ours.samples, &other.samples);
    found.goal_row(&format!("{what}, with stalls"), stalled, "", goal);
    let Some(tails) = Tails::of(ours, other) else {
        return;
    };
    found.row(&format!("{what}: median of runs"), tails.median, "");
    found.row(&format!("{what}: the interval from"), tails.low, "");
    found.row(&format!("{what}: to"), tails.high, "");
}

/// Ratios of the 99.9th percentiles of runs that were made one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tails {
    pub(super) median: f64,
    /// From here ...
    pub(super) low: f64,
    /// ... to here the median lies in 95 of 100 cases, whatever the ratios' distribution.
    pub(super) high: f64,
}

impl Tails {
    /// Nothing where there are no pairs.
    pub(super) fn of(ours: &Side, other: &Side) -> Option<Self> {
        let pairs = ours.tails.iter().zip(&other.tails);
        Self::of_ratios(
            pairs
                .filter(|(_, other)| **other > 0.0)
                .map(|(ours, other)| ours / other)
                .collect(),
        )
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
