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
    /// What the number named by `judged` should not exceed (for a rate: not fall below).
    pub goal: f64,
    /// The unit of `floor_ns` and `ours_ns`.
    pub unit: String,
    /// Whether every goal, that of each row included, is kept for certain: whether `verdict` is `held`.
    pub holds: bool,
    /// The worst verdict on a goal, those of the rows included.
    pub verdict: Verdict,
    /// Which number the goal is for.
    pub judged: Judged,
    /// What the floor is.
    pub floor: String,
    /// Other distributions measured in the same run, in the same unit.
    pub sides: Vec<BenchSide>,
    /// Other numbers measured in the same run.
    pub rows: Vec<BenchRow>,
    /// What a reader must know to judge the numbers.
    pub notes: Vec<String>,
}

/// What a measurement says of a goal, from the best on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is kept.
    Held,
    /// The interval that the number lies in has both sides of it.
    Open,
    /// It is not kept.
    Missed,
}

/// The number that a goal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Judged {
    /// The ratio of the medians, at most the goal.
    #[serde(rename = "ratio.p50")]
    RatioP50,
    /// The ratio of the 99.9th percentiles, at most the goal.
    #[serde(rename = "ratio.p999")]
    RatioP999,
    /// Our median, at most the goal.
    #[serde(rename = "ours.p50")]
    OursP50,
    /// Our median, at least the goal: a rate.
    #[serde(rename = "ours.p50 at least")]
    OursP50AtLeast,
}

/// A distribution measured beside floor and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchSide {
    /// What was measured.
    pub what: String,
    /// Its distribution.
    pub ns: Quantiles,
}

/// A number measured beside floor and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchRow {
    /// What it is.
    pub what: String,
    /// The number.
    #[serde(serialize_with = "number::serialize")]
    pub value: f64,
    /// Its unit; empty for a ratio.
    pub unit: String,
    /// What it should not exceed; null where it is shown only.
    #[serde(serialize_with = "number::serialize_option")]
    pub goal: Option<f64>,
    /// Whether the goal is kept for certain; true where there is none.
    pub holds: bool,
    /// What is said of the goal; `held` where there is none.
    pub verdict: Verdict,
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
    /// Of the 99.9th percentiles.
    pub p999: f64,
}

impl Ratio {
    /// The ratio of two distributions; 0 where the floor is 0.
    #[must_use]
    pub fn of(ours: &Quantiles, floor: &Quantiles) -> Self {
        let ratio = |ours: f64, floor: f64| if floor > 0.0 { ours / floor } else { 0.0 };
        Self {
            p50: ratio(ours.p50, floor.p50),
            p99: ratio(ours.p99, floor.p99),
            p999: ratio(ours.p999, floor.p999),
        }
    }
}

impl Judged {
    /// The number judged, and whether it keeps the goal. A number that could not be measured keeps none.
    #[must_use]
    pub fn judge(self, ours: &Quantiles, ratio: &Ratio, goal: f64) -> bool {
        let (number, at_least) = match self {
            Self::RatioP50 => (ratio.p50, false),
            Self::RatioP999 => (ratio.p999, false),
            Self::OursP50 => (ours.p50, false),
            Self::OursP50AtLeast => (ours.p50, true),
        };
        number > 0.0 && if at_least { number >= goal } else { number <= goal }
    }

    fn name(self) -> &'static str {
        match self {
            Self::RatioP50 => "ratio of p50 at most",
            Self::RatioP999 => "ratio of p99.9 at most",
            Self::OursP50 => "p50 at most",
            Self::OursP50AtLeast => "p50 at least",
        }
    }
}

impl BenchRow {
    /// A number that is shown only.
    #[must_use]
    pub fn shown(what: impl Into<String>, value: f64, unit: &str) -> Self {
        Self {
            what: what.into(),
            value,
            unit: unit.to_owned(),
            goal: None,
            holds: true,
            verdict: Verdict::Held,
        }
    }

    /// A number that should not exceed `goal`.
    #[must_use]
    pub fn at_most(what: impl Into<String>, value: f64, unit: &str, goal: f64) -> Self {
        Self::judged(what, value, unit, goal, Verdict::of(value <= goal))
    }

    /// The lower end of the interval from `low` to `high`, in which a number lies that should not exceed `goal`. The
    /// goal is held where the whole interval keeps it, missed where none of it does, and open in between.
    #[must_use]
    pub fn interval_at_most(what: impl Into<String>, low: f64, high: f64, unit: &str, goal: f64) -> Self {
        let verdict = match (low <= goal, high <= goal) {
            (_, true) => Verdict::Held,
            (true, false) => Verdict::Open,
            (false, false) => Verdict::Missed,
        };
        Self::judged(what, low, unit, goal, verdict)
    }

    fn judged(what: impl Into<String>, value: f64, unit: &str, goal: f64, verdict: Verdict) -> Self {
        Self {
            goal: Some(goal),
            holds: verdict == Verdict::Held,
            verdict,
            ..Self::shown(what, value, unit)
        }
    }
}

impl Verdict {
    /// Of a number that is known.
    #[must_use]
    pub fn of(held: bool) -> Self {
        if held { Self::Held } else { Self::Missed }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Held => "goal held",
            Self::Open => "goal open: the interval has both sides of it",
            Self::Missed => "goal MISSED",
        }
    }
}

impl BenchResult {
    /// The result for a reader.
    #[must_use]
    pub fn to_text(&self) -> String {
        let names = ["p50", "p99", "p99.9", "max"].map(|name| (name, Align::Right));
        let mut table = TextTable::new(&[&[(self.unit.as_str(), Align::Left)][..], &names].concat());
        let sides = self.sides.iter().map(|side| (side.what.as_str(), &side.ns));
        for (name, q) in [("floor", &self.floor_ns), ("ours", &self.ours_ns)]
            .into_iter()
            .chain(sides)
        {
            let numbers = [q.p50, q.p99, q.p999, q.max].map(number::show);
            table.row([&[name.to_owned()][..], &numbers].concat());
        }
        let Ratio { p50, p99, p999 } = self.ratio;
        let ratios = [p50, p99, p999].map(|ratio| format!("{ratio:.2}"));
        table.row([&["ratio".to_owned()][..], &ratios].concat());
        let held = self.judged.judge(&self.ours_ns, &self.ratio, self.goal);
        let mut text = format!(
            "{}: {} rounds; floor: {}\n\n{table}\n{} {}: {}\n",
            self.bench,
            self.rounds,
            self.floor,
            self.judged.name(),
            number::show(self.goal),
            Verdict::of(held).text()
        );
        for row in &self.rows {
            let goal = row.goal.map_or(String::new(), |goal| {
                format!(" (at most {}: {})", number::show(goal), row.verdict.text())
            });
            text += &format!("{}: {} {}{goal}\n", row.what, number::show(row.value), row.unit);
        }
        for note in &self.notes {
            text += &format!("note: {note}\n");
        }
        text
    }
}
