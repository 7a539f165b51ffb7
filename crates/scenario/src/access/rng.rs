//! Seeded random numbers: splitmix64. Small, fast, and the same for ever.

/// A splitmix64 generator.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator from its seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator for one use of a seed: different streams of one seed share nothing visible.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut root = Self(seed);
        let base = root.next_u64();
        let mut child = Self(base ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        Self(child.next_u64())
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform below `bound`; 0 for a bound of 0. The bias, below 2⁻³², does not matter here.
    pub fn below(&mut self, bound: u32) -> u32 {
        let product = (u128::from(self.next_u64()) * u128::from(bound)) >> 64;
        u32::try_from(product).unwrap_or(0)
    }

    /// Uniform in (0, 1].
    pub fn unit(&mut self) -> f64 {
        // 2⁻⁵³ times a number in 1..=2⁵³: both exact in an f64.
        let bits = (self.next_u64() >> 11) + 1;
        #[allow(clippy::cast_precision_loss, reason = "at most 2^53")]
        let numerator = bits as f64;
        numerator / 9_007_199_254_740_992.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_values() {
        // From the reference implementation, seed 1234567.
        let mut rng = SplitMix64::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn ranges() {
        let mut rng = SplitMix64::stream(1, 2);
        for _ in 0..10_000 {
            assert!(rng.below(7) < 7);
            let unit = rng.unit();
            assert!(unit > 0.0 && unit <= 1.0);
        }
        assert_eq!(rng.below(0), 0);
    }
}
