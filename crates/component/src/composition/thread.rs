//! Threads of a composition that call components.

use super::Time;
use freehold_linux::sched::{Deadline, DeadlineFlags, Policy};
use freehold_tmem::channel::ARGUMENTS;
use serde::Deserialize;
use std::time::Duration;

/// CPU time of a job that is told apart from none.
const LEAST_BUDGET: Duration = Duration::from_micros(10);

/// `[[thread]]`: a job each period is one call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// What it is called.
    pub name: String,
    /// The component that it calls.
    pub component: String,
    /// The number of the function.
    #[serde(default)]
    pub function: u32,
    /// The arguments; those that are left out are 0.
    #[serde(default)]
    pub arguments: Vec<u64>,
    /// Between releases of jobs.
    pub period: Time,
    /// From a release on; the period if left out.
    pub deadline: Option<Time>,
    /// SCHED_FIFO with this priority; an ordinary thread if left out.
    pub priority: Option<u32>,
    /// SCHED_DEADLINE with this CPU time for each job, in place of a priority.
    pub budget: Option<Time>,
}

impl Thread {
    /// How it is scheduled; `None` for an ordinary thread.
    pub(crate) fn class(&self) -> Option<Policy> {
        let by_deadline = self.budget.map(|budget| {
            Policy::Deadline(Deadline {
                runtime: budget.0,
                deadline: self.deadline.unwrap_or(self.period).0,
                period: self.period.0,
                flags: DeadlineFlags::NONE,
            })
        });
        by_deadline.or_else(|| self.priority.map(|priority| Policy::Fifo { priority }))
    }

    /// What is wrong with its numbers.
    pub(super) fn wrong_range(&self) -> Option<&'static str> {
        let deadline = self.deadline.unwrap_or(self.period).0;
        let fits = |budget: Time| budget.0 >= LEAST_BUDGET && budget.0 <= deadline && deadline <= self.period.0;
        if self.period.0.is_zero() || self.arguments.len() > ARGUMENTS {
            Some("a thread has a period above 0 and at most 6 arguments")
        } else if !self.priority.is_none_or(|priority| (1..=99).contains(&priority)) {
            Some("`priority` is 1 to 99")
        } else if self.budget.is_some() && self.priority.is_some() {
            Some("a thread has a `priority` or a `budget`, not both")
        } else if !self.budget.is_none_or(fits) {
            Some("`budget` is at least 10us, at most the deadline, and that at most the period")
        } else {
            None
        }
    }
}
