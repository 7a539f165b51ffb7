//! Pinned page pools: what is known of each besides the core's part.

pub(super) mod restore;

use crate::engine::Engine;
use crate::engine::keys::ClientId;
use crate::engine::pinning::restore::Restorer;
use crate::error::EngineError;
use crate::view::{JudgedJob, PinnedPoolRow};
use freehold_core::id::{ObjectId, PinnedPoolId};
use freehold_core::pinning::{CapacityRule, JobReport, Judgement, PinningSettings, SwapBudgetRule};
use freehold_core::units::Instant;
use freehold_report::pinning::{JudgedJobs, PinningStatus};

/// A pinned page pool.
#[derive(Debug)]
pub(crate) struct PinnedRow {
    pub(crate) id: PinnedPoolId,
    pub(crate) name: String,
    pub(crate) settings: PinningSettings,
    /// Tasks in it.
    pub(crate) tasks: u32,
    /// Nobody holds it any more: it closes with its last task.
    pub(crate) released: bool,
    pub(crate) counts: JudgedJobs,
    pub(crate) last: Option<(JobReport, Judgement)>,
    pub(crate) last_miss: Option<JobReport>,
}

/// All of them, by the core's slots, and what was counted of these and of those that are closed.
#[derive(Debug, Default)]
pub(crate) struct PinnedRows {
    rows: Vec<Option<PinnedRow>>,
    restorers: Vec<Restorer>,
    totals: PinningStatus,
}

fn count(counts: &mut JudgedJobs, job: &JobReport, judgement: &Judgement) {
    counts.jobs += 1;
    counts.misses += u64::from(job.missed);
    let rules = &mut counts.capacity_rules;
    *match judgement.capacity_rule {
        CapacityRule::Grown => &mut rules.grown,
        CapacityRule::AtLimit => &mut rules.at_limit,
        CapacityRule::Shrunk => &mut rules.shrunk,
        CapacityRule::Held => &mut rules.held,
        CapacityRule::NotMemory => &mut rules.not_memory,
        CapacityRule::Steady => &mut rules.steady,
    } += 1;
    let rules = &mut counts.swap_budget_rules;
    *match judgement.swap_budget_rule {
        SwapBudgetRule::Raised => &mut rules.raised,
        SwapBudgetRule::AtLimit => &mut rules.at_limit,
        SwapBudgetRule::Lowered => &mut rules.lowered,
        SwapBudgetRule::Held => &mut rules.held,
        SwapBudgetRule::Off => &mut rules.off,
    } += 1;
}

impl Engine {
    pub(super) fn pinned_pool(&self, id: PinnedPoolId) -> Option<&PinnedRow> {
        self.pinned.rows.get(id.index())?.as_ref().filter(|row| row.id == id)
    }

    pub(super) fn pinned_pool_mut(&mut self, id: PinnedPoolId) -> Option<&mut PinnedRow> {
        self.pinned
            .rows
            .get_mut(id.index())?
            .as_mut()
            .filter(|row| row.id == id)
    }

    /// Opens a pinned page pool. It is kept until [`release_pool`](Self::release_pool) is called and its last task is
    /// gone.
    ///
    /// # Errors
    /// [`EngineError::Pinning`], [`EngineError::Create`].
    pub fn open_pool(&mut self, name: &str, settings: PinningSettings) -> Result<PinnedPoolId, EngineError> {
        let id = self.step(|engine| engine.core.open_pinned_pool(settings))?;
        if settings.restores()
            && let Err(error) = self.add_restorer(id, settings.restore.get())
        {
            // It is empty, and just opened.
            let _ = self.step(|engine| engine.core.close_pinned_pool(id));
            return Err(error);
        }
        if self.pinned.rows.len() <= id.index() {
            self.pinned.rows.resize_with(id.index() + 1, || None);
        }
        if let Some(row) = self.pinned.rows.get_mut(id.index()) {
            *row = Some(PinnedRow {
                id,
                name: name.to_owned(),
                settings,
                tasks: 0,
                released: false,
                counts: JudgedJobs::default(),
                last: None,
                last_miss: None,
            });
        }
        self.pinned.totals.opened += 1;
        Ok(id)
    }

    /// Nobody holds the pool any more: it closes with its last task. Idempotent.
    pub fn release_pool(&mut self, pool: PinnedPoolId) {
        self.step(|engine| {
            if let Some(row) = engine.pinned_pool_mut(pool) {
                row.released = true;
            }
            engine.end_pool(pool);
        });
    }

    /// Closes a pool if nobody holds it and no task uses it.
    pub(super) fn end_pool(&mut self, id: PinnedPoolId) {
        let over = self.pinned_pool(id).is_some_and(|row| row.released && row.tasks == 0);
        if !over {
            return;
        }
        self.end_restorer(id);
        if self.core.close_pinned_pool(id).is_err() {
            self.notice("the core would not close a pinned page pool");
            return;
        }
        if let Some(row) = self.pinned.rows.get_mut(id.index()) {
            *row = None;
        }
        self.drain();
    }

    /// A job has ended: what follows for the pool, and how many pages it pins now. Until the next release, in
    /// nanoseconds of the monotonic clock (0 for none), pages are brought back, if the pool has that done.
    ///
    /// # Errors
    /// [`EngineError::NoSuchPool`], [`EngineError::Job`].
    pub fn judge_job(
        &mut self,
        pool: PinnedPoolId,
        job: &JobReport,
        next_release: Instant,
    ) -> Result<JudgedJob, EngineError> {
        let settings = self.pinned_pool(pool).ok_or(EngineError::NoSuchPool)?.settings;
        let judgement = self.step(|engine| engine.core.handle_pinned_job_end(engine.step.now, pool, job))?;
        self.await_release(pool, next_release, settings.period.get());
        self.pinned.totals.jobs += 1;
        self.pinned.totals.misses += u64::from(job.missed);
        if let Some(row) = self.pinned_pool_mut(pool) {
            count(&mut row.counts, job, &judgement);
            row.last = Some((*job, judgement));
            if job.missed {
                row.last_miss = Some(*job);
            }
        }
        let lists = self.core.pinned_pool(pool).unwrap_or_default();
        Ok(JudgedJob {
            judgement,
            settings,
            pinned: lists.active.saturating_add(lists.inactive),
            restored: self.restored(pool),
        })
    }

    /// The object and the page at an address of a client, where the engine knows of it.
    #[must_use]
    pub fn locate(&self, client: ClientId, address: u64) -> Option<(ObjectId, u32)> {
        let (start, segment) = self.client(client)?.segment(address)?;
        Some((segment.object, segment.page_at(start, address)))
    }

    pub(super) fn pinning_totals(&self) -> PinningStatus {
        self.pinned.totals
    }

    pub(super) fn pinned_rows(&self) -> Vec<PinnedPoolRow> {
        let rows = self.pinned.rows.iter().flatten();
        rows.filter_map(|row| {
            let members = self.tasks.iter().filter_map(|(_, task)| {
                let client = self.client(task.client).filter(|_| task.pinned == Some(row.id))?;
                Some((client.process.pid, task.name.clone()))
            });
            Some(PinnedPoolRow {
                id: row.id,
                restored: self.restored(row.id),
                name: row.name.clone(),
                settings: row.settings,
                lists: self.core.pinned_pool(row.id)?,
                counts: row.counts,
                last: row.last,
                last_miss: row.last_miss,
                members: members.collect(),
            })
        })
        .collect()
    }
}
