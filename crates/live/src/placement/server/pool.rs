//! Pinned page pools of a server's tasks.

use std::time::Duration;

use freehold_client::{Connection, Observer, PinnedPool, RequestError, Reservation};
use freehold_core::pinning::{JobReport, PinnedPoolView, PinningSettings};
use freehold_core::units::PageCount;
use freehold_linux::clock::MonotonicTime;
use freehold_pager::Verdict;
use freehold_scenario::Scenario;

/// The pool of one task. The task's thread reports through a connection that no other thread uses.
#[derive(Debug)]
pub(crate) struct ServedPool {
    pool: PinnedPool,
}

impl ServedPool {
    /// With the highest capacity as the most that it may pin at any time.
    pub(super) fn open(observer: &Observer, name: &str, settings: PinningSettings) -> Result<Self, RequestError> {
        let settings = PinningSettings {
            initial_capacity: settings.initial_capacity.min(settings.highest_capacity),
            ..settings
        };
        Ok(Self {
            pool: observer.open_pool(name, settings)?,
        })
    }

    /// What a task of this connection joins it by.
    pub(super) fn join(&self, connection: &Connection) -> Result<Reservation, RequestError> {
        connection.join(self.pool.ticket())
    }

    /// Reports a job, and waits for the answer. `next`: when the next is released, if this one has ended.
    pub(crate) fn judge(&self, report: &JobReport, next: Option<MonotonicTime>) -> Result<Verdict, RequestError> {
        let next = next.map(|next| Duration::from_nanos(next.as_nanos()));
        let judged = self.pool.judge(report, next)?;
        let judgement = judged.judgement;
        Ok(Verdict {
            judgement,
            // Of its lists the answer says the sum.
            pool: PinnedPoolView {
                capacity: judgement.capacity,
                active: judged.pinned,
                swap_budget: judgement.swap_budget,
                ..PinnedPoolView::default()
            },
        })
    }
}

/// An even share of what no reservation has: a server wants to know what a pool may pin at most, and what is one pool's
/// can be no other's.
pub(super) fn even_share(scenario: &Scenario) -> PageCount {
    let reserved: u64 = (scenario.reservations.iter())
        .map(|reservation| u64::from(reservation.capacity.get()))
        .sum();
    let left = u64::from(scenario.pool.get()).saturating_sub(reserved);
    let pools = scenario.tasks.iter().filter(|task| task.pinning.pins()).count() as u64;
    PageCount::new(u32::try_from(left / pools.max(1)).unwrap_or(u32::MAX).max(1))
}
