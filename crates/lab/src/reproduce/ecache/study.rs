//! Workloads replayed with several seeds and policies, on all CPUs.

use std::sync::atomic::{AtomicUsize, Ordering};

use freehold_core::victim_cache::Placement;
use freehold_linux::clock;
use freehold_sim::replay::{Choice, Deletes, Event, Replayed, Setup, replay};

use super::per_cent;
use super::programs::{self, Program};
use super::workload::{self, Sizes, WORKLOADS};
use crate::reproduce::app::Sample;
use freehold_command::status::Failure;

/// What is wanted: a setting, a workload, a policy, a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) sizes: usize,
    pub(super) workload: usize,
    pub(super) choice: Choice,
    pub(super) seed: u32,
}

/// What was replayed.
pub(super) struct Study {
    pub(super) programs: Vec<Program>,
    pub(super) sizes: Vec<Sizes>,
    pub(super) seeds: u32,
    results: Vec<(Case, Replayed)>,
}

impl Study {
    /// Replays every workload with the paper's sizes and with those that suit the programs, under each policy.
    ///
    /// # Errors
    /// A recording that cannot be read, or a replay that fails.
    pub(super) fn run(choices: &[Choice], seeds: u32) -> Result<Self, Failure> {
        let programs = programs::all()?;
        let sizes = vec![Sizes::paper(), Sizes::scaled(&programs)];
        let mut cases = Vec::new();
        for workload in 0..WORKLOADS.len() {
            for seed in 1..=seeds {
                let all = (0..sizes.len()).flat_map(|sizes| choices.iter().map(move |choice| (sizes, *choice)));
                cases.extend(all.map(|(sizes, choice)| Case {
                    sizes,
                    workload,
                    choice,
                    seed,
                }));
            }
        }
        let mut study = Self {
            programs,
            sizes,
            seeds,
            results: Vec::new(),
        };
        study.results = study.replay_all(&cases)?;
        Ok(study)
    }

    fn replay_all(&self, cases: &[Case]) -> Result<Vec<(Case, Replayed)>, Failure> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((*case, self.replay(*case)?));
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
            results: Vec::new(),
        };
        let cases: Vec<Case> = self.results.iter().map(|(case, _)| *case).collect();
        idle.results = idle.replay_all(&cases)?;
        Ok(idle)
    }

    fn replay(&self, case: Case) -> Result<Replayed, Failure> {
        let sizes = &self.sizes[case.sizes];
        let mut rows = workload::rows(&self.programs, case.workload, case.seed)?;
        if sizes.devices.is_empty() {
            rows.retain(|row| !matches!(row.event, Event::Open { .. } | Event::Close { .. }));
        }
        let setup = Setup {
            page_cache: sizes.page_cache,
            cache: sizes.cache(),
            devices: sizes.devices.clone(),
            choice: case.choice,
            placement: Placement::Safe,
            seed: case.seed.into(),
            deletes: Deletes::Evictions,
        };
        let mut now = || clock::now().as_nanos();
        let replayed = replay(&rows, &setup, &mut now).map_err(|error| Failure::Run(error.to_string()))?;
        if replayed.refused > 0 {
            return Err(Failure::Law(format!(
                "{case:?}: {} opens were refused",
                replayed.refused
            )));
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
        let cases = (1..=self.seeds).map(|seed| Case {
            sizes,
            workload,
            choice,
            seed,
        });
        let found = cases.filter_map(|case| self.results.iter().find(|(other, _)| *other == case));
        Sample::new(found.map(|(_, replayed)| of(replayed)).collect())
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
        let programs = programs::all().unwrap();
        let mut study = Study {
            sizes: vec![Sizes::scaled(&programs)],
            programs,
            seeds: 1,
            results: Vec::new(),
        };
        let case = Case {
            sizes: 0,
            workload: 4,
            choice: Choice::Lru,
            seed: 1,
        };
        study.results = study.replay_all(&[case]).unwrap();
        let idle = study.idle().unwrap();
        let (found, idle) = (&study.results[0].1, &idle.results[0].1);
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
