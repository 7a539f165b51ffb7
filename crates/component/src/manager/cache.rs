//! Units of one kind of one component: what the policy takes for a component.

use super::RunError;
use super::specs::CacheSpec;
use freehold_core::transient::{ComponentSpec, Usage};
use freehold_core::units::FrameCount;
use freehold_linux::PAGE_SIZE;
use freehold_linux::pi_word::Scope;
use freehold_tmem::pool::PoolUsage;
use freehold_tmem::stack::GUARD_PAGES;
use freehold_tmem::{JobWaits, Pool, PoolSettings};
use std::time::Duration;

/// Stacks or buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On which calls run.
    Stack,
    /// Which components pass to each other.
    Buffer,
}

impl Kind {
    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Buffer => "cbuf",
        }
    }
}

#[derive(Debug)]
pub(super) struct Cache {
    pub(super) component: usize,
    pub(super) kind: Kind,
    pub(super) pool: Pool,
    /// Pages of a unit that are in memory.
    pub(super) unit_pages: usize,
    /// Its memory is never swapped out.
    pub(super) locked: bool,
    pub(super) minimum: u32,
    pub(super) most: u32,
    /// Units that are to go when they come out of use.
    expected: u32,
    /// Requests that had found no unit free when that was looked at last.
    asked: u64,
    before: PoolUsage,
    waits_before: Vec<JobWaits>,
    /// Looks that found units or memory which the books do not have.
    pub(super) violations: u64,
    /// That was said.
    said: bool,
}

/// Waits since the last look.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// For each job: how often, how long.
    pub(super) jobs: Vec<(u64, Duration)>,
    /// For none.
    pub(super) others: (u64, Duration),
    /// Those that ended at the bound.
    pub(super) timed_out: u64,
}

impl Cache {
    /// Makes the pool, with its minimum in memory; waits of so many jobs are told apart.
    pub(super) fn new(spec: &CacheSpec, jobs: usize) -> Result<Self, RunError> {
        let guard_pages = if spec.kind == Kind::Stack { GUARD_PAGES } else { 0 };
        let pool = Pool::create(PoolSettings {
            // At most 32 components.
            component: u16::try_from(spec.component + 1).unwrap_or(u16::MAX),
            units: spec.most,
            unit_bytes: (spec.pages + guard_pages) * PAGE_SIZE,
            minimum: spec.minimum,
            guard_pages,
            bound: spec.bound,
            scope: Scope::Shared,
        });
        let mut pool = pool.map_err(|error| RunError::Pool(spec.name.clone(), error))?;
        let locked = pool.lock_memory().is_ok();
        for unit in 0..spec.most {
            // Nobody uses the pool yet.
            let _ = pool.withdraw(unit);
        }
        if !(0..spec.minimum).all(|unit| pool.give(unit)) {
            return Err(RunError::Minimum(spec.name.clone()));
        }
        let no_waits = JobWaits {
            count: 0,
            blocked: Duration::ZERO,
            waits_for: None,
        };
        Ok(Self {
            component: spec.component,
            kind: spec.kind,
            pool,
            unit_pages: spec.pages,
            minimum: u32::try_from(spec.minimum).unwrap_or(u32::MAX),
            most: u32::try_from(spec.most).unwrap_or(u32::MAX),
            expected: 0,
            asked: 0,
            before: PoolUsage::default(),
            waits_before: vec![no_waits; jobs],
            violations: 0,
            said: false,
            locked,
        })
    }

    /// What the policy is told of it.
    pub(super) fn spec(&self, restarts: bool, companion: Option<usize>) -> ComponentSpec {
        ComponentSpec {
            unit: self.frames(1),
            minimum: self.minimum,
            most: self.most,
            restarts,
            companion,
        }
    }

    /// Frames of so many units.
    pub(super) fn frames(&self, units: u32) -> FrameCount {
        let pages = u32::try_from(self.unit_pages).unwrap_or(u32::MAX);
        FrameCount::new(units.saturating_mul(pages))
    }

    /// What was used, and who waited, since the last call.
    pub(super) fn look(&mut self) -> (Usage, Waits) {
        let now = self.pool.usage();
        let mut waits = Waits {
            timed_out: now.timed_out.saturating_sub(self.before.timed_out),
            ..Waits::default()
        };
        let (mut count, mut blocked) = (
            now.contended.saturating_sub(self.before.contended),
            now.blocked.saturating_sub(self.before.blocked),
        );
        for (job, before) in (1..).zip(&mut self.waits_before) {
            let now = self.pool.waits(job).unwrap_or(*before);
            // What components write there may be anything: it does not run backwards here.
            let part = (
                u64::from(now.count.saturating_sub(before.count)),
                now.blocked.saturating_sub(before.blocked),
            );
            count = count.saturating_sub(part.0);
            blocked = blocked.saturating_sub(part.1);
            waits.jobs.push(part);
            *before = now;
        }
        waits.others = (count, blocked);
        self.before = now;
        let usage = Usage {
            used: now.used,
            waiting_peak: now.waiting_peak,
            suspended: 0,
        };
        (usage, waits)
    }

    /// How many requests have found no unit free since the last call: those that wait now, or one whose wait is over.
    pub(super) fn take_asked(&mut self) -> u32 {
        let (waiting, ended) = self.pool.waiting();
        let asked = ended.saturating_add(waiting.into());
        let since = asked.saturating_sub(std::mem::replace(&mut self.asked, asked));
        // What components write there may be anything.
        u32::try_from(since)
            .unwrap_or(u32::MAX)
            .min(waiting.clamp(1, self.most))
    }

    /// Has so many units come, unused ones at once; returns how many have.
    pub(super) fn take(&mut self, units: u32) -> u32 {
        let all = self.pool.settings().units;
        let mut left = units;
        for unit in (0..all).rev() {
            left -= u32::from(left > 0 && self.pool.withdraw(unit));
        }
        self.expected = left;
        // What is in use comes when it is released.
        for unit in (0..all).rev() {
            let wanted = left > 0 && !self.pool.is_withdrawn(unit);
            self.pool.relinquish(unit, wanted);
            left -= u32::from(wanted);
        }
        units - self.expected
    }

    /// How many units have come of those that were to come; their memory is dropped. The books say how many it has, and
    /// what its component writes into the words of its units does not change them.
    pub(super) fn collect(&mut self, allocated: u32) -> u32 {
        let now = self.pool.allocated();
        if now == allocated {
            return 0;
        }
        let units = self.pool.settings().units;
        let mut made_up = now.saturating_sub(allocated);
        self.violations += u64::from(made_up > 0);
        for unit in (0..units).rev() {
            made_up -= u32::from(made_up > 0 && self.pool.withdraw(unit));
        }
        let gone = allocated.saturating_sub(now);
        let come = gone.min(self.expected);
        if come > 0 {
            for unit in 0..units {
                self.pool.drop_withdrawn(unit);
            }
        }
        self.expected -= come;
        // Nobody asked for these, or not any longer.
        for _ in come..gone {
            // Where there is no memory, the next look tries again.
            let _ = self.give_one();
        }
        come
    }

    /// Looks whether its component has more memory than the books grant: it touches units that were taken from it, or
    /// their guards. That memory is dropped. What is released and has not come yet is still granted.
    pub(super) fn audit(&mut self, allocated: u32) {
        let granted = self.frames(allocated).get() as usize;
        // Where the kernel does not say, nothing is found.
        if self.pool.resident().is_ok_and(|resident| resident > granted) {
            self.violations += 1;
            self.pool.drop_stray_memory();
        }
    }

    /// Whether there are violations, for the first time.
    pub(super) fn is_to_be_said(&mut self) -> bool {
        self.violations > 0 && !std::mem::replace(&mut self.said, true)
    }

    /// Brings a unit; false where there is no memory.
    pub(super) fn give_one(&self) -> bool {
        (0..self.pool.settings().units).any(|unit| self.pool.give(unit))
    }

    /// Which job waits here for which other; `None` is one that no thread of the composition works for.
    pub(super) fn waiters(&self) -> Vec<(usize, Option<usize>)> {
        let jobs = 1..=u32::try_from(self.waits_before.len()).unwrap_or(0);
        let waiting = jobs.filter_map(|job| Some((job, self.pool.waits(job)?.waits_for?)));
        waiting
            .map(|(job, holder)| {
                let holder = self.pool.job_of(holder).filter(|holder| *holder > 0);
                (job as usize - 1, holder.map(|holder| holder as usize - 1))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, CacheSpec, Kind};
    use freehold_linux::PAGE_SIZE;
    use freehold_tmem::Pool;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use std::time::Duration;

    /// A cache of stacks, four at most, of which two are there; and what its component can do to it.
    fn cache() -> (Cache, Pool) {
        let spec = CacheSpec {
            component: 0,
            name: "a".to_owned(),
            kind: Kind::Stack,
            pages: 4,
            minimum: 2,
            most: 4,
            bound: Duration::from_millis(100),
            restarts: false,
        };
        let cache = Cache::new(&spec, 0).unwrap();
        let component = Pool::open(cache.pool.as_fd().try_clone_to_owned().unwrap()).unwrap();
        (cache, component)
    }

    #[test]
    fn what_a_component_writes_into_its_units_changes_no_books() {
        let (mut cache, component) = cache();
        // It makes up a unit, and memory for it.
        assert!(component.give(3));
        assert_eq!((cache.collect(2), cache.pool.allocated()), (0, 2));
        // It hides one that is its own.
        assert!(component.withdraw(0));
        assert_eq!((cache.collect(2), cache.pool.allocated()), (0, 2));
        assert!(cache.pool.resident().unwrap() <= 2 * cache.unit_pages);
    }

    #[test]
    fn memory_that_a_component_has_beyond_its_units_is_found_and_dropped() {
        let (mut cache, component) = cache();
        let granted = cache.pool.resident().unwrap();
        cache.audit(2);
        assert!(cache.violations == 0 && !cache.is_to_be_said());
        // Units that it has not, and the guard of one that it has.
        let unit = component.settings().unit_bytes;
        let memory = std::fs::File::from(component.as_fd().try_clone_to_owned().unwrap());
        for (unit, bytes) in [(3 * unit, unit), (0, 1)] {
            let start = (component.table_bytes() + unit) as u64;
            memory.write_all_at(&vec![1; bytes], start).unwrap();
        }
        assert_eq!(cache.pool.resident().unwrap(), granted + unit / PAGE_SIZE + 1);
        cache.audit(2);
        assert_eq!((cache.pool.resident().unwrap(), cache.violations), (granted, 1));
        assert!(cache.is_to_be_said() && !cache.is_to_be_said());
        cache.audit(2);
        assert_eq!(cache.violations, 1);
    }

    #[test]
    fn units_that_are_to_go_come_when_they_are_released_and_stay_when_that_is_taken_back() {
        let (mut cache, component) = cache();
        let held = [(); 2].map(|()| component.take(1).unwrap());
        assert_eq!((cache.take(1), cache.collect(2)), (0, 0));
        // The last is the one that is marked.
        let marked = held.iter().max_by_key(|buffer| buffer.id.raw()).unwrap();
        component.release(marked.start).unwrap();
        assert_eq!((cache.collect(2), cache.collect(1), cache.pool.allocated()), (1, 0, 1));
        // The other is to go, and then not: its release leaves it there.
        assert_eq!((cache.take(1), cache.take(0)), (0, 0));
        let other = held.iter().min_by_key(|buffer| buffer.id.raw()).unwrap();
        component.release(other.start).unwrap();
        assert_eq!((cache.collect(1), cache.pool.allocated()), (0, 1));
    }
}
