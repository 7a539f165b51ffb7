//! Response times: percentiles from a histogram, the maximum exact.

use freehold_core::units::Duration;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest response the histogram tells apart: one hour. Longer ones count as that; the maximum stays exact.
const LONGEST: u64 = 3_600_000_000_000;

/// Response times of a task's finished jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The median, within 0.1 %.
    pub p50: u64,
    /// The 99th percentile, within 0.1 %.
    pub p99: u64,
    /// The largest, exactly.
    pub max: u64,
}

/// Collects response times. Allocates at construction only.
///
/// ```
/// use freehold_core::units::Duration;
/// use freehold_scenario::results::ResponseRecorder;
/// let mut recorder = ResponseRecorder::new();
/// recorder.record(Duration::new(10));
/// recorder.record(Duration::new(123_456_789));
/// assert_eq!((recorder.response().p50, recorder.response().max), (10, 123_456_789));
/// ```
#[derive(Clone, Debug)]
pub struct ResponseRecorder {
    /// `None` only if the constant bounds were refused, which a test excludes.
    histogram: Option<Histogram<u64>>,
    max: u64,
    count: u64,
}

impl Default for ResponseRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseRecorder {
    /// An empty recorder.
    #[must_use]
    pub fn new() -> Self {
        Self {
            histogram: Histogram::new_with_bounds(1, LONGEST, 3).ok(),
            max: 0,
            count: 0,
        }
    }

    /// Notes one response time.
    pub fn record(&mut self, response: Duration) {
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(response.get());
        }
        self.max = self.max.max(response.get());
        self.count = self.count.saturating_add(1);
    }

    /// How many were noted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The value that `quantile` (0..=1) of the responses do not exceed; 0 without any.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u64 {
        let value = self
            .histogram
            .as_ref()
            .map_or(self.max, |histogram| histogram.value_at_quantile(quantile));
        value.min(self.max)
    }

    /// The summary.
    #[must_use]
    pub fn response(&self) -> Response {
        Response {
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            max: self.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_accepted_and_the_maximum_is_exact() {
        let mut recorder = ResponseRecorder::new();
        assert!(recorder.histogram.is_some());
        assert_eq!(recorder.response(), Response::default());
        for response in 1..=100 {
            recorder.record(Duration::new(response * 1_000));
        }
        let found = recorder.response();
        assert!((49_900..=50_100).contains(&found.p50), "{found:?}");
        assert!((98_900..=99_100).contains(&found.p99), "{found:?}");
        assert_eq!((found.max, recorder.count()), (100_000, 100));
        recorder.record(Duration::new(u64::MAX));
        assert_eq!(recorder.response().max, u64::MAX);
    }
}
