//! Adaptive Page Pinning: jobs are reported to the core, budgets change, pages are restored before the next release.
//!
//! Every job of a pinned task is reported once: when it ends, or, unfinished, when its period does (the next job is
//! released), as missed. What it does after that counts for the next.

use freehold_core::pinning::{JobReport, SwapBudgetRule};
use freehold_scenario::{TaskIndex, setup};

use super::Engine;
use crate::error::SimError;
use crate::lockstep::Step;
use crate::world::Wake;

/// Brings pages back for one task between the end of a job and the next release. It works beside the tasks: the store
/// serves it last, and no CPU is taken for it, but each page takes it the time that its fault costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restore {
    /// Whose pages.
    task: usize,
    /// Pages for each period, at most.
    quota: u32,
    left: u32,
    waits: bool,
    /// When it goes on.
    next: Option<u64>,
    /// How long it waits for more pages to leave.
    pause: u64,
}

impl Restore {
    pub(crate) fn new(task: usize, quota: u32) -> Self {
        Self {
            task,
            quota,
            left: 0,
            waits: false,
            next: None,
            pause: 0,
        }
    }
}

impl Engine<'_> {
    /// The job under way is about to end: its report, unless its period has ended before.
    pub(super) fn report_of_end(&mut self, task: usize) -> Option<JobReport> {
        let runner = &mut self.runners[task];
        runner.pinned.is_some().then_some(())?;
        let facts = runner.account.facts_at_end(self.now)?;
        runner.report(facts)
    }

    /// The next job is about to be released: the report of the one before, if that has not ended.
    pub(super) fn report_of_period(&mut self, task: usize) -> Option<JobReport> {
        let runner = &mut self.runners[task];
        runner.pinned.is_some().then_some(())?;
        let facts = runner.account.facts_unfinished(self.now)?;
        runner.report(facts)
    }

    /// Tells the core of a job, and has the task's budget follow.
    pub(super) fn tell_report(&mut self, task: usize, report: JobReport) {
        self.recorder.event(Step::Report {
            task: index(task),
            report,
        });
        let judged = self.world.judge(self.now, task, &report);
        if let (Some((judgement, view)), Some(pinned)) = (judged, &mut self.runners[task].pinned) {
            pinned.judged(self.now, &report, &judgement, &view);
            if judgement.swap_budget_rule != SwapBudgetRule::Off {
                self.runners[task].has_swap_budget(judgement.swap_budget.get());
            }
        }
        self.hear_wakes();
    }

    /// The task has nothing to do until its next release: pages may be restored.
    pub(super) fn begin_restore(&mut self, task: usize) {
        let Some(restore) = self.restores.iter_mut().find(|restore| restore.task == task) else {
            return;
        };
        let Some(release) = self.runners[task].next_release else {
            return;
        };
        let (lead, pause) = setup::restore_times(self.world.scenario, restore.quota);
        restore.left = restore.quota;
        restore.next = Some(release.saturating_sub(lead.get()).max(self.now));
        restore.pause = pause.get();
    }

    /// A job of the task is released: no further page is restored.
    pub(super) fn end_restore(&mut self, task: usize) {
        if let Some(restore) = self.restores.iter_mut().find(|restore| restore.task == task) {
            restore.left = 0;
        }
    }

    /// Lets those go on whose time has come.
    pub(super) fn restore_pages(&mut self) -> Result<(), SimError> {
        for number in 0..self.restores.len() {
            while self.restores[number].next.is_some_and(|next| next <= self.now) && !self.restores[number].waits {
                self.restore_one(number)?;
            }
        }
        Ok(())
    }

    fn restore_one(&mut self, number: usize) -> Result<(), SimError> {
        let (task, left) = (self.restores[number].task, self.restores[number].left);
        if left == 0 {
            self.restores[number].next = None;
            return Ok(());
        }
        self.recorder.event(Step::Restore { task: index(task) });
        let Some(touch) = self.world.next_to_restore(task) else {
            // Until the release more may leave.
            self.restores[number].next = Some(self.now.saturating_add(self.restores[number].pause));
            return Ok(());
        };
        self.restores[number].left = left - 1;
        self.restores[number].waits = true;
        let actor = self.runners.len() + number;
        self.world.fault(self.now, actor, touch, false)?;
        self.hear_wakes();
        Ok(())
    }

    /// A restorer's fault is over, however it ended.
    pub(super) fn end_restore_wait(&mut self, wake: Wake) {
        let cost = self.cost_of(&wake);
        let number = wake.task - self.runners.len();
        if let Some(restore) = self.restores.get_mut(number) {
            restore.waits = false;
            restore.next = Some(self.now.saturating_add(cost.max(1)));
        }
    }

    /// When a restorer goes on.
    pub(super) fn next_restore(&self) -> Option<u64> {
        let waiting = self.restores.iter().filter(|restore| !restore.waits);
        waiting.filter_map(|restore| restore.next).min()
    }
}

fn index(task: usize) -> TaskIndex {
    TaskIndex::new(u16::try_from(task).unwrap_or(u16::MAX))
}
