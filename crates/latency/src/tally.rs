//! The wake-ups of one space and load, over all slices.

use hdrhistogram::Histogram;

use crate::causes::{self, Cause};
use crate::probe_thread::Wake;
use crate::report::{Outlier, Percentiles};
use crate::slice::Measured;
use freehold_linux::faults::Faults;

/// What is late enough to look for a cause, in nanoseconds.
const LATE: u64 = 100_000;
/// How many of the latest are named.
const NAMED: usize = 16;
/// The longest that is told apart: 100 s.
const LONGEST: u64 = 100_000_000_000;
const MICROSECOND: u64 = 1000;

/// A distribution, and the worst of it.
#[derive(Debug)]
pub(crate) struct Tally {
    nanos: Histogram<u64>,
    /// Wake-ups by whole microseconds.
    micros: Vec<u64>,
    overflow: u64,
    last: u64,
    outliers: Vec<Outlier>,
    faults: Faults,
}

impl Tally {
    /// Of nothing yet; `bound` is where the histogram in microseconds ends.
    pub(crate) fn new(bound: u64) -> Self {
        // Three digits, from 1 ns on: its arguments are in the range that the crate documents.
        let nanos = Histogram::new_with_bounds(1, LONGEST, 3);
        Self {
            nanos: nanos.unwrap_or_else(|_| Histogram::new(3).expect("three digits are allowed")),
            micros: vec![0; usize::try_from(bound).unwrap_or(0)],
            overflow: 0,
            last: 0,
            outliers: Vec::new(),
            faults: Faults::default(),
        }
    }

    /// Counts what a slice has measured.
    pub(crate) fn add(&mut self, measured: &Measured) {
        for wake in &measured.wakes {
            self.count(wake.latency());
            self.faults = self.faults.plus(wake.faults);
            if wake.latency() >= LATE {
                let cause = causes::of(wake, &measured.reference, &measured.records);
                self.name(wake, cause);
            }
        }
    }

    /// Counts one wake-up of which nothing but its lateness is known.
    pub(crate) fn count(&mut self, nanos: u64) {
        self.nanos.saturating_record(nanos.max(1));
        self.last = nanos;
        let place = usize::try_from(nanos / MICROSECOND).ok();
        match place.and_then(|place| self.micros.get_mut(place)) {
            Some(count) => *count += 1,
            None => self.overflow += 1,
        }
    }

    fn name(&mut self, wake: &Wake, cause: Cause) {
        let us = micros(wake.latency());
        let place = self.outliers.partition_point(|outlier| outlier.us >= us);
        self.outliers.insert(place, Outlier { us, cause });
        self.outliers.truncate(NAMED);
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        let at = |quantile| micros(self.nanos.value_at_quantile(quantile));
        Percentiles {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: micros(self.nanos.max()),
        }
    }

    pub(crate) fn wakeups(&self) -> u64 {
        self.nanos.len()
    }

    /// The least, the last, the mean and the most, in whole microseconds.
    pub(crate) fn columns(&self) -> [u64; 4] {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a mean of values below 2^37"
        )]
        let mean = self.nanos.mean() as u64;
        let least = if self.nanos.is_empty() { 0 } else { self.nanos.min() };
        [least, self.last, mean, self.nanos.max()].map(|nanos| nanos / MICROSECOND)
    }

    pub(crate) fn histogram(&self) -> &[u64] {
        &self.micros
    }

    pub(crate) fn overflow(&self) -> u64 {
        self.overflow
    }

    pub(crate) fn outliers(&self) -> &[Outlier] {
        &self.outliers
    }

    pub(crate) fn faults(&self) -> u64 {
        self.faults.minor + self.faults.major
    }
}

fn micros(nanos: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
    let nanos = nanos as f64;
    nanos / 1000.0
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn each_wake_up_is_in_the_histogram_or_beyond_it() {
        let mut tally = Tally::new(10);
        for nanos in [0, 999, 1000, 9_999, 10_000, 1_000_000] {
            tally.count(nanos);
        }
        assert_eq!(tally.histogram(), [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((tally.overflow(), tally.wakeups()), (2, 6));
        let [least, last, _, most] = tally.columns();
        assert_eq!((least, last), (0, 1000));
        assert!((1000..1002).contains(&most), "{most}");
        assert!(tally.percentiles().p50 < 2.0);
    }
}
