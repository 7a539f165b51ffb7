//! The state machine: told what components use, what threads wait and how late jobs are, it says which units are to
//! come and go. It moves nothing itself; whoever runs it brings and takes units, and says so.

use super::ledger::{ComponentView, Row, ThreadRow};
use super::settings::{ComponentSpec, MOST_IDLE_RUNS, Settings};
use super::{ComponentFacts, Estimates, MOST_COMPONENTS, MOST_THREADS, Policy, Schedule, ScheduleError, share_out};
use crate::units::FrameCount;
use alloc::vec::Vec;

/// What was seen of a component's units since the last run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Units that were in use at some time.
    pub used: u32,
    /// Requests that waited at the same time, at most.
    pub waiting_peak: u32,
    /// Units held by threads that suspend themselves.
    pub suspended: u32,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransientEffect {
    /// So many units are to be taken in all: unused ones at once, others when they come out of use. Replaces what was
    /// told before; 0 lets the component keep what it has.
    Take {
        /// The component.
        component: usize,
        /// Units.
        units: u32,
    },
    /// So many units are to be brought: each is answered, by [`Scheduler::handle_granted`] or
    /// [`Scheduler::handle_refused`].
    Grant {
        /// The component.
        component: usize,
        /// Units.
        units: u32,
    },
    /// The component holds units past the bound and is to be started again.
    Restart {
        /// The component.
        component: usize,
    },
}

/// A broken rule: of this state machine, or of who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransientLaw {
    /// A component has less than its minimum.
    Minimum(usize),
    /// Units take more frames than they may.
    Limit(FrameCount),
}

/// Transient memory of some components for some threads. Nothing is allocated after it was made.
#[derive(Debug)]
pub struct Scheduler {
    settings: Settings,
    rows: Vec<Row>,
    threads: Vec<ThreadRow>,
    /// For each thread a row of what it waited in each component since the last run, in nanoseconds.
    waits: Vec<u64>,
    estimates: Estimates,
    /// Frames that may be brought at present, and those that others wait for.
    free: u32,
    owed: u32,
    runs: u64,
    moves: u64,
}

impl Scheduler {
    /// Each component has its minimum at the beginning, which whoever runs this has brought.
    ///
    /// # Errors
    /// [`ScheduleError::Limits`] for numbers outside their ranges or minima above the limit, and
    /// [`ScheduleError::OutOfMemory`].
    pub fn new(settings: Settings, components: &[ComponentSpec], threads: usize) -> Result<Self, ScheduleError> {
        let fits = (1..=MOST_COMPONENTS).contains(&components.len()) && threads <= MOST_THREADS;
        let minima = components.iter().try_fold(0_u32, |sum, spec| {
            let sane = !spec.unit.is_zero() && (1..=spec.most).contains(&spec.minimum);
            let frames = spec.minimum.checked_mul(spec.unit.get()).filter(|_| sane)?;
            sum.checked_add(frames)
        });
        let idle_fits = (1..=MOST_IDLE_RUNS).contains(&(settings.idle_runs as usize));
        if !fits || !idle_fits || minima.is_none_or(|minima| minima > settings.limit.get()) {
            return Err(ScheduleError::Limits);
        }
        let mut rows = reserved(components.len())?;
        rows.extend(components.iter().map(|spec| Row::new(*spec)));
        let mut of_threads = reserved(threads)?;
        of_threads.resize(threads, ThreadRow::default());
        // Estimates are of one thread at least; one without jobs is never tardy.
        let mut waits = reserved(threads.max(1) * components.len())?;
        waits.resize(threads.max(1) * components.len(), 0);
        Ok(Self {
            settings,
            rows,
            threads: of_threads,
            waits,
            estimates: Estimates::new(components.len(), threads.max(1))?.lasting(),
            free: 0,
            owed: 0,
            runs: 0,
            moves: 0,
        })
    }

    /// A component; `None` for a place that does not exist.
    #[must_use]
    pub fn view(&self, component: usize) -> Option<ComponentView> {
        self.rows.get(component).map(|row| row.view)
    }

    /// Frames of all units, those included that are being brought.
    #[must_use]
    pub fn frames(&self) -> FrameCount {
        FrameCount::new(self.rows.iter().map(Row::frames).sum())
    }

    /// How often the policy has run, and how many units it has moved.
    #[must_use]
    pub fn runs(&self) -> (u64, u64) {
        (self.runs, self.moves)
    }

    /// A thread waited for units of a component, so often and so long since the last call.
    pub fn handle_blocked(&mut self, component: usize, thread: Option<usize>, count: u64, nanos: u64) {
        let components = self.rows.len();
        if let Some(row) = self.rows.get_mut(component) {
            row.view.contended = row.view.contended.saturating_add(count);
            row.view.blocked = row.view.blocked.saturating_add(nanos);
            if let Some(thread) = thread.filter(|thread| *thread < self.threads.len()) {
                let wait = &mut self.waits[thread * components + component];
                *wait = wait.saturating_add(nanos);
            }
        }
    }

    /// A job of a thread has ended, so late; early where that is negative.
    pub fn handle_job_end(&mut self, thread: usize, tardiness: i64) {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.note_job(tardiness);
        }
    }

    /// A job of a thread is past its deadline and has not ended.
    pub fn handle_unfinished(&mut self, thread: usize, lateness: i64) {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.note_unfinished(lateness);
        }
    }

    /// A request finds no unit of a component free. Under the policies that give spare memory to who asks (`greedy`,
    /// and `tmem` until its next run knows better) a unit is to come. Memory is spare where it is nobody's and was
    /// promised to nobody; and a component that is to give units gets none.
    pub fn handle_wanted(&mut self, component: usize) {
        if !matches!(self.settings.policy, Policy::Greedy | Policy::Tardiness) {
            return;
        }
        let promised = self.rows.iter().map(|row| row.missing() * row.spec.unit.get()).sum();
        let spare = self.free.saturating_sub(promised);
        let row = self.rows.get_mut(component);
        if let Some(row) = row.filter(|row| row.spec.unit.get() <= spare) {
            self.moves += u64::from(row.want_one());
        }
    }

    /// Waits for a component's units have ended at the bound.
    pub fn handle_overrun(&mut self, component: usize, count: u64) {
        if let Some(row) = self.rows.get_mut(component).filter(|_| count > 0) {
            row.view.overruns = row.view.overruns.saturating_add(count);
            row.restart = row.spec.restarts;
        }
    }

    /// Units that were to come are there.
    pub fn handle_granted(&mut self, component: usize, units: u32) {
        if let Some(row) = self.rows.get_mut(component) {
            let units = units.min(row.granting);
            row.granting -= units;
            row.view.allocated += units;
            row.view.granted += u64::from(units);
            row.view.peak = row.view.peak.max(row.view.allocated);
        }
    }

    /// There is no memory for units that were to come: until the next run no more are asked for.
    pub fn handle_refused(&mut self, component: usize, units: u32) {
        if let Some(row) = self.rows.get_mut(component) {
            row.granting -= units.min(row.granting);
            row.view.desired = row.view.desired.min(row.view.allocated + row.granting);
            self.free = 0;
        }
    }

    /// Units are out of the component's cache, their memory is free.
    pub fn handle_taken(&mut self, component: usize, units: u32) {
        if let Some(row) = self.rows.get_mut(component) {
            let units = units.min(row.view.allocated);
            row.view.allocated -= units;
            row.view.taken += u64::from(units);
            row.told -= units.min(row.told);
            let frames = units.saturating_mul(row.spec.unit.get());
            let back = frames.min(self.owed);
            self.owed -= back;
            self.free = self.free.saturating_add(frames - back);
        }
    }

    /// Frames that units have are wanted elsewhere. Units that nobody wants go first, then those of the component that
    /// has most above its minimum. The minima stay, and until the next run no unit comes.
    pub fn handle_recall(&mut self, frames: FrameCount) {
        self.free = 0;
        self.owed = self.owed.saturating_add(frames.get());
        self.pay();
        self.owed = self.owed.min(self.leaving());
    }

    /// Frames of units that are to go.
    fn leaving(&self) -> u32 {
        self.rows.iter().map(|row| row.surplus() * row.spec.unit.get()).sum()
    }

    /// Has as many units go as others wait for.
    fn pay(&mut self) {
        if self.owed == 0 {
            return;
        }
        // What was to come does not.
        for row in &mut self.rows {
            row.view.desired = row.view.desired.min(row.view.allocated + row.granting);
        }
        while self.leaving() < self.owed {
            let spare = |row: &Row| row.view.desired > row.facts().kept();
            let all = (0..self.rows.len()).filter(|at| spare(&self.rows[*at]));
            let most = all.max_by_key(|at| {
                let view = &self.rows[*at].view;
                let unwanted = view.desired.saturating_sub(view.requested);
                let above = view.desired - self.rows[*at].spec.minimum;
                (unwanted, above, core::cmp::Reverse(*at))
            });
            let Some(at) = most else { break };
            self.rows[at].view.desired -= 1;
        }
    }

    /// The policy: decides what each component ought to have. `usage` is what was seen of each since the last run, and
    /// `lent` how many frames more can be had.
    ///
    /// # Errors
    /// [`ScheduleError::Shape`]; nothing has changed then.
    pub fn run_policy(&mut self, usage: &[Usage], lent: FrameCount) -> Result<(), ScheduleError> {
        if usage.len() != self.rows.len() {
            return Err(ScheduleError::Shape);
        }
        for (row, usage) in self.rows.iter_mut().zip(usage) {
            row.take_up(*usage);
        }
        let left = self.settings.limit.get().saturating_sub(self.frames().get());
        self.free = left.min(lent.get()).saturating_sub(self.owed);
        self.runs += 1;
        self.decide()?;
        // What was recalled and is still in use goes whatever the policy wants.
        self.pay();
        self.threads.fill(ThreadRow::default());
        self.waits.fill(0);
        Ok(())
    }

    fn decide(&mut self) -> Result<(), ScheduleError> {
        let count = self.rows.len();
        let (mut facts, mut most) = ([ComponentFacts::default(); MOST_COMPONENTS], [0; MOST_COMPONENTS]);
        for (at, row) in self.rows.iter().enumerate() {
            (facts[at], most[at]) = (row.facts(), row.spec.most);
        }
        // The arithmetic is of units: as many as there are whatever their size.
        let largest = self.rows.iter().map(|row| row.spec.unit.get()).max().unwrap_or(1);
        let free = self.free / largest;
        let facts = &facts[..count];
        let mut desired = [0; MOST_COMPONENTS];
        if self.settings.policy == Policy::Tardiness {
            self.plan(facts, free, &mut desired[..count])?;
        } else {
            share_out(self.settings.policy, facts, &most[..count], free, &mut desired[..count]);
        }
        for (at, row) in self.rows.iter_mut().enumerate() {
            let before = row.view.desired;
            row.view.desired = desired[at].min(most[at]).max(row.spec.minimum);
            self.moves += u64::from(row.view.desired.saturating_sub(before));
        }
        Ok(())
    }

    /// Algorithm 1; and units that nobody has used for some runs go back.
    fn plan(&mut self, facts: &[ComponentFacts], free: u32, desired: &mut [u32]) -> Result<(), ScheduleError> {
        let components = facts.len();
        for (thread, waits) in self.threads.iter().zip(self.waits.chunks_mut(components)) {
            waits.iter_mut().for_each(|sum| *sum = thread.per_job(*sum));
        }
        self.estimates.take_up(facts, &self.waits)?;
        let mut tardiness = [0; MOST_THREADS];
        for (place, thread) in tardiness.iter_mut().zip(&self.threads) {
            *place = thread.mean();
        }
        let plan = Schedule::plan(&self.estimates, facts, free, &tardiness[..self.threads.len().max(1)])?;
        for (at, row) in self.rows.iter().enumerate() {
            desired[at] = plan.desired()[at];
            // What it just received it keeps.
            if desired[at] <= facts[at].allocated {
                desired[at] = row.without_idle(desired[at], self.settings.idle_runs as usize);
            }
        }
        Ok(())
    }

    /// The next thing to do. Units are taken before others are brought.
    pub fn poll_effect(&mut self) -> Option<TransientEffect> {
        for (component, row) in self.rows.iter_mut().enumerate() {
            if core::mem::take(&mut row.restart) {
                return Some(TransientEffect::Restart { component });
            }
            let units = row.surplus();
            if units != row.told {
                row.told = units;
                return Some(TransientEffect::Take { component, units });
            }
        }
        for (component, row) in self.rows.iter_mut().enumerate() {
            let units = row.missing().min(self.free / row.spec.unit.get());
            if units > 0 {
                row.granting += units;
                self.free -= units * row.spec.unit.get();
                return Some(TransientEffect::Grant { component, units });
            }
        }
        None
    }

    /// Checks what always holds (law 7).
    ///
    /// # Errors
    /// The first law that does not.
    pub fn check_laws(&self) -> Result<(), TransientLaw> {
        let short = self.rows.iter().position(|row| row.view.allocated < row.spec.minimum);
        if let Some(component) = short {
            return Err(TransientLaw::Minimum(component));
        }
        if self.frames() > self.settings.limit {
            return Err(TransientLaw::Limit(self.frames()));
        }
        Ok(())
    }
}

fn reserved<T>(count: usize) -> Result<Vec<T>, ScheduleError> {
    let mut rows = Vec::new();
    rows.try_reserve_exact(count).map_err(|_| ScheduleError::OutOfMemory)?;
    Ok(rows)
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
