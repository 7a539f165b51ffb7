//! Samples and rounds.

use std::fmt::Display;

use freehold_linux::clock;
use freehold_scenario::results::{BenchRow, BenchSide, Quantiles};
use hdrhistogram::Histogram;

use freehold_command::exit_status::Failure;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Rounds, floor and ours alternating.
    pub(crate) rounds: u32,
    /// As little as shows that it works.
    pub(crate) quick: bool,
}

impl Effort {
    /// `full` of something in each round, or a twentieth of it, at least one.
    pub(crate) fn scaled(self, full: u32) -> u32 {
        if self.quick { (full / 20).max(1) } else { full }
    }
}

/// Histograms have no fractions: samples are kept in thousandths.
const SCALE: u64 = 1_000;

/// A distribution of samples, in whatever unit.
#[derive(Clone, Debug)]
pub(crate) struct Samples(Histogram<u64>);

impl Samples {
    /// None yet.
    ///
    /// # Errors
    /// No memory for the histogram.
    pub(crate) fn new() -> Result<Self, Failure> {
        Histogram::new_with_bounds(1, 1 << 50, 3)
            .map(Self)
            .map_err(|error| Failure::Run(format!("cannot make a histogram: {error}")))
    }

    /// One sample.
    pub(crate) fn record(&mut self, whole: u64) {
        self.record_mean(whole, 1);
    }

    /// The mean of `events` that took `total` together.
    pub(crate) fn record_mean(&mut self, total: u64, events: u64) {
        let scaled = total.saturating_mul(SCALE) / events.max(1);
        self.0.saturating_record(scaled.max(1));
    }

    /// Times `event` in nanoseconds.
    pub(crate) fn time<R>(&mut self, event: impl FnOnce() -> R) -> R {
        let begun = clock::now();
        let result = event();
        self.record(clock::now().as_nanos() - begun.as_nanos());
        result
    }

    /// All samples of both.
    pub(crate) fn merge(&mut self, other: &Self) {
        // Equal bounds: nothing can be outside.
        let _ = self.0.add(&other.0);
    }

    /// The samples of `others`, each divided by `events`.
    pub(crate) fn merge_means(&mut self, others: &Self, events: u64) {
        for sample in others.0.iter_recorded() {
            let mean = sample.value_iterated_to() / events.max(1);
            self.0.saturating_record_n(mean.max(1), sample.count_at_value());
        }
    }

    /// The mean.
    #[allow(clippy::cast_precision_loss, reason = "for display; far below 2^53")]
    pub(crate) fn mean(&self) -> f64 {
        self.0.mean() / (SCALE as f64)
    }

    /// What the document shows.
    #[allow(clippy::cast_precision_loss, reason = "for display; far below 2^53")]
    pub(crate) fn quantiles(&self) -> Quantiles {
        let unscaled = |scaled: u64| (scaled as f64) / (SCALE as f64);
        let at = |quantile| unscaled(self.0.value_at_quantile(quantile));
        Quantiles {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: unscaled(self.0.max()),
        }
    }
}

/// What a benchmark found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The floor's samples.
    pub(crate) floor: Samples,
    /// Ours.
    pub(crate) ours: Samples,
    /// Further distributions.
    pub(crate) sides: Vec<BenchSide>,
    /// Further numbers.
    pub(crate) rows: Vec<BenchRow>,
    /// What a reader must know.
    pub(crate) notes: Vec<String>,
}

impl Found {
    /// Nothing yet.
    ///
    /// # Errors
    /// As [`Samples::new`].
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self {
            floor: Samples::new()?,
            ours: Samples::new()?,
            sides: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Adds a distribution beside floor and ours.
    pub(crate) fn add_side(&mut self, what: &str, samples: &Samples) {
        self.sides.push(BenchSide {
            what: what.to_owned(),
            ns: samples.quantiles(),
        });
    }

    /// Adds a number that is shown only.
    pub(crate) fn row(&mut self, what: &str, value: f64, unit: &str) {
        self.rows.push(BenchRow::shown(what, value, unit));
    }

    /// Adds a number that should not exceed `goal`.
    pub(crate) fn goal_row(&mut self, what: &str, value: f64, unit: &str, goal: f64) {
        self.rows.push(BenchRow::at_most(what, value, unit, goal));
    }

    /// Adds the interval from `low` to `high` of a number that should not exceed `goal`.
    pub(crate) fn interval_row(&mut self, what: &str, [low, high]: [f64; 2], unit: &str, goal: f64) {
        self.rows.push(BenchRow::interval_at_most(what, low, high, unit, goal));
    }

    /// Measures both in turns, a round of the one and a round of the other.
    ///
    /// # Errors
    /// Those of `floor` and `ours`.
    pub(crate) fn alternate(
        &mut self,
        effort: Effort,
        mut floor: impl FnMut(&mut Samples) -> Result<(), Failure>,
        mut ours: impl FnMut(&mut Samples) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for _ in 0..effort.rounds {
            floor(&mut self.floor)?;
            ours(&mut self.ours)?;
        }
        Ok(())
    }
}

/// The machine, or the kernel, refuses what a benchmark needs.
pub(crate) fn refused(error: impl Display) -> Failure {
    Failure::Run(format!("the benchmark cannot run here: {error}"))
}
