//! Seeded random numbers: splitmix64. The same for ever, so that a seed printed by a failing test stays good.

/// A splitmix64 generator.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator for one use of a seed; different streams of one seed are unrelated.
    pub(crate) fn stream(seed: u64, stream: u64) -> Self {
        let mut root = Self(seed);
        let base = root.next_u64();
        let mut child = Self(base ^ stream.wrapping_mul(0x9fb2_1c65_1e98_df25));
        Self(child.next_u64())
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
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
