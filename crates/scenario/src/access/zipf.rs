//! Zipf-distributed ranks by rejection-inversion (Hörmann and Derflinger, 1996): no table, and a constant expected
//! number of draws per sample whatever the number of ranks.

use super::rng::SplitMix64;

/// A sampler of ranks `0 .. ranks` with probability proportional to `(rank + 1)^-exponent`.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    ranks: u32,
    exponent: f64,
    integral_first: f64,
    integral_last: f64,
    shortcut: f64,
}

impl Zipf {
    /// `ranks` of at least 1, `exponent` above 0.
    pub(crate) fn new(ranks: u32, exponent: f64) -> Self {
        let last = f64::from(ranks) + 0.5;
        let shortcut = 2.0 - integral_inverse(integral(2.5, exponent) - height(2.0, exponent), exponent);
        let integral_first = integral(1.5, exponent) - 1.0;
        Self {
            ranks,
            exponent,
            integral_first,
            integral_last: integral(last, exponent),
            shortcut,
        }
    }

    pub(crate) fn sample(&self, rng: &mut SplitMix64) -> u32 {
        loop {
            let u = self.integral_last + rng.unit() * (self.integral_first - self.integral_last);
            let x = integral_inverse(u, self.exponent);
            let nearest = (x + 0.5).floor().clamp(1.0, f64::from(self.ranks));
            let accepted = nearest - x <= self.shortcut
                || u >= integral(nearest + 0.5, self.exponent) - height(nearest, self.exponent);
            if accepted {
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "clamped to 1..=ranks"
                )]
                return (nearest as u32).saturating_sub(1);
            }
        }
    }
}

/// `x^-exponent`.
fn height(x: f64, exponent: f64) -> f64 {
    (-exponent * x.ln()).exp()
}

/// The integral of [`height`] up to `x`.
fn integral(x: f64, exponent: f64) -> f64 {
    let log = x.ln();
    expm1_over((1.0 - exponent) * log) * log
}

fn integral_inverse(x: f64, exponent: f64) -> f64 {
    // Rounding may leave the domain of the logarithm by a hair.
    let t = (x * (1.0 - exponent)).max(-1.0);
    (log1p_over(t) * x).exp()
}

/// `ln(1 + x) / x`, 1 at 0.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x * (0.5 - x * (1.0 / 3.0 - 0.25 * x))
    }
}

/// `(e^x - 1) / x`, 1 at 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x * 0.5 * (1.0 + x / 3.0 * (1.0 + 0.25 * x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_law() {
        for exponent in [0.5, 0.9, 1.0, 1.7] {
            let ranks = 20_u32;
            let zipf = Zipf::new(ranks, exponent);
            let mut rng = SplitMix64::new(7);
            let mut counts = vec![0_u32; 20];
            let draws = 200_000_u32;
            for _ in 0..draws {
                counts[zipf.sample(&mut rng) as usize] += 1;
            }
            let norm: f64 = (1..=ranks).map(|k| f64::from(k).powf(-exponent)).sum();
            for (rank, count) in (1..=ranks).zip(&counts) {
                let expected = f64::from(rank).powf(-exponent) / norm;
                let found = f64::from(*count) / f64::from(draws);
                assert!(
                    (found - expected).abs() < 0.005,
                    "exponent {exponent} rank {rank}: {found} for {expected}"
                );
            }
        }
    }

    #[test]
    fn extremes_terminate_in_range() {
        let mut rng = SplitMix64::new(1);
        for (ranks, exponent) in [
            (1, 0.9),
            (2, 10.0),
            (u32::MAX, 0.01),
            (u32::MAX, 10.0),
            (1, 10.0),
            (3, 1.0),
        ] {
            let zipf = Zipf::new(ranks, exponent);
            for _ in 0..2_000 {
                assert!(zipf.sample(&mut rng) < ranks);
            }
        }
    }
}
