//! Jobs of a task with a pinned page pool, as the core is told of them: each once, when it ends, or when its period
//! does, by the thread that runs them ([`ReportedJobs`]). Nothing of it is done in a fault.

use std::time::Duration;

use freehold_core::pinning::{JobReport, SwapBudgetRule};
use freehold_core::units;
use freehold_linux::ThreadId;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_pager::{TaskTimes, Verdict};
use freehold_rt::budget::{self, BudgetError};
use freehold_rt::job::Job;
use freehold_rt::job_report::ReportedJobs;
use freehold_rt::pacer::Pacer;
use freehold_rt::timing::Timing;
use freehold_scenario::{Class, Judgements, Scenario};

use crate::placement::task_memory::TaskMemory;
use crate::restorer::Opener;
use crate::worker::delays_of;

/// What became of a task's reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportLog {
    pub(crate) judgements: Judgements,
    /// Reports that were not taken.
    pub(crate) failed: u64,
    /// Budgets that the kernel was given.
    pub(crate) budgets_set: u64,
    /// Budgets that it refused, and why the first.
    pub(crate) budgets_refused: u64,
    pub(crate) first_refusal: Option<BudgetError>,
}

/// What a thread had used when it last reported.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    cpu: Duration,
    times: TaskTimes,
}

/// One thread's reports.
#[derive(Debug)]
pub(crate) struct Reporter {
    reported: ReportedJobs,
    /// When the next is due even if no job ends; never, at first.
    due: Option<MonotonicTime>,
    used: Option<Used>,
    /// T_s.
    budget: Duration,
    /// What the kernel enforces in this period, and was asked to last; of other classes the task's declared budget.
    in_force: Duration,
    wanted: Duration,
    deadline: Duration,
    /// Whether the kernel enforces budgets of this class.
    enforced: bool,
    origin: MonotonicTime,
    duration: u64,
    told: ReportLog,
}

/// What a task with a pinned page pool does besides its jobs.
#[derive(Debug)]
pub(crate) struct PinnedTask<'a> {
    reporter: Reporter,
    opener: Option<Opener<'a>>,
}

impl<'a> PinnedTask<'a> {
    /// `opener`: tells who restores for the task, if anybody does.
    pub(crate) fn new(reporter: Reporter, opener: Option<Opener<'a>>) -> Self {
        Self { reporter, opener }
    }

    /// Time 0 is known.
    pub(crate) fn begin(&mut self, origin: MonotonicTime, timing: &Timing) {
        self.reporter.begin(origin, timing);
    }

    /// A job begins.
    pub(crate) fn begin_job(&mut self, pages: &TaskMemory<'_>) {
        if let Some(opener) = &self.opener {
            opener.job_begins();
        }
        self.reporter.begin_job(pages);
    }

    /// While a job is under way.
    pub(crate) fn look(&mut self, pages: &TaskMemory<'_>, pacer: &Pacer) {
        self.reporter.look(pages, pacer);
    }

    /// A job has ended.
    pub(crate) fn end_job(&mut self, pages: &TaskMemory<'_>, job: &Job, pacer: &Pacer) {
        self.reporter.end_job(pages, job, pacer);
        if let Some(opener) = &self.opener {
            opener.job_ended(pacer.upcoming());
        }
    }

    pub(crate) fn into_log(self) -> ReportLog {
        self.reporter.told
    }
}

impl Reporter {
    /// For a task that has a pinned page pool. `room`: judgements to keep one by one. Allocates all it needs.
    pub(crate) fn new(scenario: &Scenario, position: usize, room: Option<usize>) -> Option<Self> {
        let task = &scenario.tasks[position];
        let span = |span: Option<units::Duration>| Duration::from_nanos(span.map_or(0, units::Duration::get));
        task.pinning.pins().then(|| Self {
            reported: ReportedJobs::default(),
            due: None,
            used: None,
            budget: span(task.budget),
            in_force: span(task.budget),
            wanted: span(task.budget),
            deadline: span(task.deadline),
            enforced: task.class == Class::Deadline,
            origin: MonotonicTime::from_nanos(0),
            duration: scenario.duration.get(),
            told: ReportLog {
                judgements: Judgements::new(room),
                ..ReportLog::default()
            },
        })
    }

    /// Time 0 is known.
    fn begin(&mut self, origin: MonotonicTime, timing: &Timing) {
        self.origin = origin;
        self.due = self.reported.due(timing);
    }

    /// A job begins: what is used from the first on counts.
    fn begin_job(&mut self, pages: &TaskMemory<'_>) {
        if self.used.is_none() {
            self.used = Some(Used {
                cpu: clock::thread_cpu_time(),
                times: pages.swap_times().unwrap_or_default(),
            });
        }
    }

    /// While a job is under way: reports those whose period is over. One look at the clock, where none is.
    fn look(&mut self, pages: &TaskMemory<'_>, pacer: &Pacer) {
        if self.due.is_none_or(|due| due > clock::now()) {
            return;
        }
        let delays = delays_of(&pages.times());
        while let Some(job) = self.reported.unfinished(pacer, &delays) {
            self.report(pages, (&job, true), None);
        }
        self.due = self.reported.due(pacer.timing());
    }

    /// A job has ended.
    fn end_job(&mut self, pages: &TaskMemory<'_>, job: &Job, pacer: &Pacer) {
        // Its period may have ended behind its last access.
        let over = self.due.is_some_and(|due| due.as_nanos() < job.finish);
        if self.reported.ended(job) {
            self.report(pages, (job, job.late || over), pacer.upcoming());
            self.due = self.reported.due(pacer.timing());
        }
    }

    fn report(&mut self, pages: &TaskMemory<'_>, (job, missed): (&Job, bool), next: Option<MonotonicTime>) {
        let Some(times) = pages.swap_times() else {
            self.told.failed += 1;
            return;
        };
        let used = Used {
            cpu: clock::thread_cpu_time(),
            times,
        };
        let before = self.used.replace(used).unwrap_or(used);
        let report = self.facts(before, used, (job, missed), pages.lumps_faults());
        let Some(verdict) = pages.report_job(&report, next) else {
            self.told.failed += 1;
            return;
        };
        let at = clock::now().as_nanos().saturating_sub(self.origin.as_nanos());
        let Verdict { judgement, pool } = verdict;
        self.told
            .judgements
            .note(at.min(self.duration), &report, &judgement, &pool);
        if judgement.swap_budget_rule != SwapBudgetRule::Off {
            let swap_budget = Duration::from_nanos(judgement.swap_budget.get());
            self.give(self.budget.saturating_add(swap_budget));
        }
    }

    /// What the core is told. `lumped`: of the cost of faults, swap-ins have as large a part as they are of the faults.
    fn facts(&self, before: Used, used: Used, (job, missed): (&Job, bool), lumped: bool) -> JobReport {
        let running = used.cpu.saturating_sub(before.cpu);
        let swap_ins = used.times.swap_ins.saturating_sub(before.times.swap_ins);
        let faults = used.times.faults.saturating_sub(before.times.faults).max(1);
        let since = |now: units::Duration, then: units::Duration| {
            let span = u128::from(now.saturating_sub(then).get());
            let part = u128::from(if lumped { swap_ins.min(faults) } else { faults });
            let span = span * part / u128::from(faults);
            units::Duration::new(u64::try_from(span).unwrap_or(u64::MAX))
        };
        let of_miss = |span: Duration| duration(if missed { span } else { Duration::ZERO });
        let memory = job.split.store_wait + job.split.fault_service;
        JobReport {
            missed,
            running: duration(running),
            remaining: duration(self.in_force.saturating_sub(running)),
            swap_ins: u32::try_from(swap_ins).unwrap_or(u32::MAX),
            swap_time: since(used.times.swap_cpu, before.times.swap_cpu),
            swap_delay: since(used.times.swap_elapsed, before.times.swap_elapsed),
            delay: of_miss(memory + job.split.cpu_wait + job.split.lock_wait),
            memory_delay: of_miss(memory),
            slack: duration(if missed {
                Duration::ZERO
            } else {
                self.deadline.saturating_sub(job.response())
            }),
        }
    }

    /// The budget from the next period on: the kernel enforces that of the deadline class. For others it is only in the
    /// core's account, as in the simulator.
    fn give(&mut self, budget: Duration) {
        if !self.enforced || std::mem::replace(&mut self.wanted, budget) == budget {
            return;
        }
        match budget::set(ThreadId::current(), budget) {
            Ok(()) => {
                self.in_force = budget;
                self.told.budgets_set += 1;
            }
            Err(reason) => {
                self.told.budgets_refused += 1;
                self.told.first_refusal.get_or_insert(reason);
            }
        }
    }
}

fn duration(span: Duration) -> units::Duration {
    units::Duration::new(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
