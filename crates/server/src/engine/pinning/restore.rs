//! Restore before release, beyond the paper: pages of pinned page pools are brought back between two jobs.
//!
//! A pool that restores has a task of the core that belongs to no thread. Between the end of a job and the next release
//! a pager thread has it fault on what the core names, a page at a time. What comes is in a frame then and in
//! nobody's page table: the job that touches it is served without the store, and the core learns that it was wanted.
//! Such reads are the last in the store's queue until a job waits for the same page.

use crate::engine::Engine;
use crate::error::EngineError;
use freehold_core::fact::{Access, Fault};
use freehold_core::id::{MappingId, ObjectId, PinnedPoolId, TaskId};
use freehold_core::units::Instant;
use freehold_linux::clock;

/// What a page is taken to cost before one was brought back. Nanoseconds.
const FIRST_COST: u64 = 100_000;
/// Between two looks where nothing is to be brought back, or a page is still on its way. Nanoseconds.
const PAUSE: u64 = 500_000;
/// The least that a page counts as costing, so that a fast store does not fill the pager thread's time. Nanoseconds.
const LEAST_COST: u64 = 20_000;

/// What brings pages back for one pool.
#[derive(Debug)]
pub(super) struct Restorer {
    pool: PinnedPoolId,
    /// What faults in place of the program's threads.
    task: TaskId,
    times: Times,
}

/// When it does. Times are nanoseconds of the monotonic clock.
#[derive(Debug)]
struct Times {
    /// Pages before each release, at most.
    quota: u32,
    left: u32,
    /// The next release; 0 for none.
    release: u64,
    look_at: u64,
    /// When the page that is on its way was asked for.
    since: Option<u64>,
    /// What a page takes, about.
    cost: u64,
}

impl Times {
    fn new(quota: u32) -> Self {
        Self {
            quota,
            left: 0,
            release: 0,
            look_at: 0,
            since: None,
            cost: FIRST_COST,
        }
    }

    /// A job has ended: it begins as late as its quota allows where each page takes twice what it did so far. Sooner,
    /// most would not have gone yet, or would go again.
    fn await_release(&mut self, now: u64, release: u64) {
        let lead = self.cost.saturating_mul(2).saturating_mul(u64::from(self.quota));
        self.left = self.quota;
        self.release = release;
        self.look_at = release.saturating_sub(lead).max(now);
    }

    fn waits_until(&self, now: u64) -> Option<u64> {
        (self.left > 0 && now < self.release).then_some(self.look_at.min(self.release))
    }

    /// Whether a page may be asked for now. If not, it looks again after a while.
    fn may_ask(&mut self, now: u64) -> bool {
        if self.waits_until(now).is_none_or(|look_at| look_at > now) {
            return false;
        }
        self.look_at = now.saturating_add(PAUSE);
        self.since.is_none()
    }

    fn has_asked(&mut self, now: u64) {
        self.since = Some(now);
        self.left -= 1;
    }

    /// Half of the time is left to others.
    fn has_come(&mut self, now: u64) {
        let Some(since) = self.since.take() else { return };
        let took = now.saturating_sub(since).max(LEAST_COST);
        self.cost = (7 * self.cost + took) / 8;
        self.look_at = now.saturating_add(took);
    }
}

impl Engine {
    /// The pool restores so many pages before each release.
    ///
    /// # Errors
    /// [`EngineError::Create`] where the core has no room for a task.
    pub(super) fn add_restorer(&mut self, pool: PinnedPoolId, quota: u32) -> Result<(), EngineError> {
        let task = self.core.add_restorer(pool)?;
        let times = Times::new(quota);
        self.pinned.restorers.push(Restorer { pool, task, times });
        Ok(())
    }

    /// The pool closes.
    pub(super) fn end_restorer(&mut self, pool: PinnedPoolId) {
        let restorers = &mut self.pinned.restorers;
        let Some(at) = restorers.iter().position(|restorer| restorer.pool == pool) else {
            return;
        };
        let task = restorers.swap_remove(at).task;
        self.drain();
        if self.core.remove_task(task).is_err() {
            self.notice("the core would not end a task that restores");
        }
        self.drain();
    }

    /// A job of the pool has ended, and the next is released then: a claim, so at most a period is believed.
    pub(super) fn await_release(&mut self, pool: PinnedPoolId, release: Instant, period: u64) {
        let now = self.step.now.get();
        let release = release.get().min(now.saturating_add(period));
        let mut restorers = self.pinned.restorers.iter_mut();
        if let Some(restorer) = restorers.find(|restorer| restorer.pool == pool) {
            restorer.times.await_release(now, release);
            // The thread that sleeps does not know of it.
            self.io.completions.wake(0);
        }
    }

    /// Whether the pool has pages brought back.
    pub(in crate::engine) fn restores(&self, pool: PinnedPoolId) -> bool {
        self.pinned.restorers.iter().any(|restorer| restorer.pool == pool)
    }

    /// Pages that the pool has had brought back.
    pub(super) fn restored(&self, pool: PinnedPoolId) -> u64 {
        let mut restorers = self.pinned.restorers.iter();
        let restorer = restorers.find(|restorer| restorer.pool == pool);
        let counts = restorer.and_then(|restorer| self.core.task(restorer.task));
        counts.map_or(0, |counts| counts.swap_ins)
    }

    /// What a restorer waited for has come, or will not. False where the task is none. O(pools).
    pub(in crate::engine) fn restorer_goes_on(&mut self, task: TaskId) -> bool {
        let mut restorers = self.pinned.restorers.iter_mut();
        let found = restorers.find(|restorer| restorer.task == task);
        found
            .map(|restorer| restorer.times.has_come(clock::now().as_nanos()))
            .is_some()
    }

    /// Asks for the next page of each pool that is to restore one now.
    pub(in crate::engine) fn restore(&mut self) {
        for at in 0..self.pinned.restorers.len() {
            self.restore_one(at);
        }
    }

    fn restore_one(&mut self, at: usize) {
        let now = self.step.now.get();
        let Some(restorer) = self.pinned.restorers.get_mut(at) else {
            return;
        };
        if !restorer.times.may_ask(now) {
            return;
        }
        let (pool, task) = (restorer.pool, restorer.task);
        let Some((object, page)) = self.core.next_to_restore(pool) else {
            return;
        };
        let Some(mapping) = self.mapping_in(pool, object) else {
            return;
        };
        if let Some(restorer) = self.pinned.restorers.get_mut(at) {
            restorer.times.has_asked(now);
        }
        let fault = Fault {
            mapping,
            page,
            access: Access::Read,
        };
        if self.core.handle_fault_for(self.step.now, fault, task).is_err() {
            self.restorer_goes_on(task);
        }
        self.settle();
    }

    /// When to look at what is to be restored, if anything is.
    pub(in crate::engine) fn restore_due(&self, pager: usize) -> Option<u64> {
        let now = self.step.now.get();
        let restorers = self.pinned.restorers.iter().filter(|_| pager == 0);
        restorers.filter_map(|restorer| restorer.times.waits_until(now)).min()
    }

    /// A mapping of the object by a task of the pool. O(its segments).
    fn mapping_in(&self, pool: PinnedPoolId, object: ObjectId) -> Option<MappingId> {
        let segments = self.object(object)?.segments.iter();
        let mut found = segments.filter_map(|at| self.client(at.client)?.space.get(&at.start));
        let of_pool = |task: &crate::engine::tasks::Task| task.pinned == Some(pool);
        found
            .find(|segment| self.tasks.at(segment.task.index()).is_some_and(of_pool))
            .map(|segment| segment.mapping)
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_COST, PAUSE, Times};

    #[test]
    fn it_begins_as_late_as_its_quota_allows_and_ends_at_the_release() {
        let mut times = Times::new(10);
        assert_eq!(times.waits_until(0), None);
        let release = 100 * FIRST_COST;
        let begin = release - 20 * FIRST_COST;
        times.await_release(5, release);
        assert_eq!((times.waits_until(5), times.may_ask(begin - 1)), (Some(begin), false));
        assert!(times.may_ask(begin));
        assert_eq!(times.waits_until(begin), Some(begin + PAUSE));
        assert!(!times.may_ask(release));
        // A job that ends late has what is left of its period.
        times.await_release(release - 1, release);
        assert!(times.may_ask(release - 1));
        times.left = 0;
        assert_eq!(times.waits_until(release - 1), None);
    }

    #[test]
    fn it_asks_for_one_page_at_a_time_and_leaves_as_much_time_to_others() {
        let mut times = Times::new(10);
        times.await_release(0, 10_000_000);
        assert!(times.may_ask(8_000_000));
        times.has_asked(8_000_000);
        assert!(!times.may_ask(8_000_000 + PAUSE), "it is still on its way");
        times.has_come(8_900_000);
        assert_eq!((times.cost, times.left), (200_000, 9));
        assert!(!times.may_ask(9_799_999) && times.may_ask(9_800_000));
        times.has_come(9_900_000);
        assert_eq!(times.cost, 200_000, "nothing was on its way");
    }
}
