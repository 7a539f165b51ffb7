//! Workloads replayed with several seeds and policies, on all CPUs. All policies share one page cache in front.

use std::sync::atomic::{AtomicUsize, Ordering};

use freehold_core::victim_cache::Placement;
use freehold_linux::clock;
use freehold_sim::replay::{Choice, Deletes, Event, Replayed, Setup, Trace, replay_choices};

use super::per_cent;
use super::programs::{self, Program};
use super::workload::{self, Sizes, WORKLOADS};
use crate::reproduce::app::Sample;
use freehold_command::exit_status::Failure;

/// What is wanted: a setting, a workload, a seed; replayed under each policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    sizes: usize,
    workload: usize,
    seed: u32,
}

/// What was replayed.
pub(super) struct Study {
    pub(super) programs: Vec<Program>,
    pub(super) sizes: Vec<Sizes>,
    seeds: u32,
    choices: Vec<Choice>,
    /// A replay for each choice.
    results: Vec<(Case, Vec<Replayed>)>,
}

impl Study {
    /// The paper's sizes and those that suit the programs, each policy to be replayed with so many seeds.
    ///
    /// # Errors
    /// A recording that cannot be read.
    pub(super) fn new(choices: &[Choice], seeds: u32) -> Result<Self, Failure> {
        let programs = programs::all()?;
        Ok(Self {
            sizes: vec![Sizes::paper(), Sizes::scaled(&programs)],
            programs,
            seeds,
            choices: choices.into(),
            results: Vec::new(),
        })
    }

    /// Replays every workload with all sizes under each policy.
    ///
    /// # Errors
    /// A recording that cannot be read, or a replay that fails.
    pub(super) fn run(choices: &[Choice], seeds: u32) -> Result<Self, Failure> {
        let mut study = Self::new(choices, seeds)?;
        for sizes in 0..study.sizes.len() {
            for workload in 0..WORKLOADS.len() {
                study.replay(sizes, workload)?;
            }
        }
        Ok(study)
    }

    /// Replays a workload with these sizes, with all seeds, on all CPUs.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) fn replay(&mut self, sizes: usize, workload: usize) -> Result<(), Failure> {
        let cases = (1..=self.seeds).map(|seed| Case { sizes, workload, seed });
        let found = self.replay_all(&cases.collect::<Vec<_>>())?;
        self.results.extend(found);
        Ok(())
    }

    fn replay_all(&self, cases: &[Case]) -> Result<Vec<(Case, Vec<Replayed>)>, Failure> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((*case, self.replay_case(*case)?));
            }
            Ok(done)
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let parts: Vec<Result<Vec<_>, Failure>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined
                .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        let mut results = Vec::new();
        for part in parts {
            results.extend(part?);
        }
        Ok(results)
    }

    /// The same launches with the page caches alone: the devices' memory is reserved and idle.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) fn idle(&self) -> Result<Self, Failure> {
        let sizes = self.sizes.iter().map(Sizes::without_devices).collect();
        let mut idle = Self {
            programs: self.programs.clone(),
            sizes,
            seeds: self.seeds,
            choices: self.choices.clone(),
            results: Vec::new(),
        };
        let cases: Vec<Case> = self.results.iter().map(|(case, _)| *case).collect();
        idle.results = idle.replay_all(&cases)?;
        Ok(idle)
    }

    fn replay_case(&self, case: Case) -> Result<Vec<Replayed>, Failure> {
        let sizes = &self.sizes[case.sizes];
        let mut rows = workload::rows(&self.programs, case.workload, case.seed)?;
        if sizes.devices.is_empty() {
            rows.retain(|row| !matches!(row.event, Event::Open { .. } | Event::Close { .. }));
        }
        let setup = Setup {
            page_cache: sizes.page_cache,
            cache: sizes.cache(),
            devices: sizes.devices.clone(),
            choice: Choice::Lru,
            placement: Placement::Safe,
            seed: case.seed.into(),
            deletes: Deletes::Evictions,
        };
        let mut now = || clock::now().as_nanos();
        let trace: Trace = rows.into_iter().collect();
        let replayed = replay_choices(&trace, &setup, &self.choices, &mut now);
        let replayed = replayed.map_err(|error| Failure::Run(error.to_string()))?;
        let refused: u64 = replayed.iter().map(|replayed| replayed.refused).sum();
        if refused > 0 {
            return Err(Failure::Law(format!("{case:?}: {refused} opens were refused")));
        }
        Ok(replayed)
    }

    /// A number of each seed's replay.
    pub(super) fn sample(
        &self,
        sizes: usize,
        workload: usize,
        choice: Choice,
        of: impl Fn(&Replayed) -> f64,
    ) -> Sample {
        let cases = (1..=self.seeds).map(|seed| Case { sizes, workload, seed });
        let found = cases.filter_map(|case| self.results.iter().find(|(other, _)| *other == case));
        let place = self.choices.iter().position(|other| *other == choice);
        let replayed = found.filter_map(|(_, replayed)| replayed.get(place?));
        Sample::new(replayed.map(of).collect())
    }
}

/// How much less is read than with the same page cache alone, the devices' memory idle, in per cent.
pub(super) fn cut(replayed: &Replayed) -> f64 {
    cut_to(replayed, replayed.misses)
}

/// The same, had so many pages been read.
pub(super) fn cut_to(replayed: &Replayed, misses: u64) -> f64 {
    let alone = replayed.accesses - replayed.page_cache_hits;
    per_cent(alone.saturating_sub(misses), alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same launches with the page cache alone read what the page cache misses, and the victim cache lies between
    /// them and a cache without end, no device open.
    #[test]
    fn what_is_cut_lies_between_idle_memory_and_a_cache_without_end() {
        let mut study = Study::new(&[Choice::Lru], 1).unwrap();
        study.replay(1, 4).unwrap();
        let idle = study.idle().unwrap();
        let (found, idle) = (&study.results[0].1[0], &idle.results[0].1[0]);
        assert_eq!(found.groups.iter().map(|group| group.begun).sum::<u64>(), 400);
        assert_eq!(found.groups.iter().map(|group| group.misses).sum::<u64>(), found.misses);
        assert_eq!(idle.misses, found.accesses - found.page_cache_hits);
        assert!(found.misses < idle.misses);
        assert!(found.bounds.no_device_misses <= found.misses);
        assert!(found.bounds.distinct <= found.bounds.no_device_misses);
        let opens: u64 = found.allocations.iter().map(|open| u64::from(open.pages)).sum();
        assert!(opens > 0 && found.pages.discarded > 0, "devices open in this workload");
        assert!(found.allocations.len() as u64 > 100);
    }
}
