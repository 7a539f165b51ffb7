//! Two things measured in turns, compared pair by pair: a machine that is slower for a while is so for both of a pair.

/// Ratios of two things measured in turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paired {
    pub(super) median: f64,
    /// From here ...
    pub(super) low: f64,
    /// ... to here the median lies in 95 of 100 cases, whatever the ratios' distribution.
    pub(super) high: f64,
}

impl Paired {
    /// Of each measurement and the one of the other beside it; nothing where there are none.
    pub(super) fn of(ours: &[f64], other: &[f64]) -> Option<Self> {
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
    use super::Paired;

    #[test]
    fn the_interval_narrows_with_the_number_of_pairs() {
        let ratios = |count: u32| (0..count).map(|at| f64::from(at) / f64::from(count)).collect();
        let few = Paired::of_ratios(ratios(10)).unwrap();
        let many = Paired::of_ratios(ratios(1000)).unwrap();
        assert!(few.low < many.low && many.low < many.median);
        assert!(few.high > many.high && many.high > many.median);
        assert_eq!(Paired::of_ratios(Vec::new()), None);
        let one = Paired::of_ratios(vec![1.5]).unwrap();
        assert_eq!((one.low, one.median, one.high), (1.5, 1.5, 1.5));
    }
}
