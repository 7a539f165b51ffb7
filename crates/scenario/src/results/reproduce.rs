//! The document of `reproduce`.

use super::number;
use super::run::Engine;
use super::table::{Align, TextTable};
use serde::{Deserialize, Serialize};

/// One experiment of a paper, done again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproduceResult {
    /// Its name.
    pub experiment: String,
    /// Which engine ran it.
    pub engine: Engine,
    /// The seed used.
    pub seed: u64,
    /// What was compared.
    pub rows: Vec<ReproduceRow>,
}

/// One number compared. Numbers must be finite; JSON writes others as null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproduceRow {
    /// What the number is.
    pub what: String,
    /// The paper's; null where it gives none.
    #[serde(serialize_with = "number::serialize_option")]
    pub paper: Option<f64>,
    /// Ours.
    #[serde(serialize_with = "number::serialize")]
    pub ours: f64,
    /// Half the width of the 95 % confidence interval of ours, a mean over seeds; left out where there was one run.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "number::serialize_option"
    )]
    pub interval: Option<f64>,
    /// The unit of all three.
    pub unit: String,
    /// What is claimed of them, such as `equal`.
    pub claim: String,
    /// Whether the claim holds.
    pub holds: bool,
}

impl ReproduceResult {
    /// Whether every claim holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.rows.iter().all(|row| row.holds)
    }

    /// The result for a reader.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (left, right) = (Align::Left, Align::Right);
        let columns = [
            ("what", left),
            ("paper", right),
            ("ours", right),
            ("unit", left),
            ("claim", left),
        ];
        let mut table = TextTable::new(&[&columns[..], &[("holds", left)]].concat());
        for row in &self.rows {
            let paper = row.paper.map_or_else(|| "-".to_owned(), number::show);
            let holds = if row.holds { "yes" } else { "NO" }.to_owned();
            let ours = match row.interval {
                Some(interval) => format!("{} ± {}", number::show(row.ours), number::show(interval)),
                None => number::show(row.ours),
            };
            table.row([
                row.what.clone(),
                paper,
                ours,
                row.unit.clone(),
                row.claim.clone(),
                holds,
            ]);
        }
        let failed = self.rows.iter().filter(|row| !row.holds).count();
        let verdict = match failed {
            0 => "every claim holds".to_owned(),
            failed => format!("{failed} of {} claims do not hold", self.rows.len()),
        };
        format!("{}, seed {}: {verdict}\n\n{table}", self.experiment, self.seed)
    }
}
