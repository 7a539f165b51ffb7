//! How long things took.

use freehold_report::status::TimesStatus;
use hdrhistogram::Histogram;

/// More than a minute: everything that takes longer counts as that.
const LONGEST: u64 = 1 << 36;

/// Times in nanoseconds. Recording one allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    counts: Histogram<u32>,
    longest: u64,
}

impl Times {
    pub(crate) fn new() -> Self {
        // One digit, from 1 ns on: its arguments are in the range that the crate documents.
        let counts = Histogram::new_with_bounds(1, LONGEST, 1);
        Self {
            counts: counts.unwrap_or_else(|_| Histogram::new(1).expect("one digit is allowed")),
            longest: 0,
        }
    }

    pub(crate) fn record(&mut self, nanos: u64) {
        self.counts.saturating_record(nanos.max(1));
        self.longest = self.longest.max(nanos);
    }

    pub(crate) fn view(&self) -> TimesStatus {
        let percentile = |percent| self.counts.value_at_percentile(percent).min(self.longest);
        TimesStatus {
            count: self.counts.len(),
            p50: percentile(50.0),
            p99: percentile(99.0),
            max: self.longest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Times;

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
        times.record(u64::MAX);
        assert_eq!(times.view().max, u64::MAX);
    }
}
