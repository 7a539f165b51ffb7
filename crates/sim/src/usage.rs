//! How much of each region the reservations use: every page ever, and on average per job (the paper's Max and Avg of
//! S_i).

use freehold_scenario::results::RegionResult;
use freehold_scenario::{ReservationIndex, Scenario};

use crate::page_table::{PageTables, Table};

/// What a run leaves behind to tell it from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) tables: &'a PageTables,
    /// Ended jobs of each task.
    pub(crate) jobs: &'a [u64],
}

impl Usage<'_> {
    /// A region's line of the result.
    pub(crate) fn region(&self, region: usize, resident: u64) -> RegionResult {
        let reservations = 0..self.scenario.reservations.len();
        RegionResult {
            resident,
            max_use: reservations
                .clone()
                .map(|reservation| self.tables.ever_touched(reservation, region))
                .collect(),
            avg_use: reservations
                .map(|reservation| self.average(reservation, region))
                .collect(),
            ..RegionResult::of(self.scenario, region)
        }
    }

    /// Mean distinct pages of a job, summed over the tasks of the reservation, and at most what they ever touched. Of a
    /// task that has not ended any job, the job under way counts.
    pub(crate) fn average(&self, reservation: usize, region: usize) -> f64 {
        let mine =
            |task: &usize| self.scenario.tasks[*task].reservation.map(ReservationIndex::get) == Some(reservation);
        let means = (0..self.scenario.tasks.len()).filter(mine).map(|task| {
            let pages = |of: fn(&Table) -> u64| self.tables.table(task, region).map_or(0, of);
            match self.jobs[task] {
                0 => ratio(pages(Table::distinct), 1),
                jobs => ratio(pages(Table::distinct_sum), jobs),
            }
        });
        means
            .sum::<f64>()
            .min(ratio(self.tables.ever_touched(reservation, region), 1))
    }
}

fn ratio(above: u64, below: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts of pages and jobs, far below 2^53")]
    let (above, below) = (above as f64, below as f64);
    if below > 0.0 { above / below } else { 0.0 }
}
