//! Pinned page pools: soft-real-time tasks without a reservation, whose jobs the core is told of.
//!
//! A task of a pool is like any other without a reservation; what differs is decided in the core. Here its swap-ins are
//! measured as the paper's Algorithm 3 wants them, and its jobs handed in. That is never done in a fault.

use crate::counters::TaskCounters;
use crate::mailbox::Answer;
use crate::pager::Pager;
use crate::task::{Bound, Local, TaskHandle};
use freehold_core::Memory;
use freehold_core::effect::{Holder, Resolution};
use freehold_core::error::{CreateError, JobError, PinningError, RemoveError};
use freehold_core::id::PinnedPoolId;
use freehold_core::pinning::{JobReport, Judgement, PinnedPoolView, PinningSettings};
use freehold_core::units::Instant;
use freehold_linux::PAGE_SIZE;
use freehold_linux::fault::access;

/// What a task of a pool has that others have not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinned {
    pool: PinnedPoolId,
    /// It touches pages only to bring them back.
    restores: bool,
    pub(crate) meter: Meter,
}

impl Pinned {
    fn new(pool: PinnedPoolId, restores: bool) -> Self {
        Self {
            pool,
            restores,
            meter: Meter::default(),
        }
    }
}

impl Local {
    /// Whether the task touches pages only to bring them back.
    pub(crate) fn restores(&self) -> bool {
        self.pinned.is_some_and(|pinned| pinned.restores)
    }
}

/// Finds out what swap-ins cost. A fault that is to be tried again is one with the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    answer: Option<Answer>,
    /// CPU time and elapsed time of the fault that is being tried again.
    before: (u64, u64),
}

impl Meter {
    /// The answer of the fault under way.
    pub(crate) fn answered(&mut self, answer: Answer) {
        self.answer = Some(answer);
    }

    /// The handler is done with a fault, which took this.
    pub(crate) fn end_fault(&mut self, counters: &TaskCounters, cpu: std::time::Duration, elapsed: u64) {
        let cpu = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
        let (cpu, elapsed) = (self.before.0 + cpu, self.before.1 + elapsed);
        self.before = (0, 0);
        match self.answer.take() {
            Some(Answer::Retry) => self.before = (cpu, elapsed),
            Some(Answer::Map {
                resolution: Resolution::SwapIn { .. },
                ..
            }) => {
                counters.swap_ins.add(1);
                counters.swap_cpu.add(cpu);
                counters.swap_elapsed.add(elapsed);
            }
            _ => {}
        }
    }
}

/// What the core made of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its rules and their results.
    pub judgement: Judgement,
    /// The pool from now on.
    pub pool: PinnedPoolView,
}

impl Pager {
    /// Opens a pinned page pool. O(pools).
    ///
    /// # Errors
    /// See [`PinningError`].
    pub fn open_pinned_pool(&self, settings: PinningSettings) -> Result<PinnedPoolId, PinningError> {
        let mut control = self.shared().control.lock();
        let context = &mut control.context;
        self.shared().step(context, |core, _| core.open_pinned_pool(settings))
    }

    /// Closes a pool whose tasks are gone; what it pinned is on the global lists again. O(pages of its objects).
    ///
    /// # Errors
    /// See [`RemoveError`].
    pub fn close_pinned_pool(&self, pool: PinnedPoolId) -> Result<(), RemoveError> {
        let mut control = self.shared().control.lock();
        let context = &mut control.context;
        self.shared().step(context, |core, _| core.close_pinned_pool(pool))
    }

    /// Makes a task of a pool. Its swap-ins are measured, by looks at the thread's CPU clock in each of its faults.
    ///
    /// # Errors
    /// As [`Pager::add_task`].
    pub fn add_pinned_task(&self, pool: PinnedPoolId) -> Result<TaskHandle, CreateError> {
        let pinned = Some(Pinned::new(pool, false));
        self.make_task(Holder::Pool, pinned, |core| core.add_pinned_task(pool))
    }

    /// Makes a task that brings pages back for the others of a pool, with [`Bound::restore_next`]. It serves for
    /// nothing else: an access of its own that faults fails once the page is there.
    ///
    /// # Errors
    /// As [`Pager::add_task`].
    pub fn add_restorer(&self, pool: PinnedPoolId) -> Result<TaskHandle, CreateError> {
        let pinned = Some(Pinned::new(pool, true));
        self.make_task(Holder::Pool, pinned, |core| core.add_restorer(pool))
    }

    /// Reports a job for whoever ran it; see [`Bound::report_job`].
    ///
    /// # Errors
    /// As [`Bound::report_job`].
    pub fn report_job(&self, pool: PinnedPoolId, job: &JobReport) -> Result<Verdict, JobError> {
        let context = &mut self.shared().control.lock().context;
        let (judgement, view) = self.shared().step(context, |core, now| judge(core, now, pool, job))?;
        Ok(Verdict { judgement, pool: view })
    }
}

impl Bound<'_> {
    /// Reports a job of this task's pool that has ended, or whose period has: each once. O(1), and in no fault; to be
    /// called by the thread that runs the jobs, so that none can end meanwhile.
    ///
    /// # Errors
    /// [`JobError::Stale`] for a task without a pinned page pool.
    pub fn report_job(&self, job: &JobReport) -> Result<Verdict, JobError> {
        let shared = &self.task.shared;
        let row = &shared.tasks[self.task.id().index()];
        let mut local = row.local.get().ok_or(JobError::Stale)?.lock();
        let pool = local.pinned.ok_or(JobError::Stale)?.pool;
        let context = &mut local.context;
        let judged = shared.step(context, |core, now| judge(core, now, pool, job));
        row.counters.lock_wait.add(context.take_lock_wait());
        let (judgement, view) = judged?;
        Ok(Verdict { judgement, pool: view })
    }

    /// Brings back the next page that the last jobs of the pool's tasks needed and that is in the store. False if there
    /// is none. Waits for the store.
    pub fn restore_next(&self) -> bool {
        let shared = &self.task.shared;
        let row = &shared.tasks[self.task.id().index()];
        let Some(local) = row.local.get() else { return false };
        let mut local = local.lock();
        let Some(pinned) = local.pinned.filter(|pinned| pinned.restores) else {
            return false;
        };
        let next = shared.step(&mut local.context, |core, _| core.next_to_restore(pinned.pool));
        row.counters.lock_wait.add(local.context.take_lock_wait());
        let Some((object, page)) = next else { return false };
        let view = local.views.iter().find(|view| view.object == object.index()).copied();
        // The handler takes it.
        drop(local);
        let offset = (page.get() as usize).saturating_mul(PAGE_SIZE);
        let Some(view) = view.filter(|view| offset < view.length) else {
            return false;
        };
        let Some(mapping) = shared.object_at(view.object).mapping(view.row) else {
            return false;
        };
        let address = mapping.base().wrapping_add(offset);
        // SAFETY: the first word of a page in a region of the task that this thread acts as. That it ends as refused
        // says nothing: the fault is what was wanted.
        let _ = unsafe { access::load(address.cast()) };
        true
    }
}

fn judge(
    core: &mut Memory,
    now: Instant,
    pool: PinnedPoolId,
    job: &JobReport,
) -> Result<(Judgement, PinnedPoolView), JobError> {
    let judgement = core.handle_pinned_job_end(now, pool, job)?;
    Ok((judgement, core.pinned_pool(pool).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::Meter;
    use crate::counters::TaskCounters;
    use crate::mailbox::Answer;
    use freehold_core::effect::{Protection, Resolution};
    use std::time::Duration;

    #[test]
    fn a_fault_that_is_tried_again_is_one_with_the_next() {
        let map = |resolution| Answer::Map {
            epoch: crate::epoch::Epoch::from_bits(0),
            protection: Protection::ReadOnly,
            resolution,
        };
        let swap_in = map(Resolution::SwapIn { shared: false });
        let (counters, mut meter) = (TaskCounters::default(), Meter::default());
        for (answer, elapsed) in [(Answer::Retry, 10), (swap_in, 100), (map(Resolution::ZeroFill), 1_000)] {
            meter.answered(answer);
            meter.end_fault(&counters, Duration::from_nanos(elapsed / 10), elapsed);
        }
        // A try that came to nothing else is dropped with what it came to.
        meter.answered(Answer::Retry);
        meter.end_fault(&counters, Duration::from_nanos(1), 10_000);
        meter.answered(map(Resolution::Soft));
        meter.end_fault(&counters, Duration::from_nanos(1), 10_000);
        meter.answered(swap_in);
        meter.end_fault(&counters, Duration::from_nanos(5), 50);
        let times = counters.times();
        assert_eq!(
            (times.swap_ins, times.swap_cpu.get(), times.swap_elapsed.get()),
            (2, 16, 160)
        );
    }
}
