//! How much of each region a task uses: every page ever, and on average per job (the paper's Max and Avg of S_i).

use freehold_scenario::results::RegionResult;
use freehold_scenario::{ReservationIndex, Scenario};

/// The pages of one region that one task has touched.
#[derive(Debug)]
struct Touched {
    /// For each page, the job that touched it last; 0 is never.
    last_job: Vec<u32>,
    /// Pages touched, each counted once a job.
    in_jobs: u64,
}

/// What one task has touched.
#[derive(Debug)]
pub(crate) struct Usage {
    regions: Vec<Option<Touched>>,
    job: u32,
    jobs_ended: u64,
}

impl Usage {
    /// Nothing touched yet; room for the regions that the task maps.
    pub(crate) fn new(scenario: &Scenario, task: usize) -> Self {
        let mut regions: Vec<Option<Touched>> = scenario.regions.iter().map(|_| None).collect();
        for region in freehold_scenario::plan::mapped_regions(scenario, task) {
            let pages = scenario.regions[region].pages.get() as usize;
            regions[region] = Some(Touched {
                last_job: vec![0; pages],
                in_jobs: 0,
            });
        }
        Self {
            regions,
            job: 0,
            jobs_ended: 0,
        }
    }

    pub(crate) fn begin_job(&mut self) {
        self.job = self.job.checked_add(1).unwrap_or(1);
    }

    pub(crate) fn end_job(&mut self) {
        self.jobs_ended += 1;
    }

    pub(crate) fn touch(&mut self, region: usize, page: usize) {
        if let Some(touched) = self.regions[region].as_mut() {
            touched.in_jobs += u64::from(touched.last_job[page] != self.job);
            touched.last_job[page] = self.job;
        }
    }

    fn average(&self, region: usize) -> f64 {
        self.regions[region]
            .as_ref()
            .map_or(0.0, |touched| ratio(touched.in_jobs, self.jobs_ended))
    }
}

/// A region's line of the result, from what all tasks touched.
pub(crate) fn region_result(scenario: &Scenario, usages: &[Usage], region: usize, resident: u64) -> RegionResult {
    let found = &scenario.regions[region];
    let mut result = RegionResult {
        name: found.name.clone(),
        resident,
        max_use: Vec::new(),
        avg_use: Vec::new(),
        sharing: found.sharing,
    };
    for reservation in 0..scenario.reservations.len() {
        let mine = |task: usize| scenario.tasks[task].reservation.map(ReservationIndex::get) == Some(reservation);
        let usages: Vec<&Usage> = (0..usages.len())
            .filter(|&task| mine(task))
            .map(|task| &usages[task])
            .collect();
        let touched = |page: usize| {
            let last = |usage: &&Usage| {
                usage.regions[region]
                    .as_ref()
                    .map_or(0, |touched| touched.last_job[page])
            };
            usages.iter().any(|usage| last(usage) != 0)
        };
        let ever = (0..found.pages.get() as usize).filter(|&page| touched(page)).count() as u64;
        let average: f64 = usages.iter().map(|usage| usage.average(region)).sum();
        result.max_use.push(ever);
        result.avg_use.push(average.min(ratio(ever, 1)));
    }
    result
}

fn ratio(above: u64, below: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts of pages and jobs, far below 2^53")]
    let (above, below) = (above as f64, below as f64);
    if below > 0.0 { above / below } else { 0.0 }
}
