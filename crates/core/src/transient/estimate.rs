//! What one unit more or less does to a thread's tardiness (paper 004, section V.B):
//! `t_est(Δ) = t − Δ · b / (r − a)` while `r > a`.
//!
//! Readings. The impact `⌈b / (r − a)⌉` is fixed when a run starts. Where a component has all that is wanted the
//! formula predicts nothing, and memory would go to and fro: so an impact is remembered, and halved in each run
//! without contention. A scheduler that runs each quarter of a second remembers longer ([`Estimates::lasting`]): some
//! three jobs end between two runs, and which components they meet is chance.

use super::{ComponentFacts, MOST_COMPONENTS, MOST_THREADS, ScheduleError};
use alloc::vec::Vec;

/// Impacts of one unit of each component on each thread's tardiness, in nanoseconds.
#[derive(Debug)]
pub struct Estimates {
    components: usize,
    threads: usize,
    /// What a unit more would do now; 0 where nobody waits.
    gains: Vec<u64>,
    /// What a unit less would do, by what is remembered too.
    losses: Vec<u64>,
    lasting: bool,
}

/// What a lasting impact loses in a run that shows the unit not to be needed: such a part, and this at least.
const FADING_PART: u64 = 16;
const FADING: u64 = 1_000;

impl Estimates {
    /// Tables for so many components and threads. Nothing is allocated afterwards.
    ///
    /// # Errors
    /// [`ScheduleError::Limits`], [`ScheduleError::OutOfMemory`].
    pub fn new(components: usize, threads: usize) -> Result<Self, ScheduleError> {
        if !(1..=MOST_COMPONENTS).contains(&components) || !(1..=MOST_THREADS).contains(&threads) {
            return Err(ScheduleError::Limits);
        }
        let table = || {
            let mut table = Vec::new();
            table
                .try_reserve_exact(components * threads)
                .map_err(|_| ScheduleError::OutOfMemory)?;
            table.resize(components * threads, 0);
            Ok(table)
        };
        Ok(Self {
            components,
            threads,
            gains: table()?,
            losses: table()?,
            lasting: false,
        })
    }

    /// Keeps an impact whole while all units of the component are in use at times: the last of them may be what spares
    /// the wait. A run in which fewer were enough has it fade by a sixteenth.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// How many components.
    #[must_use]
    pub fn components(&self) -> usize {
        self.components
    }

    /// How many threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Remembers an impact of an earlier run. Places that do not exist are passed over.
    pub fn remember(&mut self, thread: usize, component: usize, impact: u64) {
        if let Some(at) = self.place(thread, component) {
            self.losses[at] = impact;
        }
    }

    /// The impact that is remembered; 0 for places that do not exist.
    #[must_use]
    pub fn remembered(&self, thread: usize, component: usize) -> u64 {
        self.place(thread, component).map_or(0, |at| self.losses[at])
    }

    /// Takes up a period. `blocked`: for each thread how long a job of it waited in each component, in nanoseconds: a
    /// row of components for each thread.
    ///
    /// # Errors
    /// [`ScheduleError::Shape`]; nothing has changed then.
    pub fn take_up(&mut self, components: &[ComponentFacts], blocked: &[u64]) -> Result<(), ScheduleError> {
        if components.len() != self.components || blocked.len() != self.losses.len() {
            return Err(ScheduleError::Shape);
        }
        for thread in 0..self.threads {
            for (component, facts) in components.iter().enumerate() {
                let at = thread * self.components + component;
                let missing = u64::from(facts.requested.saturating_sub(facts.allocated));
                if missing > 0 && blocked[at] > 0 {
                    self.gains[at] = blocked[at].div_ceil(missing);
                    self.losses[at] = self.gains[at];
                } else if blocked[at] > 0 {
                    // What was wanted has come meanwhile: it is worth what was waited without it.
                    self.gains[at] = 0;
                    self.losses[at] = self.losses[at].max(blocked[at]);
                } else {
                    self.gains[at] = 0;
                    self.losses[at] = self.faded(self.losses[at], facts);
                }
            }
        }
        Ok(())
    }

    /// An impact after a run without contention.
    fn faded(&self, impact: u64, facts: &ComponentFacts) -> u64 {
        match (self.lasting, facts.requested < facts.allocated) {
            (false, _) => impact / 2,
            (true, true) => impact.saturating_sub(FADING.max(impact / FADING_PART)),
            (true, false) => impact,
        }
    }

    /// By how much a unit more lowers the thread's tardiness, where the component has `now`.
    pub(super) fn gain(&self, thread: usize, component: usize, facts: &ComponentFacts, now: u32) -> u64 {
        let wanted = now < facts.requested;
        if wanted {
            self.gains[thread * self.components + component]
        } else {
            0
        }
    }

    /// By how much a unit less raises it: surplus costs nothing.
    pub(super) fn loss(&self, thread: usize, component: usize, facts: &ComponentFacts, now: u32) -> u64 {
        let surplus = now > facts.requested;
        if surplus {
            0
        } else {
            self.losses[thread * self.components + component]
        }
    }

    fn place(&self, thread: usize, component: usize) -> Option<usize> {
        (thread < self.threads && component < self.components).then_some(thread * self.components + component)
    }
}
