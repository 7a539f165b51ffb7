//! Fixed priorities on one CPU: response-time analysis (Joseph and Pandya; Audsley), constrained deadlines.

use super::{Demand, listed, refusal};
use crate::error::Fault;
use crate::model::Class;
use crate::quantity::format_time;
use freehold_core::units::Duration;

/// Refuses the first fifo task whose worst response passes its deadline. Tasks of equal priority count as interfering
/// with each other; tasks of class deadline run above all fifo tasks, anywhere between release and deadline.
pub(super) fn one_cpu(cpu: u32, demands: &[Demand<'_>]) -> Result<(), Fault> {
    for task in demands {
        let Class::Fifo { priority } = task.class else { continue };
        let above = |other: &&Demand<'_>| match other.class {
            Class::Deadline => true,
            Class::Fifo { priority: of_other } => of_other >= priority && other.position != task.position,
            Class::BestEffort => false,
        };
        let above: Vec<Demand<'_>> = demands.iter().filter(above).copied().collect();
        if response(task, &above).is_some() {
            continue;
        }
        let deadline = format_time(Duration::new(task.deadline));
        let message = format!(
            "CPU admission fails on CPU {cpu}: the worst response of {} passes its deadline of {deadline} under {}; \
             shorten budgets, lengthen periods or move a task to another CPU",
            listed(&[*task]),
            if above.is_empty() {
                "nothing else".to_owned()
            } else {
                listed(&above)
            }
        );
        let concerned: Vec<Demand<'_>> = above.into_iter().chain([*task]).collect();
        return Err(refusal(message, &concerned));
    }
    Ok(())
}

/// Steps of the recurrence before a task counts as not schedulable; only a CPU full to the brim takes as many.
const MAX_STEPS: usize = 100_000;

/// The worst response time; `None` where it passes the deadline.
fn response(task: &Demand<'_>, above: &[Demand<'_>]) -> Option<u64> {
    let mut response = u128::from(task.budget);
    for _ in 0..MAX_STEPS {
        let interference: u128 = above.iter().map(|other| interference(other, response)).sum();
        let next = u128::from(task.budget) + interference;
        if next > u128::from(task.deadline) {
            return None;
        }
        if next == response {
            return u64::try_from(response).ok();
        }
        response = next;
    }
    None
}

/// The most CPU time `other` can take in a window of `window`.
fn interference(other: &Demand<'_>, window: u128) -> u128 {
    let jitter = match other.class {
        // It may finish one job at its deadline and start the next at its release.
        Class::Deadline => u128::from(other.deadline - other.budget),
        _ => 0,
    };
    (window + jitter).div_ceil(u128::from(other.period)) * u128::from(other.budget)
}
