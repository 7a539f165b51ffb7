//! How long things took: a histogram with buckets an eighth of a power of two wide.

use crate::view::ServiceTimes;

/// Buckets for each power of two.
const STEPS: u32 = 8;
/// The first power of two that has buckets of its own: shorter times are one bucket.
const FIRST: u32 = 9;
/// Past 2³⁶ ns, more than a minute, everything is one bucket.
const LAST: u32 = 36;
const BUCKETS: usize = ((LAST - FIRST) * STEPS + 2) as usize;

/// Times in nanoseconds. Recording one costs a few instructions.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    counts: Box<[u32; BUCKETS]>,
    total: u64,
    longest: u64,
}

impl Times {
    pub(crate) fn new() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            total: 0,
            longest: 0,
        }
    }

    pub(crate) fn record(&mut self, nanos: u64) {
        if let Some(count) = self.counts.get_mut(bucket(nanos)) {
            *count = count.saturating_add(1);
        }
        self.total += 1;
        self.longest = self.longest.max(nanos);
    }

    pub(crate) fn view(&self) -> ServiceTimes {
        ServiceTimes {
            count: self.total,
            p50: self.quantile(50),
            p99: self.quantile(99),
            max: self.longest,
        }
    }

    /// The upper end of the bucket that holds the given percentile.
    fn quantile(&self, percent: u64) -> u64 {
        let wanted = (self.total * percent).div_ceil(100);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted && seen > 0 {
                return upper_end(at).min(self.longest);
            }
        }
        self.longest
    }
}

fn bucket(nanos: u64) -> usize {
    let power = 63 - (nanos | 1).leading_zeros();
    if power < FIRST {
        return 0;
    }
    if power >= LAST {
        return BUCKETS - 1;
    }
    let step = (nanos >> (power - 3)) & 7;
    (power - FIRST) as usize * STEPS as usize + usize::try_from(step).unwrap_or(0) + 1
}

fn upper_end(bucket: usize) -> u64 {
    let Some(at) = u32::try_from(bucket).unwrap_or(u32::MAX).checked_sub(1) else {
        return (1 << FIRST) - 1;
    };
    let (power, step) = (FIRST + at / STEPS, u64::from(at % STEPS));
    (1_u64 << power.min(62)) + ((step + 1) << (power.min(62) - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Times, bucket, upper_end};

    #[test]
    fn every_time_lies_in_its_bucket() {
        let mut last = 0;
        for nanos in (0..70_000).chain([1 << 35, (1 << 36) - 1]) {
            let at = bucket(nanos);
            assert!(at >= last && at < BUCKETS && nanos <= upper_end(at), "{nanos}");
            assert!(at == 0 || nanos > upper_end(at - 1), "{nanos}");
            last = at;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_near_and_the_longest_is_exact() {
        let mut times = Times::new();
        assert_eq!(times.view().p99, 0);
        for nanos in 1..=1_000 {
            times.record(nanos * 1_000);
        }
        let view = times.view();
        assert_eq!((view.count, view.max), (1_000, 1_000_000));
        assert!((500_000..=570_000).contains(&view.p50), "{view:?}");
        assert!((990_000..=1_000_000).contains(&view.p99), "{view:?}");
    }
}
