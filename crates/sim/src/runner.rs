//! One task as the engine runs it.

use freehold_core::pinning::JobReport;
use freehold_core::units::Duration;
use freehold_scenario::{AccessGenerator, Scenario, TaskIndex};

use crate::account::Account;
use crate::history::Activity;
use crate::job::{Job, Shape};
use crate::options::Options;
use crate::pinned::{JobFacts, Pinned};
use crate::schedule::{Policy, Rank};
use crate::tape::Tape;

/// A task's state.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) policy: Policy,
    pub(crate) tape: Tape,
    pub(crate) account: Account,
    pub(crate) job: Option<Job>,
    /// Where it has a pinned page pool.
    pub(crate) pinned: Option<Pinned>,
    /// CPU time declared for a job.
    declared: u64,
    /// A fault of it has not ended.
    pub(crate) waits: bool,
    /// It waits off the CPU.
    pub(crate) suspended: bool,
    /// The next release.
    pub(crate) next_release: Option<u64>,
    shape: Shape,
    period: Option<u64>,
    stop: u64,
    may_use: Vec<bool>,
}

impl Runner {
    /// From the next period on the task has so much CPU time beside its own.
    pub(crate) fn has_swap_budget(&mut self, swap_budget: u64) {
        self.policy.set_budget(self.declared.saturating_add(swap_budget));
    }

    pub(crate) fn new(scenario: &Scenario, position: usize, takes_part: bool, options: &Options) -> Self {
        let task = &scenario.tasks[position];
        let index = TaskIndex::new(u16::try_from(position).unwrap_or(u16::MAX));
        let cpus = usize::try_from(scenario.cpus).unwrap_or(1);
        let first = task.first_release();
        let releases = takes_part && !task.is_idle() && first < task.stop;
        Self {
            policy: Policy::new(task),
            tape: Tape::new(AccessGenerator::new(scenario, index, scenario.seed)),
            account: Account::new(task.deadline.map(Duration::get), options.history, options.recording),
            job: None,
            pinned: task
                .pinning
                .pins()
                .then(|| Pinned::new(options.recording.map(|room| room.per_task_jobs))),
            declared: task.budget.map_or(0, Duration::get),
            waits: false,
            suspended: false,
            next_release: releases.then_some(first.get()),
            shape: Shape::of(task, &scenario.costs),
            period: task.period.map(Duration::get),
            stop: task.stop.get(),
            may_use: (0..cpus)
                .map(|cpu| task.cpus.iter().any(|used| *used as usize == cpu))
                .collect(),
        }
    }

    /// Its claim to a CPU, if it has one.
    pub(crate) fn rank(&self) -> Option<Rank> {
        if self.job.is_none() || self.suspended {
            None
        } else {
            self.policy.rank()
        }
    }

    pub(crate) fn may_use(&self, cpu: usize) -> bool {
        self.may_use.get(cpu).copied().unwrap_or(false)
    }

    /// A release at `now`. Returns whether the job begins at once.
    pub(crate) fn release(&mut self, now: u64) -> bool {
        self.account.release(now);
        let next = self.period.and_then(|period| now.checked_add(period));
        self.next_release = next.filter(|next| *next < self.stop);
        self.job.is_none()
    }

    /// Begins the oldest open job.
    pub(crate) fn begin_job(&mut self) {
        self.tape.begin_job();
        self.job = Some(Job::new(self.shape));
    }

    /// Ends the job under way. Returns whether another one is to begin at once.
    pub(crate) fn end_job(&mut self, now: u64) -> bool {
        self.job = None;
        self.account.end_job(now);
        if self.period.is_none() && now < self.stop {
            self.account.release(now);
        }
        self.account.open() > 0
    }

    /// The report of a job, the accounts being up to date; `None` without a pinned page pool.
    pub(crate) fn report(&mut self, facts: JobFacts) -> Option<JobReport> {
        let (cpu, budget) = (self.account.ledger.cpu(), self.policy.budget().unwrap_or(self.declared));
        self.pinned.as_mut().map(|pinned| pinned.report(cpu, budget, facts))
    }

    pub(crate) fn is_finished(&self) -> bool {
        !self.waits && self.job.is_some_and(|job| job.is_finished(self.tape.made()))
    }

    /// What it does, on this CPU or on none.
    pub(crate) fn activity(&self, cpu: Option<usize>) -> Activity {
        match cpu {
            _ if self.job.is_none() => Activity::Asleep,
            _ if self.suspended => Activity::Suspended,
            Some(cpu) if self.waits => Activity::Spinning { cpu },
            Some(cpu) => Activity::Running { cpu },
            None => Activity::Ready,
        }
    }

    /// The next instant at which it wants to be looked at, whoever runs.
    pub(crate) fn timer(&self) -> Option<u64> {
        let times = [self.next_release, self.policy.timer()];
        times.into_iter().flatten().min()
    }
}
