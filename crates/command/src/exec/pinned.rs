//! A pinned page pool for a program, and what its jobs mean for it.

use std::sync::Arc;
use std::time::Duration;

use freehold_client::{JobReport, Judgement, PinnedPool, SwapBudgetRule};
use freehold_core::units;
use freehold_linux::ThreadId;
use freehold_linux::sched::{self, Deadline, DeadlineFlags, Policy, set_policy};
use freehold_rt::job_detection::DetectedJob;
use serde::Serialize;

use super::deadline::{Class, class_name};
use crate::output;

/// A pool, and what is given to its program's main thread.
#[derive(Debug)]
pub struct Pinned {
    pool: Arc<PinnedPool>,
    thread: ThreadId,
    period: Duration,
    /// T_s.
    budget: Duration,
    /// T_s + t, as the kernel was told.
    given: Duration,
    /// Why budgets are not changed, once that is known; said once.
    not_given: Option<String>,
    pub(super) counts: Counts,
}

/// Sums over judgements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) judged: u64,
    pub(super) failed: u64,
    pub(super) not_given: u64,
    last: Option<Row>,
}

/// What followed from a job, in its row of the report.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Row {
    capacity_pages: u32,
    capacity_rule: &'static str,
    pinned_pages: u32,
    swap_budget_ns: u64,
    swap_budget_rule: &'static str,
    /// What the kernel enforces from now on; null where it does not.
    budget_ns: Option<u64>,
    /// Pages brought back before releases so far.
    restored_pages: u64,
}

impl Counts {
    /// For people, at the end.
    pub(super) fn text(&self) -> String {
        let mut text = format!("; {} judged", self.judged);
        if let Some(last) = self.last {
            text.push_str(&format!(
                ", at last {} pages pinned of at most {}, swap budget {}",
                last.pinned_pages,
                last.capacity_pages,
                output::human_time(last.swap_budget_ns)
            ));
            if last.restored_pages > 0 {
                text.push_str(&format!(", {} brought back before releases", last.restored_pages));
            }
        }
        if self.failed > 0 {
            text.push_str(&format!(", {} judgements failed", self.failed));
        }
        if self.not_given > 0 {
            text.push_str(&format!(", {} changes of the budget not carried out", self.not_given));
        }
        text
    }
}

impl Pinned {
    /// For a thread that has been started with `budget`, and has that from the kernel if `class` says so.
    pub fn new(pool: &Arc<PinnedPool>, thread: ThreadId, (period, budget): (Duration, Duration), class: Class) -> Self {
        Self {
            pool: Arc::clone(pool),
            thread,
            period,
            budget,
            given: budget,
            not_given: (class == Class::None).then(|| "it was not put into the deadline class".to_owned()),
            counts: Counts::default(),
        }
    }

    /// Reports a job and carries out what follows. `swap_ins` are the process's since the job before.
    pub(super) fn judge(&mut self, job: &DetectedJob, swap_ins: u64) -> Option<Row> {
        let periods = u32::try_from(job.periods).unwrap_or(u32::MAX);
        let next = Duration::from_nanos(job.release).saturating_add(self.period.saturating_mul(periods));
        let next = job.finish.map(|_| next);
        let judged = match self.pool.judge(&self.report(job, swap_ins), next) {
            Ok(judged) => judged,
            Err(error) => {
                if self.counts.failed == 0 {
                    output::note(&format!("freehold: a job could not be judged: {error}"));
                }
                self.counts.failed += 1;
                return None;
            }
        };
        let judgement = judged.judgement;
        self.give(&judgement);
        let row = Row {
            capacity_pages: judgement.capacity.get(),
            capacity_rule: judgement.capacity_rule.name(),
            pinned_pages: judged.pinned.get(),
            swap_budget_ns: judgement.swap_budget.get(),
            swap_budget_rule: judgement.swap_budget_rule.name(),
            budget_ns: self.not_given.is_none().then(|| nanos(self.given)),
            restored_pages: judged.restored,
        };
        self.counts.judged += 1;
        self.counts.last = Some(row);
        Some(row)
    }

    /// A job as Algorithms 1 and 3 see it. Of the time in page faults, swap-ins have as large a part as they are of the
    /// faults in which the thread waited: the kernel does not tell them from other faults.
    fn report(&self, job: &DetectedJob, swap_ins: u64) -> JobReport {
        let part = |span: u64| {
            let waits = job.fault_waits.max(1);
            let share = u128::from(span) * u128::from(swap_ins.min(waits)) / u128::from(waits);
            units::Duration::new(u64::try_from(share).unwrap_or(u64::MAX))
        };
        let in_faults = job.fault_wait.saturating_add(job.fault_cpu);
        let (delay, memory) = if job.late {
            (
                job.cpu_wait.saturating_add(job.call_wait).saturating_add(in_faults),
                in_faults,
            )
        } else {
            (0, 0)
        };
        JobReport {
            missed: job.late,
            running: units::Duration::new(job.cpu),
            remaining: units::Duration::new(nanos(self.given).saturating_sub(job.cpu)),
            swap_ins: u32::try_from(swap_ins).unwrap_or(u32::MAX),
            swap_time: part(job.fault_cpu),
            swap_delay: part(in_faults),
            delay: units::Duration::new(delay),
            memory_delay: units::Duration::new(memory),
            slack: units::Duration::new(nanos(self.period).saturating_sub(job.response())),
        }
    }

    /// Has the kernel enforce the budget that was decided on.
    fn give(&mut self, judgement: &Judgement) {
        let wanted = self
            .budget
            .saturating_add(Duration::from_nanos(judgement.swap_budget.get()));
        if judgement.swap_budget_rule == SwapBudgetRule::Off {
            return;
        }
        let set = match sched::policy(self.thread) {
            Ok(Policy::Deadline(class)) if class.runtime == wanted => Ok(()),
            Ok(Policy::Deadline(class)) => set_policy(
                self.thread,
                Policy::Deadline(Deadline {
                    runtime: wanted,
                    flags: DeadlineFlags::NONE,
                    ..class
                }),
            )
            .map_err(|error| error.to_string()),
            Ok(other) => Err(format!("its class is {}", class_name(other))),
            // It has ended: nobody needs the budget any more.
            Err(_) => return,
        };
        match set {
            Ok(()) => {
                self.given = wanted;
                self.not_given = None;
            }
            Err(why) => {
                self.counts.not_given += 1;
                if self.not_given.is_none() {
                    output::note(&format!(
                        "freehold: thread {} keeps its budget of {:?}, {wanted:?} is not given: {why}",
                        self.thread.get(),
                        self.given
                    ));
                }
                self.not_given = Some(why);
            }
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
