//! The units of a composition: their pools, the reservation that they are of, and the policy that moves them.

use super::RunError;
use super::cache::{Cache, Kind};
use super::driver::Window;
use super::frames::FramePool;
use super::specs::CacheSpec;
use crate::composition::Composition;
use crate::registry::{UnitState, Wait};
use freehold_core::id::ReservationId;
use freehold_core::transient::{ComponentSpec, ComponentView, Policy, Scheduler, Settings, TransientEffect, Usage};
use freehold_core::units::FrameCount;
use freehold_linux::memory::ResidencyError;
use freehold_tmem::Pool;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Runs of the policy after which unused units go back.
const IDLE_RUNS: u32 = 4;

/// All units. A few milliseconds apart it is to [`tick`](Self::tick), and each period to
/// [`run_policy`](Self::run_policy).
#[derive(Debug)]
pub struct UnitManager {
    pub(super) caches: Vec<Cache>,
    pub(super) limit_pages: usize,
    peak_pages: usize,
    pub(super) cpu: Duration,
    pub(super) recalled: FrameCount,
    scheduler: Scheduler,
    frames: FramePool,
    /// Units that are moved without a policy's run, from the last.
    restarts: Vec<usize>,
}

impl UnitManager {
    /// Makes the pools, with their minima in memory. So many jobs are told apart, and are those that the policy knows.
    ///
    /// # Errors
    /// The minima are above the limit, or there is no memory for them.
    pub fn new(kinds: &[CacheSpec], limit: FrameCount, policy: Policy, jobs: usize) -> Result<Self, RunError> {
        let caches: Result<Vec<Cache>, RunError> = kinds.iter().map(|kind| Cache::new(kind, jobs)).collect();
        let caches = caches?;
        let companion = |of: &Cache| {
            let mut all = caches.iter();
            all.position(|other| other.component == of.component && other.kind != of.kind)
        };
        let specs = caches.iter().zip(kinds);
        let specs: Vec<ComponentSpec> = specs
            .map(|(cache, kind)| cache.spec(kind.restarts, companion(cache)))
            .collect();
        let settings = Settings {
            limit,
            policy,
            idle_runs: IDLE_RUNS,
        };
        let scheduler = Scheduler::new(settings, &specs, jobs)?;
        let mut memory = Self {
            limit_pages: limit.get() as usize,
            peak_pages: 0,
            cpu: Duration::ZERO,
            recalled: FrameCount::ZERO,
            frames: FramePool::new(settings.limit, scheduler.frames())?,
            scheduler,
            caches,
            restarts: Vec::new(),
        };
        if matches!(policy, Policy::Maximum | Policy::Static) {
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

    /// How many caches there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.caches.len()
    }

    /// The pools, as a process of a component has them.
    ///
    /// # Errors
    /// They cannot be mapped once more.
    pub fn open(&self) -> Result<Vec<Pool>, RunError> {
        let who = || "a thread".to_owned();
        let open = |cache: &Cache| {
            let memory = cache.pool.as_fd().try_clone_to_owned();
            let memory = memory.map_err(|error| RunError::Start(who(), error))?;
            Pool::open(memory).map_err(|error| RunError::Pool(who(), error))
        };
        self.caches.iter().map(open).collect()
    }

    /// How long requests for one job have waited, in nanoseconds.
    #[must_use]
    pub fn blocked(&self, job: u32) -> u64 {
        let waits = self.caches.iter().filter_map(|cache| cache.pool.waits(job));
        waits.map(|waits| nanos(waits.blocked)).sum()
    }

    /// Pages of units that are in memory, as the kernel counts them.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn resident_pages(&self) -> Result<usize, ResidencyError> {
        self.caches.iter().map(|cache| cache.pool.resident()).sum()
    }

    /// Once nobody has a unit any more: what the books say, and the pools or the kernel do not.
    pub fn settle(&mut self) -> Vec<String> {
        self.look(&Window::default());
        self.tick();
        let mut broken = Vec::new();
        for (at, cache) in self.caches.iter().enumerate() {
            let (booked, found) = (self.view(at).allocated, cache.pool.allocated());
            if booked != found {
                broken.push(format!(
                    "cache {at} has {found} units, and {booked} by the policy's books"
                ));
            }
            if cache.pool.usage().held > 0 || cache.pool.waiting().0 > 0 {
                broken.push(format!("cache {at} has units in use, and nobody runs"));
            }
        }
        match self.resident_pages() {
            Ok(pages) if pages > self.pages() => {
                broken.push(format!(
                    "{pages} pages are in memory, and {} were granted",
                    self.pages()
                ));
            }
            Ok(_) => {}
            Err(error) => broken.push(error.to_string()),
        }
        broken
    }

    /// Pages of units that components have.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.frames.of_units().0.get() as usize
    }

    /// Pages of these that are borrowed.
    pub(super) fn borrowed_pages(&self) -> usize {
        self.frames.of_units().1.get() as usize
    }

    /// The most of them that there were.
    #[must_use]
    pub fn peak_pages(&self) -> usize {
        self.peak_pages
    }

    /// What the policy knows of a cache.
    #[must_use]
    pub fn view(&self, cache: usize) -> ComponentView {
        self.scheduler.view(cache).unwrap_or_default()
    }

    /// Runs of the policy, and units that it moved.
    #[must_use]
    pub fn runs(&self) -> (u64, u64) {
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
    ///
    /// # Errors
    /// [`RunError::Policy`].
    pub fn run_policy(&mut self, window: &Window) -> Result<(), RunError> {
        let began = Instant::now();
        let usages = self.look(window);
        self.audit();
        self.scheduler.run_policy(&usages, self.frames.lendable())?;
        self.carry_out();
        self.cpu += began.elapsed();
        Ok(())
    }

    /// Between runs of the policy: what was released by its users has come, what is asked back goes, and spare memory
    /// goes to who asked.
    pub fn tick(&mut self) {
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

    /// Components with violations that nobody has heard of.
    pub(super) fn take_violators(&mut self) -> Vec<(usize, Kind)> {
        let caches = self.caches.iter_mut().filter_map(|cache| {
            let of = (cache.component, cache.kind);
            cache.is_to_be_said().then_some(of)
        });
        caches.collect()
    }

    /// Whether no unit is ever swapped out.
    pub(super) fn is_locked(&self) -> bool {
        self.caches.iter().all(|cache| cache.locked)
    }

    /// Looks for memory that components have beyond what they were granted, and drops it.
    pub(super) fn audit(&mut self) {
        self.collect();
        for (at, cache) in self.caches.iter_mut().enumerate() {
            cache.audit(self.scheduler.view(at).unwrap_or_default().allocated);
        }
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
                    violations: cache.violations,
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
