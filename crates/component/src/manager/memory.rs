//! The units of a composition: one pool for each component and kind, and the policy that moves units between them.

use super::RunError;
use super::driver::Window;
use crate::composition::{Composition, PolicyName, Units};
use freehold_core::transient::{ComponentFacts, Estimates, Schedule, share_out};
use freehold_linux::PAGE_SIZE;
use freehold_linux::pi_word::Scope;
use freehold_tmem::pool::PoolUsage;
use freehold_tmem::stack::GUARD_PAGES;
use freehold_tmem::{Pool, PoolSettings};
use std::time::{Duration, Instant};

/// Runs of the policy after which unused units go back.
const IDLE_RUNS: u32 = 4;

/// Stacks or buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Stack,
    Buffer,
}

/// Units of one kind of one component: what the policy takes for a component.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) component: usize,
    pub(super) kind: Kind,
    pub(super) pool: Pool,
    /// Pages of a unit that are in memory.
    pub(super) unit_pages: usize,
    pub(super) minimum: u32,
    pub(super) most: u32,
    pub(super) usage: PoolUsage,
    pub(super) desired: u32,
    pub(super) requested: u32,
    pub(super) peak: u32,
    pub(super) granted: u64,
    pub(super) taken: u64,
    blocked_before: Duration,
    idle_runs: u32,
}

/// All units.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) caches: Vec<Cache>,
    pub(super) limit_pages: usize,
    pub(super) peak_pages: usize,
    pub(super) runs: u64,
    pub(super) moves: u64,
    pub(super) cpu: Duration,
    policy: PolicyName,
    estimates: Estimates,
    threads: usize,
}

impl Memory {
    /// Makes the pools, with their minima in memory.
    pub(super) fn new(composition: &Composition, policy: PolicyName) -> Result<Self, RunError> {
        let mut caches = Vec::new();
        for (place, component) in composition.components.iter().enumerate() {
            let kinds = [(Kind::Stack, Some(component.stack)), (Kind::Buffer, component.cbuf)];
            for (kind, units) in kinds {
                if let Some(units) = units {
                    caches.push(Cache::new(composition, place, kind, units)?);
                }
            }
        }
        let threads = composition.threads.len();
        let limit = usize::try_from(composition.transient.limit.0).unwrap_or(usize::MAX);
        let mut memory = Self {
            estimates: Estimates::new(caches.len(), threads.max(1))?,
            caches,
            limit_pages: limit / PAGE_SIZE,
            peak_pages: 0,
            runs: 0,
            moves: 0,
            cpu: Duration::ZERO,
            policy,
            threads,
        };
        memory.look();
        if matches!(policy, PolicyName::Max | PolicyName::Static) {
            memory.run_policy(&Window::default());
        }
        Ok(memory)
    }

    /// The pools of a component.
    pub(super) fn of(&self, component: usize, kind: Kind) -> Option<&Pool> {
        let mut caches = self.caches.iter();
        caches
            .find(|cache| cache.component == component && cache.kind == kind)
            .map(|cache| &cache.pool)
    }

    /// Pages of units that components have.
    pub(super) fn pages(&self) -> usize {
        self.caches
            .iter()
            .map(|cache| cache.usage.allocated as usize * cache.unit_pages)
            .sum()
    }

    /// Takes what the pools count.
    pub(super) fn look(&mut self) {
        for cache in &mut self.caches {
            cache.look();
        }
        self.peak_pages = self.peak_pages.max(self.pages());
    }

    /// Decides what each component ought to have, and moves units.
    pub(super) fn run_policy(&mut self, window: &Window) {
        let began = Instant::now();
        self.look();
        self.runs += 1;
        let facts: Vec<ComponentFacts> = self.caches.iter().map(Cache::facts).collect();
        let largest = self.caches.iter().map(|cache| cache.unit_pages).max().unwrap_or(1);
        let free = u32::try_from(self.limit_pages.saturating_sub(self.pages()) / largest).unwrap_or(u32::MAX);
        let desired = self.decide(&facts, free, window);
        for (cache, desired) in self.caches.iter_mut().zip(desired) {
            cache.desired = desired;
        }
        self.move_units();
        self.cpu += began.elapsed();
    }

    fn decide(&mut self, facts: &[ComponentFacts], free: u32, window: &Window) -> Vec<u32> {
        let most: Vec<u32> = self.caches.iter().map(|cache| cache.most).collect();
        let mut desired = vec![0; facts.len()];
        share_out(self.policy.policy(), facts, &most, free, &mut desired);
        if self.policy != PolicyName::Tmem || self.threads == 0 {
            return desired;
        }
        let blocked = self.blocked(window);
        // The tables were made for just so many of both.
        if self.estimates.take_up(facts, &blocked).is_ok()
            && let Ok(plan) = Schedule::plan(&self.estimates, facts, free, &window.tardiness)
        {
            self.moves += plan.moves().len() as u64;
            desired.copy_from_slice(plan.desired());
        }
        for (cache, desired) in self.caches.iter_mut().zip(&mut desired) {
            *desired = cache.without_idle(*desired).min(cache.most);
        }
        desired
    }

    /// How long a job of each thread waited in each cache. Pools do not know for whose job a callee waits: the time is
    /// taken as that of all jobs in equal parts.
    fn blocked(&mut self, window: &Window) -> Vec<u64> {
        let jobs: u64 = window.jobs.iter().sum::<u64>().max(1);
        let mut rows = Vec::with_capacity(self.threads * self.caches.len());
        let waits: Vec<u64> = self
            .caches
            .iter_mut()
            .map(|cache| cache.take_blocked().div_ceil(jobs))
            .collect();
        for _ in 0..self.threads {
            rows.extend_from_slice(&waits);
        }
        rows
    }

    /// Takes first, then gives what is free.
    fn move_units(&mut self) {
        for cache in &mut self.caches {
            cache.take_down_to_desired();
        }
        let mut free = self.limit_pages.saturating_sub(self.pages());
        for cache in &mut self.caches {
            while cache.usage.allocated < cache.desired && free >= cache.unit_pages && cache.give_one() {
                free -= cache.unit_pages;
            }
        }
        self.peak_pages = self.peak_pages.max(self.pages());
    }
}

impl Cache {
    fn new(composition: &Composition, component: usize, kind: Kind, units: Units) -> Result<Self, RunError> {
        let named = &composition.components[component];
        let guard_pages = if kind == Kind::Stack { GUARD_PAGES } else { 0 };
        let pool = Pool::create(PoolSettings {
            // At most 32 components.
            component: u16::try_from(component + 1).unwrap_or(u16::MAX),
            units: units.most,
            unit_bytes: (units.pages() + guard_pages) * PAGE_SIZE,
            minimum: units.minimum,
            guard_pages,
            bound: named.bound.0,
            scope: Scope::Shared,
        });
        let pool = pool.map_err(|error| RunError::Pool(named.name.clone(), error))?;
        for unit in 0..units.most {
            // Nobody uses the pool yet.
            let _ = pool.withdraw(unit);
        }
        if !(0..units.minimum).all(|unit| pool.give(unit)) {
            return Err(RunError::Minimum(named.name.clone()));
        }
        let minimum = u32::try_from(units.minimum).unwrap_or(u32::MAX);
        Ok(Self {
            component,
            kind,
            pool,
            unit_pages: units.pages(),
            minimum,
            most: u32::try_from(units.most).unwrap_or(u32::MAX),
            usage: PoolUsage::default(),
            desired: minimum,
            requested: 0,
            peak: 0,
            granted: 0,
            taken: 0,
            blocked_before: Duration::ZERO,
            idle_runs: 0,
        })
    }

    fn look(&mut self) {
        let before = self.usage.allocated;
        self.usage = self.pool.usage();
        self.taken += u64::from(before.saturating_sub(self.usage.allocated));
        let wanted = if self.usage.waiting_peak > 0 {
            self.usage.allocated + self.usage.waiting_peak
        } else {
            self.usage.used
        };
        self.requested = wanted;
        self.peak = self.peak.max(self.usage.allocated);
    }

    fn facts(&self) -> ComponentFacts {
        ComponentFacts {
            allocated: self.usage.allocated,
            requested: self.requested,
            minimum: self.minimum,
            suspended: 0,
        }
    }

    /// What it ought to have where units have been unused for some runs.
    fn without_idle(&mut self, desired: u32) -> u32 {
        let idle = self.usage.waiting_peak == 0 && self.usage.used < self.usage.allocated;
        self.idle_runs = if idle { self.idle_runs + 1 } else { 0 };
        if self.idle_runs < IDLE_RUNS || desired > self.usage.allocated {
            return desired;
        }
        desired.min(self.usage.used).max(self.minimum)
    }

    fn take_blocked(&mut self) -> u64 {
        let blocked = self.usage.blocked.saturating_sub(self.blocked_before);
        self.blocked_before = self.usage.blocked;
        u64::try_from(blocked.as_nanos()).unwrap_or(u64::MAX)
    }

    fn take_down_to_desired(&mut self) {
        let units = self.pool.settings().units;
        let mut over = self.usage.allocated.saturating_sub(self.desired.max(self.minimum));
        for unit in (0..units).rev() {
            over -= u32::from(over > 0 && self.pool.withdraw(unit));
        }
        // What is in use comes when it is released.
        for unit in (0..units).rev() {
            let wanted = over > 0 && !self.pool.is_withdrawn(unit);
            self.pool.relinquish(unit, wanted);
            over -= u32::from(wanted);
        }
        let before = std::mem::replace(&mut self.usage.allocated, self.pool.allocated());
        self.taken += u64::from(before.saturating_sub(self.usage.allocated));
        // Units that their users gave back since the last run still have their memory.
        let allowed = self.usage.allocated as usize * self.unit_pages;
        if self.pool.resident().is_ok_and(|resident| resident > allowed) {
            for unit in 0..units {
                self.pool.drop_withdrawn(unit);
            }
        }
    }

    fn give_one(&mut self) -> bool {
        let given = (0..self.pool.settings().units).any(|unit| self.pool.give(unit));
        if given {
            self.usage.allocated += 1;
            self.granted += 1;
        }
        given
    }
}
