//! What happened in a run, for pictures and traces: one model, filled by both engines, read by whoever draws.
//!
//! Plain data. All times are nanoseconds since the run's time 0; intervals are half-open. Every list is bounded by a
//! [`Capacity`]; what found no room is counted in [`Recording::lost`], and pictures say so. Regions, reservations and
//! tasks are meant by their position in the scenario.
//!
//! ```
//! use freehold_scenario::recording::{Capacity, Recording, keep};
//! let mut recording = Recording::new(2);
//! let room = Capacity { evictions: 0, ..Capacity::default() };
//! assert_eq!((recording.tasks.len(), recording.lost), (2, 0));
//! keep(&mut recording.tasks[0].spans, room.per_task_spans, &mut recording.lost, Default::default());
//! assert_eq!((recording.tasks[0].spans.len(), recording.lost), (1, 0));
//! ```

use freehold_core::pinning::{CapacityRule, SwapBudgetRule};

use crate::results::Delays;

pub use freehold_report::recorded::{EvictionReason, FaultKind};
pub use freehold_report::reservation::ReservationCounts;

/// A run as it happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// In the scenario's order.
    pub tasks: Vec<TaskRecording>,
    /// The lists, ascending in time.
    pub samples: Vec<Sample>,
    /// Pages evicted, ascending in time. Demotions are many and may be left out.
    pub evictions: Vec<Eviction>,
    /// Reads from and writes to the store, ascending in the time of their begin.
    pub transfers: Vec<Transfer>,
    /// Holds of the core's lock, ascending in time; live only.
    pub lock_holds: Vec<LockHold>,
    /// Events that found no room.
    pub lost: u64,
}

/// What one task did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskRecording {
    /// Jobs, ascending in number.
    pub jobs: Vec<JobSpan>,
    /// What the task did when, ascending; gaps are sleep.
    pub spans: Vec<Span>,
    /// Faults, ascending in the time of their begin.
    pub faults: Vec<FaultSpan>,
    /// What became of its pinned page pool after each job, ascending in time; empty without one.
    pub pinning: Vec<PinningSpan>,
    /// Judgements after those that found no room; in [`Recording::lost`] too.
    pub pinning_lost: u64,
}

/// A job as it was judged, and the pinned page pool from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinningSpan {
    /// When.
    pub at_ns: u64,
    /// Whether the job missed its deadline.
    pub missed: bool,
    /// CPU time charged to it.
    pub running_ns: u64,
    /// Pages it had read back from the store.
    pub swap_ins: u64,
    /// CPU time charged to it for that.
    pub swap_time_ns: u64,
    /// What delayed a job that missed.
    pub delay_ns: u64,
    /// The memory's share of that: store and fault service.
    pub memory_delay_ns: u64,
    /// Pages pinned.
    pub pinned: u64,
    /// The capacity.
    pub capacity: u64,
    /// The rule of Algorithm 1 that set it.
    pub capacity_rule: CapacityRule,
    /// The swap budget.
    pub swap_budget_ns: u64,
    /// The rule of Algorithm 3 that set it.
    pub swap_budget_rule: SwapBudgetRule,
}

/// One job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobSpan {
    /// Its number, from 0.
    pub number: u64,
    /// When it was released.
    pub release_ns: u64,
    /// When it began to run: not before its release, nor before the end of the job before.
    pub begin_ns: u64,
    /// When it ended; the end of the run where it did not.
    pub end_ns: u64,
    /// Its absolute deadline; `None` without.
    pub deadline_ns: Option<u64>,
    /// Whether it ended late, or is unfinished past its deadline.
    pub missed: bool,
    /// Whether it ended.
    pub finished: bool,
    /// Where its time went.
    pub delays: Delays,
}

impl JobSpan {
    /// From release to end, ns.
    #[must_use]
    pub fn response_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.release_ns)
    }

    /// By how much it ended past its deadline, ns; 0 where it did not, or has none.
    #[must_use]
    pub fn tardiness_ns(&self) -> u64 {
        self.deadline_ns
            .map_or(0, |deadline| self.end_ns.saturating_sub(deadline))
    }
}

/// What a task does while it does not sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// It runs.
    #[default]
    Running,
    /// Ready, but another task runs, or its budget is used up.
    Ready,
    /// It has a CPU, on which it spins for the store.
    StoreSpin,
    /// It has suspended itself for the store.
    StoreWait,
}

/// What a task did for some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// From when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// What it did.
    pub state: TaskState,
}

/// A fault, from the access that faulted until the task went on; its service is part of it where the engine can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultSpan {
    /// When the access faulted.
    pub from_ns: u64,
    /// When the fault was over.
    pub to_ns: u64,
    /// The region.
    pub region: u16,
    /// The page of the region.
    pub page: u32,
    /// How it ended.
    pub kind: FaultKind,
}

/// The lists at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at_ns: u64,
    /// In the scenario's order.
    pub reservations: Vec<ReservationCounts>,
    /// Frames of the pool that nobody holds.
    pub pool_free: u64,
    /// Frames held by reservations, and pages of tasks without one.
    pub pool_used: u64,
    /// Pages resident of each region, in the scenario's order.
    pub regions_resident: Vec<u64>,
}

/// A page that went from a holder's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    /// When.
    pub at_ns: u64,
    /// The region.
    pub region: u16,
    /// The page of the region.
    pub page: u32,
    /// Whose page it was; `None`: the pool's, or everybody's.
    pub reservation: Option<u16>,
    /// Why.
    pub reason: EvictionReason,
    /// Whether its content is written to the store.
    pub write_back: bool,
}

/// Which way a page goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransferKind {
    /// From the store.
    #[default]
    Read,
    /// To the store.
    Write,
}

/// One page read from or written to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// When it was asked for.
    pub from_ns: u64,
    /// When it ended; the end of the run where it did not.
    pub to_ns: u64,
    /// The region.
    pub region: u16,
    /// The page of the region.
    pub page: u32,
    /// Which way.
    pub kind: TransferKind,
    /// Whether it failed.
    pub failed: bool,
    /// On whose account, where that is known.
    pub task: Option<u16>,
}

/// One hold of the core's lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockHold {
    /// When it was taken.
    pub from_ns: u64,
    /// When it was given back.
    pub to_ns: u64,
    /// How long the holder had waited for it before, ns.
    pub waited_ns: u64,
    /// Who held it; `None`: none of the scenario's tasks.
    pub task: Option<u16>,
}

/// How many events of each kind a recording keeps: the first ones. With the default a task takes about 5 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Jobs of each task.
    pub per_task_jobs: usize,
    /// Spans of each task.
    pub per_task_spans: usize,
    /// Faults of each task.
    pub per_task_faults: usize,
    /// Samples, spread over the whole run.
    pub samples: usize,
    /// Evictions.
    pub evictions: usize,
    /// Transfers.
    pub transfers: usize,
    /// Holds of the core's lock.
    pub lock_holds: usize,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            per_task_jobs: 10_000,
            per_task_spans: 50_000,
            per_task_faults: 100_000,
            samples: 1_000,
            evictions: 100_000,
            transfers: 100_000,
            lock_holds: 100_000,
        }
    }
}

/// Samples of the lists of a live run are no closer than this, ns.
const LEAST_STEP_NS: u64 = 2_000_000;

impl Capacity {
    /// The time between two samples of a live run of this length, so that they are spread over all of it, ns.
    #[must_use]
    pub fn sample_step_ns(&self, duration_ns: u64) -> u64 {
        let steps = u64::try_from(self.samples.saturating_sub(1).max(1)).unwrap_or(u64::MAX);
        (duration_ns / steps).max(LEAST_STEP_NS)
    }
}

impl Recording {
    /// An empty recording of so many tasks.
    #[must_use]
    pub fn new(tasks: usize) -> Self {
        Self {
            tasks: vec![TaskRecording::default(); tasks],
            ..Self::default()
        }
    }

    /// Brings every list into its order; for an engine that collects from several places.
    pub fn sort(&mut self) {
        for task in &mut self.tasks {
            task.jobs.sort_by_key(|job| job.number);
            task.spans.sort_by_key(|span| span.from_ns);
            task.faults.sort_by_key(|fault| fault.from_ns);
        }
        self.samples.sort_by_key(|sample| sample.at_ns);
        self.evictions.sort_by_key(|eviction| eviction.at_ns);
        self.transfers.sort_by_key(|transfer| transfer.from_ns);
        self.lock_holds.sort_by_key(|hold| hold.from_ns);
    }
}

/// Puts `item` in `list` while it has fewer than `room`; counts it in `lost` otherwise.
pub fn keep<T>(list: &mut Vec<T>, room: usize, lost: &mut u64, item: T) {
    if list.len() < room {
        list.push(item);
    } else {
        *lost = lost.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let (mut list, mut lost) = (Vec::new(), 0);
        for number in 0..5 {
            keep(&mut list, 3, &mut lost, number);
        }
        assert_eq!((list, lost), (vec![0, 1, 2], 2));
        let mut lost = u64::MAX;
        keep(&mut Vec::new(), 0, &mut lost, 0);
        assert_eq!(lost, u64::MAX);
    }

    #[test]
    fn sorting_brings_lists_into_their_order() {
        let mut recording = Recording::new(1);
        let fault = |from_ns| FaultSpan {
            from_ns,
            ..FaultSpan::default()
        };
        recording.tasks[0].faults = [3, 1, 2].map(fault).to_vec();
        recording.sort();
        assert_eq!(recording.tasks[0].faults, [1, 2, 3].map(fault).to_vec());
    }

    #[test]
    fn late_is_past_the_deadline() {
        let job = |deadline_ns| JobSpan {
            release_ns: 10,
            end_ns: 60,
            deadline_ns,
            ..JobSpan::default()
        };
        assert_eq!(job(Some(50)).tardiness_ns(), 10);
        assert_eq!(job(Some(70)).tardiness_ns(), 0);
        assert_eq!((job(None).tardiness_ns(), job(None).response_ns()), (0, 50));
    }
}
