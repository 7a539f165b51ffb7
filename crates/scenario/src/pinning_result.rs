//! What a run's results say of the judgements on a task with a pinned page pool.

use freehold_core::pinning::{JobReport, Judgement, PinnedPoolView};

use crate::recording::{PinningSpan, keep};
use crate::results::TaskResult;

/// The reports of one task's jobs and what the core made of them, summed up; kept one by one where that is wanted.
#[derive(Clone, Debug, Default)]
pub struct Judgements {
    reports: u64,
    pinned_sum: u64,
    swap_ins_max: u64,
    record: Option<Record>,
}

#[derive(Clone, Debug)]
struct Record {
    list: Vec<PinningSpan>,
    room: usize,
    lost: u64,
}

impl Judgements {
    /// `room`: judgements to keep one by one, if any are wanted. Allocates all it needs.
    #[must_use]
    pub fn new(room: Option<usize>) -> Self {
        let record = room.map(|room| Record {
            list: Vec::with_capacity(room),
            room,
            lost: 0,
        });
        Self {
            record,
            ..Self::default()
        }
    }

    /// A job was judged, `at_ns` after time 0; `view` is the pool from then on. O(1), without allocation.
    pub fn note(&mut self, at_ns: u64, report: &JobReport, judgement: &Judgement, view: &PinnedPoolView) {
        let pinned = u64::from(view.active.get()) + u64::from(view.inactive.get());
        self.reports += 1;
        self.pinned_sum += pinned;
        self.swap_ins_max = self.swap_ins_max.max(u64::from(report.swap_ins));
        if let Some(record) = &mut self.record {
            let span = PinningSpan {
                at_ns,
                missed: report.missed,
                running_ns: report.running.get(),
                swap_ins: u64::from(report.swap_ins),
                swap_time_ns: report.swap_time.get(),
                delay_ns: report.delay.get(),
                memory_delay_ns: report.memory_delay.get(),
                pinned,
                capacity: u64::from(judgement.capacity.get()),
                capacity_rule: judgement.capacity_rule,
                swap_budget_ns: judgement.swap_budget.get(),
                swap_budget_rule: judgement.swap_budget_rule,
            };
            keep(&mut record.list, record.room, &mut record.lost, span);
        }
    }

    /// Jobs judged so far.
    #[must_use]
    pub const fn reports(&self) -> u64 {
        self.reports
    }

    /// Those kept one by one, in order, and how many found no room.
    #[must_use]
    pub fn kept(&self) -> (&[PinningSpan], u64) {
        let record = self.record.as_ref();
        record.map_or((&[], 0), |record| (&record.list, record.lost))
    }

    /// Fills in what is known over all jobs.
    pub fn set_result(&self, result: &mut TaskResult) {
        #[allow(clippy::cast_precision_loss, reason = "counts of pages and jobs, far below 2^53")]
        if self.reports > 0 {
            result.pinned.pinned_pages_mean = self.pinned_sum as f64 / self.reports as f64;
        }
        result.pinned.job_swap_ins_max = self.swap_ins_max;
    }
}
