//! How much of each region a task uses: every page ever, and on average per job (the paper's Max and Avg of S_i).

use freehold_scenario::results::RegionResult;
use freehold_scenario::{ReservationIndex, Scenario};
use freehold_sim::{Profile, RegionProfile};

/// The pages of one region that one task has touched.
#[derive(Debug)]
struct Touched {
    /// For each page, the job that touched it last; 0 is never.
    last_job: Vec<u32>,
    /// Pages touched by the job under way.
    in_job: u64,
    /// Pages touched by jobs that ended, each counted once a job.
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
        for region in freehold_scenario::setup::mapped_regions(scenario, task) {
            let pages = scenario.regions[region].pages.get() as usize;
            regions[region] = Some(Touched {
                last_job: vec![0; pages],
                in_job: 0,
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
        for touched in self.regions.iter_mut().flatten() {
            touched.in_jobs += std::mem::take(&mut touched.in_job);
        }
    }

    pub(crate) fn touch(&mut self, region: usize, page: usize) {
        if let Some(touched) = self.regions[region].as_mut() {
            touched.in_job += u64::from(touched.last_job[page] != self.job);
            touched.last_job[page] = self.job;
        }
    }

    /// Of a task that has not ended any job, the job under way counts.
    fn average(&self, region: usize) -> f64 {
        self.regions[region]
            .as_ref()
            .map_or(0.0, |touched| match self.jobs_ended {
                0 => ratio(touched.in_job, 1),
                jobs => ratio(touched.in_jobs, jobs),
            })
    }

    fn has_touched(&self, region: usize, page: usize) -> bool {
        let touched = self.regions[region].as_ref();
        touched.is_some_and(|touched| touched.last_job[page] != 0)
    }
}

/// A region's line of the result, from what all tasks touched.
pub(crate) fn region_result(scenario: &Scenario, usages: &[Usage], region: usize, resident: u64) -> RegionResult {
    let reservations = 0..scenario.reservations.len();
    let uses = reservations.map(|reservation| use_of(scenario, usages, reservation, region));
    let (max_use, avg_use) = uses.map(|used| (used.max(), used.average())).unzip();
    RegionResult {
        resident,
        max_use,
        avg_use,
        ..RegionResult::of(scenario, region)
    }
}

/// What all tasks touched, for each reservation.
pub(crate) fn profile(scenario: &Scenario, usages: &[Usage]) -> Profile {
    Profile::of(scenario, |reservation, region| {
        use_of(scenario, usages, reservation, region)
    })
}

/// What the tasks of a reservation touched of a region.
fn use_of(scenario: &Scenario, usages: &[Usage], reservation: usize, region: usize) -> RegionProfile {
    let tasks = scenario.tasks.iter().zip(usages);
    let mine: Vec<&Usage> = tasks
        .filter(|(task, _)| task.reservation.map(ReservationIndex::get) == Some(reservation))
        .map(|(_, usage)| usage)
        .collect();
    let pages = 0..scenario.regions[region].pages.get() as usize;
    let touched: Vec<bool> = pages
        .map(|page| mine.iter().any(|usage| usage.has_touched(region, page)))
        .collect();
    let max = touched.iter().filter(|touched| **touched).count() as u64;
    let average: f64 = mine.iter().map(|usage| usage.average(region)).sum();
    RegionProfile::new(touched, average.min(ratio(max, 1)))
}

fn ratio(above: u64, below: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts of pages and jobs, far below 2^53")]
    let (above, below) = (above as f64, below as f64);
    if below > 0.0 { above / below } else { 0.0 }
}
