//! How a shared region would best be shared: the document of `freehold advise`, and what a run says of a region that
//! asked for `auto`.

use super::run::Engine;
use super::table::{Align, TextTable};
use freehold_report::advice::RegionAdvice;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// What `freehold advise` says of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdviceResult {
    /// The scenario's name.
    pub scenario: String,
    /// The engine that the profile was taken in.
    pub engine: Engine,
    /// In the scenario's order.
    pub regions: Vec<RegionAdvice>,
}

impl AdviceResult {
    /// The advice for a reader: a table of regions, one of reservations, and a sentence for each region.
    #[must_use]
    pub fn to_text(&self) -> String {
        let engine = match self.engine {
            Engine::Sim => "sim",
            Engine::Live => "live",
        };
        let mut out = String::new();
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "{}: profile taken by {engine}", self.scenario);
        if self.regions.is_empty() {
            out.push_str("\nno region: nothing to choose\n");
            return out;
        }
        let (regions, reservations) = (self.region_table(), self.reservation_table());
        let _ = write!(out, "\n{regions}");
        if !reservations.is_empty() {
            let _ = write!(out, "\n{reservations}");
        }
        out.push('\n');
        for region in &self.regions {
            let choice = region
                .choice
                .map_or(String::new(), |choice| format!("{}: ", choice.name()));
            let _ = writeln!(out, "{}: {choice}{}", region.name, region.reason);
        }
        out
    }

    fn region_table(&self) -> TextTable {
        let (left, right) = (Align::Left, Align::Right);
        let mut table = TextTable::new(&[
            ("region", left),
            ("asked", left),
            ("Max(S)", right),
            ("KiB", right),
            ("Avg(S)", right),
            ("KiB", right),
            ("n", right),
            ("Max < n*Avg", left),
            ("frames spc", right),
            ("KiB", right),
            ("frames spel", right),
            ("KiB", right),
            ("choice", left),
        ]);
        for region in &self.regions {
            let head = [region.name.clone(), region.asked.name().to_owned()];
            let Some(choice) = region.choice else {
                let blank = std::iter::repeat_n(String::new(), 10);
                table.row(head.into_iter().chain(blank).chain(["-".to_owned()]));
                continue;
            };
            let verdict = if region.max_below_n_avg { "yes" } else { "no" };
            let numbers = [pages(region.max), mean(region.avg)].into_iter().flatten();
            let frames = [pages(region.frames_spc), pages(region.frames_spel)]
                .into_iter()
                .flatten();
            let cells = head.into_iter().chain(numbers);
            let cells = cells.chain([region.n.to_string(), verdict.to_owned()]).chain(frames);
            table.row(cells.chain([choice.name().to_owned()]));
        }
        table
    }

    fn reservation_table(&self) -> TextTable {
        let (left, right) = (Align::Left, Align::Right);
        let mut table = TextTable::new(&[
            ("region", left),
            ("reservation", left),
            ("takes part", left),
            ("Max(S)", right),
            ("KiB", right),
            ("Avg(S)", right),
            ("KiB", right),
            ("frames", right),
            ("under spc", right),
            ("KiB", right),
            ("under spel", right),
            ("KiB", right),
        ]);
        for region in self.regions.iter().filter(|region| region.choice.is_some()) {
            for part in &region.reservations {
                let takes_part = if part.takes_part { "yes" } else { "no" };
                let head = [region.name.clone(), part.name.clone(), takes_part.to_owned()];
                let used = [pages(part.max), mean(part.avg)].into_iter().flatten();
                let sizes = [pages(part.frames_spc), pages(part.frames_spel)].into_iter().flatten();
                let cells = head.into_iter().chain(used).chain([part.frames.to_string()]);
                table.row(cells.chain(sizes));
            }
        }
        table
    }
}

/// A count, and the same in KiB.
fn pages(pages: u64) -> [String; 2] {
    [pages.to_string(), pages.saturating_mul(4).to_string()]
}

/// A mean, and the same in KiB.
fn mean(pages: f64) -> [String; 2] {
    [format!("{pages:.1}"), format!("{:.0}", pages * 4.0)]
}
