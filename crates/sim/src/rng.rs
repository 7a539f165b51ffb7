//! Seeded random numbers, the same for ever, so that a seed printed by a failing test stays good.

use freehold_scenario::SplitMix64;

/// A generator of the simulator's own: its streams are unrelated to those of a scenario's accesses.
#[derive(Clone, Debug)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    /// A generator for one use of a seed; different streams of one seed are unrelated.
    pub(crate) fn stream(seed: u64, stream: u64) -> Self {
        let base = SplitMix64::new(seed).next_u64();
        let mut child = SplitMix64::new(base ^ stream.wrapping_mul(0x9fb2_1c65_1e98_df25));
        Self(SplitMix64::new(child.next_u64()))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform below `bound`; 0 for a bound of 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let product = (u128::from(self.next_u64()) * u128::from(bound)) >> 64;
        u64::try_from(product).unwrap_or(0)
    }

    /// Uniform in `low..=high`; `low` where the range is empty.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Log-uniform in `low..=high`, about: as many halves of a doubling as the range has are equally likely, and within
    /// one all numbers are. `low` is not zero.
    pub(crate) fn logarithmic(&mut self, low: u64, high: u64) -> u64 {
        let doublings = (high / low.max(1)).max(1).ilog2();
        let from = low << self.within(0, u64::from(doublings));
        self.within(from, (2 * from).min(high))
    }

    /// True once in `n` on average.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        #[allow(clippy::cast_precision_loss, reason = "at most 2^53")]
        let unit = (self.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0;
        unit < probability
    }

    /// One of these; the first where the list is empty of choices is a programmer's error.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        debug_assert!(!choices.is_empty());
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_stays_good() {
        let mut rng = Rng::stream(7, 3);
        assert_eq!(rng.next_u64(), 8_360_078_276_145_921_097);
        assert_eq!(rng.next_u64(), 231_265_399_228_287_583);
        assert_eq!(rng.below(1000), 780);
    }
}
