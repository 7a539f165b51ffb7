//! Means over seeds, and rows of them.

use freehold_scenario::results::ReproduceRow;

/// Student's t for 95 %, two-sided, by degrees of freedom from one on. Beyond the last it would be a little smaller.
const STUDENT: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// One number per seed.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::reproduce) struct Sample {
    values: Vec<f64>,
}

impl Sample {
    /// The numbers, in the order of the seeds.
    pub(in crate::reproduce) fn new(values: Vec<f64>) -> Self {
        Self { values }
    }

    /// The numbers.
    pub(in crate::reproduce) fn values(&self) -> &[f64] {
        &self.values
    }

    /// Their mean; not a number where there is none.
    pub(in crate::reproduce) fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.count()
    }

    /// Half the width of the mean's 95 % confidence interval, by Student's t; `None` of fewer than two.
    pub(in crate::reproduce) fn interval(&self) -> Option<f64> {
        let freedom = self.values.len().checked_sub(2)?;
        let student = STUDENT.get(freedom).or(STUDENT.last())?;
        let mean = self.mean();
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (self.count() - 1.0)).sqrt();
        Some(student * deviation / self.count().sqrt())
    }

    /// Seed by seed, this less the other.
    pub(in crate::reproduce) fn less(&self, other: &Sample) -> Sample {
        let pairs = self.values.iter().zip(&other.values);
        Sample::new(pairs.map(|(one, other)| one - other).collect())
    }

    #[allow(clippy::cast_precision_loss, reason = "at most a thousand seeds")]
    fn count(&self) -> f64 {
        self.values.len() as f64
    }
}

/// What is claimed of a mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::reproduce) enum Bound {
    /// It is not more than this.
    AtMost(f64),
    /// It is not less than this.
    AtLeast(f64),
    /// It is shown only.
    Shown,
}

/// Compares the mean with what is claimed. A bound that is not the paper's number is named. Numbers are rounded to
/// hundredths after the comparison.
pub(in crate::reproduce) fn row(
    what: impl Into<String>,
    unit: &str,
    paper: Option<f64>,
    sample: &Sample,
    bound: Bound,
) -> ReproduceRow {
    let mean = sample.mean();
    let (claim, limit, holds) = match bound {
        Bound::AtMost(limit) => ("at most", Some(limit), mean <= limit),
        Bound::AtLeast(limit) => ("at least", Some(limit), mean >= limit),
        Bound::Shown => ("shown", None, mean.is_finite()),
    };
    let what = what.into();
    let limit = limit.filter(|limit| paper != Some(*limit));
    let what = limit.map_or_else(
        || what.clone(),
        |limit| format!("{what} ({claim} {})", hundredths(limit)),
    );
    ReproduceRow {
        what,
        paper,
        ours: hundredths(mean),
        interval: sample.interval().map(hundredths),
        unit: unit.to_owned(),
        claim: claim.to_owned(),
        holds,
    }
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        assert_eq!(Sample::new(vec![3.0]).interval(), None);
        let sample = Sample::new(vec![1.0, 2.0, 3.0]);
        // Deviation 1, over the root of three, times 4.303.
        assert!((sample.interval().unwrap() - 2.484).abs() < 0.001);
        assert!((sample.mean() - 2.0).abs() < 1e-9);
        assert_eq!(sample.less(&sample).values(), [0.0; 3]);
    }

    #[test]
    fn a_mean_that_is_missing_keeps_no_claim() {
        let none = Sample::new(Vec::new());
        for bound in [Bound::AtMost(1.0), Bound::AtLeast(0.0), Bound::Shown] {
            assert!(!row("x", "%", None, &none, bound).holds);
        }
        let two = Sample::new(vec![2.0]);
        assert!(row("x", "%", None, &two, Bound::AtMost(2.0)).holds);
        assert!(!row("x", "%", None, &two, Bound::AtLeast(2.1)).holds);
        assert_eq!(row("x", "%", Some(1.0), &two, Bound::AtMost(3.0)).what, "x (at most 3)");
    }
}
