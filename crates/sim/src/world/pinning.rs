//! Pinned page pools in the world of the tasks.

use freehold_core::pinning::{JobReport, Judgement, PinnedPoolView};
use freehold_core::units::Instant;
use freehold_scenario::{Scenario, setup};

use super::setup::enter;
use super::{Touch, World};
use crate::error::SimError;
use crate::laws::Oracle;

impl World<'_> {
    /// Opens the pool of a task that has one, and makes the task its member.
    pub(super) fn add_pinned_task(&mut self, position: usize) -> Result<Option<freehold_core::id::TaskId>, SimError> {
        let task = &self.scenario.tasks[position];
        let Some(settings) = setup::pinning(task) else {
            return Ok(None);
        };
        let opened = self.memory.open_pinned_pool(settings);
        let pool = opened.map_err(|reason| SimError::Pinning {
            task: task.name.clone(),
            reason,
        })?;
        self.names.pools[position] = Some(pool);
        let refused = |reason| SimError::Task {
            task: task.name.clone(),
            reason,
        };
        self.memory.add_pinned_task(pool).map(Some).map_err(refused)
    }

    /// The task that restores pages for this one.
    pub(super) fn add_restorer_of(&mut self, position: usize) -> Result<(), SimError> {
        let Some(number) = setup::restorers(self.scenario).position(|owner| owner == position) else {
            return Ok(());
        };
        let Some(pool) = self.names.pools[position] else {
            return Ok(());
        };
        let actor = self.scenario.tasks.len() + number;
        let name = &self.scenario.tasks[position].name;
        let refused = |reason| SimError::Task {
            task: name.clone(),
            reason,
        };
        let id = self.memory.add_restorer(pool).map_err(refused)?;
        enter(&mut self.names.task_of, id.index(), Some(actor));
        self.names.tasks[actor] = Some(id);
        for region in setup::mapped_regions(self.scenario, position) {
            let mapping = self.memory.map(id, self.object(region)).map_err(refused)?;
            enter(&mut self.names.mapped_by, mapping.index(), Some((actor, region)));
            self.names.mappings[actor][region] = Some(mapping);
            self.tables.add_reader(self.scenario, actor, region);
        }
        self.carry_out(0);
        Ok(())
    }

    /// Tells the core of a job of a task with a pool; what it decided, and the pool after that.
    pub(crate) fn judge(&mut self, now: u64, task: usize, report: &JobReport) -> Option<(Judgement, PinnedPoolView)> {
        let pool = self.names.pools.get(task).copied().flatten()?;
        let judged = self.memory.handle_pinned_job_end(Instant::new(now), pool, report);
        self.carry_out(now);
        match judged {
            Ok(judgement) => Some((judgement, self.memory.pinned_pool(pool)?)),
            Err(error) => {
                self.laws.report(now, Oracle::Effects, || {
                    format!("the core refuses a job's report: {error}")
                });
                None
            }
        }
    }

    /// The page to be restored next for this task.
    pub(crate) fn next_to_restore(&mut self, task: usize) -> Option<Touch> {
        let pool = self.names.pools.get(task).copied().flatten()?;
        let (object, page) = self.memory.next_to_restore(pool)?;
        Some(Touch {
            region: self.names.region_of.get(object.index()).copied()?,
            page: page.get(),
            write: false,
        })
    }

    /// The pool of a task.
    pub(crate) fn pool_of(&self, task: usize) -> Option<PinnedPoolView> {
        let pool = self.names.pools.get(task).copied().flatten()?;
        self.memory.pinned_pool(pool)
    }
}

/// The name of a task, or of who restores for one.
pub(super) fn name_of(scenario: &Scenario, task: usize) -> String {
    match scenario.tasks.get(task) {
        Some(task) => task.name.clone(),
        None => {
            let owner = setup::restorers(scenario).nth(task - scenario.tasks.len());
            let owner = owner.and_then(|owner| scenario.tasks.get(owner));
            owner.map_or_else(String::new, |owner| format!("the restorer of {}", owner.name))
        }
    }
}
