//! The units of a composition: their pools, the reservation that they are of, and the policy that moves them.

use super::RunError;
use super::cache::{Cache, Kind};
use super::driver::Window;
use super::frames::FramePool;
use crate::composition::{Composition, PolicyName};
use crate::registry::{UnitState, Wait};
use freehold_core::id::ReservationId;
use freehold_core::transient::{ComponentSpec, ComponentView, Scheduler, Settings, TransientEffect, Usage};
use freehold_core::units::FrameCount;
use freehold_linux::PAGE_SIZE;
use freehold_tmem::Pool;
use std::time::{Duration, Instant};

/// Runs of the policy after which unused units go back.
const IDLE_RUNS: u32 = 4;

/// All units.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) caches: Vec<Cache>,
    pub(super) limit_pages: usize,
    pub(super) peak_pages: usize,
    pub(super) cpu: Duration,
    pub(super) recalled: FrameCount,
    scheduler: Scheduler,
    frames: FramePool,
    /// Units that are moved without a policy's run, from the last.
    restarts: Vec<usize>,
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
        let restarts = |cache: &Cache| composition.components[cache.component].restart_hung;
        let companion = |of: &Cache| {
            let mut all = caches.iter();
            all.position(|other| other.component == of.component && other.kind != of.kind)
        };
        let spec = |cache: &Cache| cache.spec(restarts(cache), companion(cache));
        let specs: Vec<ComponentSpec> = caches.iter().map(spec).collect();
        let limit = usize::try_from(composition.transient.limit.0).unwrap_or(usize::MAX) / PAGE_SIZE;
        let settings = Settings {
            limit: FrameCount::new(u32::try_from(limit).unwrap_or(u32::MAX)),
            policy: policy.policy(),
            idle_runs: IDLE_RUNS,
        };
        let scheduler = Scheduler::new(settings, &specs, composition.jobs().count())?;
        let mut memory = Self {
            limit_pages: limit,
            peak_pages: 0,
            cpu: Duration::ZERO,
            recalled: FrameCount::ZERO,
            frames: FramePool::new(settings.limit, scheduler.frames())?,
            scheduler,
            caches,
            restarts: Vec::new(),
        };
        if matches!(policy, PolicyName::Max | PolicyName::Static) {
            memory.run_policy(&Window::default())?;
        }
        memory.peak_pages = memory.pages();
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
        self.frames.of_units().0.get() as usize
    }

    /// Pages of these that are borrowed.
    pub(super) fn borrowed_pages(&self) -> usize {
        self.frames.of_units().1.get() as usize
    }

    /// What the policy knows of a cache.
    pub(super) fn view(&self, cache: usize) -> ComponentView {
        self.scheduler.view(cache).unwrap_or_default()
    }

    /// Runs of the policy, and units that it moved.
    pub(super) fn runs(&self) -> (u64, u64) {
        self.scheduler.runs()
    }

    /// Tells the policy what pools counted and how jobs ended since its last run.
    pub(super) fn look(&mut self, window: &Window) -> Vec<Usage> {
        for (thread, jobs) in window.tardiness.iter().enumerate() {
            jobs.iter()
                .for_each(|tardiness| self.scheduler.handle_job_end(thread, *tardiness));
        }
        for (thread, lateness) in window.unfinished.iter().enumerate() {
            if let Some(lateness) = lateness {
                self.scheduler.handle_unfinished(thread, *lateness);
            }
        }
        let mut usages = Vec::with_capacity(self.caches.len());
        for (at, cache) in self.caches.iter_mut().enumerate() {
            let (usage, waits) = cache.look();
            usages.push(usage);
            for (thread, (count, blocked)) in waits.jobs.iter().enumerate() {
                self.scheduler.handle_blocked(at, Some(thread), *count, nanos(*blocked));
            }
            let (count, blocked) = waits.others;
            self.scheduler.handle_blocked(at, None, count, nanos(blocked));
            self.scheduler.handle_overrun(at, waits.timed_out);
        }
        usages
    }

    /// Decides what each component ought to have, and moves units.
    pub(super) fn run_policy(&mut self, window: &Window) -> Result<(), RunError> {
        let began = Instant::now();
        let usages = self.look(window);
        self.collect();
        self.scheduler.run_policy(&usages, self.frames.lendable())?;
        self.carry_out();
        self.cpu += began.elapsed();
        Ok(())
    }

    /// Between runs of the policy: what was released by its users has come, what is asked back goes, and spare memory
    /// goes to who asked.
    pub(super) fn tick(&mut self) {
        self.collect();
        for (at, cache) in self.caches.iter_mut().enumerate() {
            (0..cache.take_asked()).for_each(|_| self.scheduler.handle_wanted(at));
        }
        let recalled = self.frames.recalls();
        if !recalled.is_zero() {
            self.recalled = self.recalled.saturating_add(recalled);
            self.scheduler.handle_recall(recalled);
        }
        self.carry_out();
    }

    /// Components that hold units past their bound and are to be started again.
    pub(super) fn take_restarts(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.restarts)
    }

    /// Admits another reservation of so many pages; `None` while units are on their way back.
    pub(super) fn admit(&mut self, pages: usize) -> Result<Option<ReservationId>, RunError> {
        let frames = FrameCount::new(u32::try_from(pages).unwrap_or(u32::MAX));
        self.frames
            .admit(frames)
            .map_err(|error| RunError::Frames(error.to_string()))
    }

    /// Ends one.
    pub(super) fn release(&mut self, reservation: ReservationId) {
        self.frames.release(reservation);
    }

    fn collect(&mut self) {
        for (at, cache) in self.caches.iter_mut().enumerate() {
            let allocated = self.scheduler.view(at).unwrap_or_default().allocated;
            let come = cache.collect(allocated);
            if come > 0 {
                self.scheduler.handle_taken(at, come);
                self.frames.give_back(cache.frames(come));
            }
        }
    }

    fn carry_out(&mut self) {
        while let Some(effect) = self.scheduler.poll_effect() {
            match effect {
                TransientEffect::Take { component, units } => {
                    let cache = &mut self.caches[component];
                    let taken = cache.take(units);
                    self.scheduler.handle_taken(component, taken);
                    if taken > 0 {
                        self.frames.give_back(cache.frames(taken));
                    }
                }
                TransientEffect::Grant { component, units } => (0..units).for_each(|_| self.grant(component)),
                TransientEffect::Restart { component } => self.restarts.push(self.caches[component].component),
            }
        }
        debug_assert_eq!(self.scheduler.check_laws(), Ok(()));
        debug_assert!(self.frames.is_lawful(), "frames are conserved");
        self.peak_pages = self.peak_pages.max(self.pages());
    }

    fn grant(&mut self, component: usize) {
        let cache = &self.caches[component];
        let frames = cache.frames(1);
        if !self.frames.take(frames) {
            self.scheduler.handle_refused(component, 1);
        } else if cache.give_one() {
            self.scheduler.handle_granted(component, 1);
        } else {
            self.frames.give_back(frames);
            self.scheduler.handle_refused(component, 1);
        }
    }

    /// What `ps` shows of each cache.
    pub(super) fn states(&self, composition: &Composition) -> Vec<UnitState> {
        let caches = self.caches.iter().enumerate();
        caches
            .map(|(at, cache)| {
                let view = self.view(at);
                UnitState {
                    component: composition.components[cache.component].name.clone(),
                    kind: cache.kind.name().to_owned(),
                    requested: view.requested,
                    allocated: view.allocated,
                    desired: view.desired,
                    used: view.used,
                    contended: view.contended,
                    blocked_ns: view.blocked,
                }
            })
            .collect()
    }

    /// Which thread waits for which at present.
    pub(super) fn waits(&self, composition: &Composition) -> Vec<Wait> {
        let names: Vec<String> = composition.jobs().collect();
        let name = |job: usize| names.get(job).cloned();
        let all = self.caches.iter().flat_map(|cache| {
            let waiters = cache.waiters().into_iter();
            waiters.filter_map(move |(thread, holder)| {
                Some(Wait {
                    thread: name(thread)?,
                    component: composition.components[cache.component].name.clone(),
                    kind: cache.kind.name().to_owned(),
                    holder: holder.and_then(name),
                })
            })
        });
        all.collect()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
