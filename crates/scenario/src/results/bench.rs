//! The document of `bench`.

use super::number;
use super::table::{Align, TextTable};
use serde::{Deserialize, Serialize};

/// Our cost beside the floor that the machine sets, measured alternately in one run. For a rate or a size the same
/// fields are used with another `unit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchResult {
    /// Its name.
    pub bench: String,
    /// How often floor and ours were measured.
    pub rounds: u64,
    /// The floor.
    pub floor_ns: Quantiles,
    /// Ours.
    pub ours_ns: Quantiles,
    /// Ours divided by the floor.
    pub ratio: Ratio,
    /// What the ratio should not exceed (for a rate: not fall below).
    pub goal: f64,
    /// The unit of `floor_ns` and `ours_ns`.
    pub unit: String,
}

/// A distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The median.
    #[serde(serialize_with = "number::serialize")]
    pub p50: f64,
    /// The 99th percentile.
    #[serde(serialize_with = "number::serialize")]
    pub p99: f64,
    /// The 99.9th percentile.
    #[serde(serialize_with = "number::serialize")]
    pub p999: f64,
    /// The largest.
    #[serde(serialize_with = "number::serialize")]
    pub max: f64,
}

/// Ours divided by the floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Of the medians.
    pub p50: f64,
    /// Of the 99th percentiles.
    pub p99: f64,
}

impl Ratio {
    /// The ratio of two distributions; 0 where the floor is 0.
    #[must_use]
    pub fn of(ours: &Quantiles, floor: &Quantiles) -> Self {
        let ratio = |ours: f64, floor: f64| if floor > 0.0 { ours / floor } else { 0.0 };
        Self {
            p50: ratio(ours.p50, floor.p50),
            p99: ratio(ours.p99, floor.p99),
        }
    }
}

impl BenchResult {
    /// The result for a reader.
    #[must_use]
    pub fn to_text(&self) -> String {
        let names = ["p50", "p99", "p999", "max"].map(|name| (name, Align::Right));
        let mut table = TextTable::new(&[&[(self.unit.as_str(), Align::Left)][..], &names].concat());
        for (name, q) in [("floor", &self.floor_ns), ("ours", &self.ours_ns)] {
            table.row([
                name.to_owned(),
                number::show(q.p50),
                number::show(q.p99),
                number::show(q.p999),
                number::show(q.max),
            ]);
        }
        let Ratio { p50, p99 } = self.ratio;
        table.row(["ratio".to_owned(), format!("{p50:.2}"), format!("{p99:.2}")]);
        format!(
            "{}: {} rounds, goal {:.2}\n\n{table}",
            self.bench, self.rounds, self.goal
        )
    }
}
