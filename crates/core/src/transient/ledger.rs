//! The account of each component: the paper's r, a, δ and used units, and the units that came and went.

use super::settings::{ComponentSpec, MOST_IDLE_RUNS};
use super::{ComponentFacts, Usage};

/// One component, for display. Counts are from the beginning on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComponentView {
    /// Units that it has (a), those that are to be taken included.
    pub allocated: u32,
    /// Units that its threads wanted at the same time since the last run (r).
    pub requested: u32,
    /// Units that it ought to have (δ).
    pub desired: u32,
    /// Units that were in use since the last run.
    pub used: u32,
    /// Units that it had at most.
    pub peak: u32,
    /// Units that came.
    pub granted: u64,
    /// Units that went.
    pub taken: u64,
    /// Waits for a unit.
    pub contended: u64,
    /// How long those took, in nanoseconds (the sum of b).
    pub blocked: u64,
    /// Waits that ended at the bound.
    pub overruns: u64,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) spec: ComponentSpec,
    pub(super) view: ComponentView,
    suspended: u32,
    /// Units that are being brought.
    pub(super) granting: u32,
    /// Units that were given to who asked, since the last run.
    given: u32,
    /// Units that the engine was last told to take.
    pub(super) told: u32,
    pub(super) restart: bool,
    used_before: [u32; MOST_IDLE_RUNS],
    runs: usize,
}

impl Row {
    pub(super) fn new(spec: ComponentSpec) -> Self {
        let units = spec.minimum;
        let view = ComponentView {
            allocated: units,
            desired: units,
            peak: units,
            ..ComponentView::default()
        };
        Self {
            spec,
            view,
            suspended: 0,
            granting: 0,
            given: 0,
            told: 0,
            restart: false,
            used_before: [0; MOST_IDLE_RUNS],
            runs: 0,
        }
    }

    /// What the policy's arithmetic takes of it.
    pub(super) fn facts(&self) -> ComponentFacts {
        ComponentFacts {
            allocated: self.view.allocated + self.granting,
            requested: self.view.requested,
            minimum: self.spec.minimum,
            suspended: self.suspended,
            recent: self.used_before,
            companion: self.spec.companion,
        }
    }

    /// Frames of its units, those included that are being brought.
    pub(super) fn frames(&self) -> u32 {
        (self.view.allocated + self.granting).saturating_mul(self.spec.unit.get())
    }

    /// Units that are to go.
    pub(super) fn surplus(&self) -> u32 {
        let kept = self.view.desired.max(self.spec.minimum);
        self.view.allocated.saturating_sub(kept)
    }

    /// Units that are to come.
    pub(super) fn missing(&self) -> u32 {
        self.view.desired.saturating_sub(self.view.allocated + self.granting)
    }

    /// Somebody asks: one unit more than there is ought to be there, if none is to come or to go and it may have more.
    pub(super) fn want_one(&mut self) -> bool {
        let there = self.view.allocated + self.granting;
        let wanted = self.view.desired == there && there < self.spec.most;
        if wanted {
            self.view.desired += 1;
            self.given += 1;
        }
        wanted
    }

    /// Takes up what was seen since the last run. Where nobody waited, the units that were in use are those that were
    /// wanted; else as many more as waited at the same time. Of these some may have come meanwhile.
    pub(super) fn take_up(&mut self, usage: Usage) {
        let waiting = usage.waiting_peak.saturating_sub(core::mem::take(&mut self.given));
        self.suspended = usage.suspended;
        self.view.used = usage.used;
        self.view.requested = if usage.waiting_peak > 0 {
            self.view.allocated.saturating_add(waiting)
        } else {
            usage.used
        };
        self.used_before[self.runs % MOST_IDLE_RUNS] = self.view.requested;
        self.runs += 1;
    }

    /// What it ought to have where some of its units were not in use in any of the last `runs` runs.
    pub(super) fn without_idle(&self, desired: u32, runs: usize) -> u32 {
        if self.runs < runs {
            return desired;
        }
        let last = (self.runs - runs..self.runs).map(|run| self.used_before[run % MOST_IDLE_RUNS]);
        desired.min(last.max().unwrap_or(0)).max(self.facts().kept())
    }
}

/// Jobs of a thread since the last run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadRow {
    jobs: u64,
    tardiness: i64,
    unfinished: i64,
}

impl ThreadRow {
    pub(super) fn note_job(&mut self, tardiness: i64) {
        self.jobs += 1;
        self.tardiness = self.tardiness.saturating_add(tardiness);
        self.unfinished = 0;
    }

    /// A job past its deadline counts with its lateness so far, where no other has ended.
    pub(super) fn note_unfinished(&mut self, lateness: i64) {
        self.unfinished = lateness;
    }

    /// The mean tardiness (t), as of what has ended.
    pub(super) fn mean(&self) -> i64 {
        match i64::try_from(self.jobs) {
            Ok(jobs) if jobs > 0 => self.tardiness / jobs,
            _ => self.unfinished,
        }
    }

    /// Of a sum over the window, the part of one job, rounded up.
    pub(super) fn per_job(&self, sum: u64) -> u64 {
        sum.div_ceil(self.jobs.max(1))
    }
}
