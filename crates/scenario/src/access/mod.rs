//! The access generator: which pages each job of a task touches, in which order, and how much it computes between. One
//! generator serves every engine, so that all see the same machine; it is fixed by scenario, task and seed.

mod cursor;
mod rng;
mod zipf;

use crate::model::{RegionIndex, Scenario, Task, TaskIndex};
use cursor::Cursor;
use freehold_core::units::{Duration, PageCount, PageIndex};
pub use rng::SplitMix64;

/// One access to one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The region.
    pub region: RegionIndex,
    /// The page, inside the region.
    pub page: PageIndex,
    /// Whether it is written.
    pub write: bool,
}

/// Accesses to consecutive pages, ascending without wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The region.
    pub region: RegionIndex,
    /// The first page.
    pub first: PageIndex,
    /// How many; not zero.
    pub len: PageCount,
    /// Whether they are written.
    pub write: bool,
}

/// The accesses of one task, job by job.
///
/// Call [`begin_job`](Self::begin_job) at each release, then take accesses (as an iterator, or in runs) until `None`.
/// A job cut short continues nowhere: the next job goes on from the page after the last one taken.
///
/// Invariants: nothing is allocated after construction; each access costs O(1), expected O(1) under `zipf`.
///
/// ```
/// use freehold_scenario::{AccessGenerator, Scenario, TaskIndex};
/// let text = r#"
/// name = "demo"
/// duration = "1s"
/// memory.pool = "1MiB"
/// [[region]]
/// name = "shm"
/// size = "12KiB"
/// [[task]]
/// name = "tau1"
/// [[task.access]]
/// region = "shm"
/// amount = "16KiB"
/// "#;
/// let scenario = Scenario::parse(text, "demo.toml")?;
/// let mut accesses = AccessGenerator::new(&scenario, TaskIndex::new(0), scenario.seed);
/// accesses.begin_job();
/// let pages: Vec<u32> = accesses.by_ref().map(|access| access.page.get()).collect();
/// assert_eq!(pages, [0, 1, 2, 0]);
/// # Ok::<(), freehold_scenario::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AccessGenerator {
    steps: Box<[Step]>,
    /// The step in progress; past the end when the job has no accesses left.
    current: usize,
    /// Accesses the step in progress still has.
    left: u64,
    begun: bool,
    compute: ComputeSpread,
}

#[derive(Clone, Debug)]
struct Step {
    region: RegionIndex,
    count: u64,
    cursor: Cursor,
}

impl AccessGenerator {
    /// The generator of one task. An index of another scenario gives a task without accesses.
    #[must_use]
    pub fn new(scenario: &Scenario, task: TaskIndex, seed: u64) -> Self {
        let accesses = scenario.tasks.get(task.get()).map_or(&[][..], |task| &task.accesses);
        let stream = |step: usize| ((task.get() as u64) << 32) | step as u64;
        let steps = accesses.iter().enumerate().map(|(position, step)| {
            let pages = scenario
                .regions
                .get(step.region.get())
                .map_or(1, |region| region.pages.get());
            let cursor = Cursor::new(step, pages, SplitMix64::stream(seed, stream(position)));
            Step {
                region: step.region,
                count: step.count,
                cursor,
            }
        });
        let compute = scenario
            .tasks
            .get(task.get())
            .map_or(ComputeSpread::default(), ComputeSpread::of);
        let steps: Box<[Step]> = steps.collect();
        Self {
            current: steps.len(),
            steps,
            left: 0,
            begun: false,
            compute,
        }
    }

    /// Begins the next job: forgets what the last one left, moves its windows.
    pub fn begin_job(&mut self) {
        if self.begun {
            self.steps.iter_mut().for_each(|step| step.cursor.next_job());
        }
        self.begun = true;
        self.current = 0;
        self.left = self.steps.first().map_or(0, |step| step.count);
    }

    /// The job's next accesses as consecutive pages, at most `max` of them (0 is taken as 1); `None` when the job has
    /// none left. All runs of a job together are exactly what the iterator yields.
    pub fn next_run(&mut self, max: u32) -> Option<Run> {
        while self.left == 0 {
            self.current = (self.current + 1).min(self.steps.len());
            self.left = self.steps.get(self.current)?.count;
        }
        let step = self.steps.get_mut(self.current)?;
        let most = u32::try_from(self.left).unwrap_or(u32::MAX).min(max.max(1));
        let stretch = step.cursor.take(most);
        self.left -= u64::from(stretch.len);
        let (first, len) = (PageIndex::new(stretch.first), PageCount::new(stretch.len));
        Some(Run {
            region: step.region,
            first,
            len,
            write: stretch.write,
        })
    }

    /// How the job's computation is spread between its accesses.
    #[must_use]
    pub fn compute(&self) -> ComputeSpread {
        self.compute
    }

    /// CPU time to spend after an access of a job, counted from 0: see [`ComputeSpread::after`].
    #[must_use]
    pub fn compute_after(&self, access: u64) -> Duration {
        self.compute.after(access)
    }
}

impl Iterator for AccessGenerator {
    type Item = Access;

    /// The job's next access; `None` when it has none left, until the next `begin_job`.
    fn next(&mut self) -> Option<Access> {
        self.next_run(1).map(|run| Access {
            region: run.region,
            page: run.first,
            write: run.write,
        })
    }
}

/// A job's computation spread evenly between its accesses, to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComputeSpread {
    compute: Duration,
    accesses: u64,
}

impl ComputeSpread {
    /// The spread of one task's jobs.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        Self {
            compute: task.compute,
            accesses: task.accesses_per_job(),
        }
    }

    /// Accesses of one job.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// CPU time after access `access` (from 0). Over a job these sum to exactly its computation. A job without
    /// accesses computes all of it after "access 0"; past the last access the time is zero.
    #[must_use]
    pub fn after(&self, access: u64) -> Duration {
        self.after_run(access, 1)
    }

    /// The sum of [`after`](Self::after) over the accesses `first .. first + len`.
    #[must_use]
    pub fn after_run(&self, first: u64, len: u64) -> Duration {
        let until = self.until(first.saturating_add(len));
        Duration::new(until.saturating_sub(self.until(first)))
    }

    /// Computation due before access `access`.
    fn until(&self, access: u64) -> u64 {
        let accesses = self.accesses.max(1);
        let part = u128::from(self.compute.get()) * u128::from(access.min(accesses)) / u128::from(accesses);
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}
