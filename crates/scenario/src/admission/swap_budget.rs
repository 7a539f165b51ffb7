//! What CPU admission leaves for swap budgets.
//!
//! Tasks with a swap budget on the same CPUs get the same share of the bandwidth that the declared budgets leave, as
//! large as the tests of admission allow with everyone's swap budget at its highest. So no task's swap budget, however
//! it adapts, takes from what another was promised, and none depends on who asked first.

use super::{Cluster, check_cluster, clusters};
use crate::error::Warning;
use crate::model::{Class, Task};
use crate::pinning::Pinning;
use freehold_core::units::Duration;

/// The share of one CPU is found to one part in so many.
const PARTS: u64 = 1 << 20;

/// Sets the highest swap budget of every task that has one; of tasks admitted.
pub(crate) fn grant(tasks: &mut [Task], warnings: &mut Vec<Warning>) {
    let mut highest = vec![0; tasks.len()];
    let real_time = || {
        let all = tasks.iter().enumerate();
        all.filter(|(_, task)| task.class != Class::BestEffort)
    };
    let with_budget = |position: &usize| tasks[*position].pinning == Pinning::App;
    match clusters(real_time()) {
        Some(clusters) => {
            for cluster in &clusters {
                let share = share(cluster, |position| with_budget(&position));
                for demand in cluster.demands.iter().filter(|demand| with_budget(&demand.position)) {
                    highest[demand.position] = part(share, demand.deadline, demand.budget);
                }
            }
        }
        None => {
            for position in (0..tasks.len()).filter(with_budget) {
                let task = &tasks[position];
                let message = "may raise its swap budget to nothing: CPU admission is not proven".to_owned();
                warnings.push(Warning {
                    key: format!("task.{}.pinning", task.name),
                    message,
                });
            }
        }
    }
    for (task, highest) in tasks.iter_mut().zip(highest) {
        if let Some(app) = &mut task.app {
            app.highest_swap_budget = Duration::new(highest);
        }
    }
}

/// The largest share, in parts, with which the cluster's tests still pass.
fn share(cluster: &Cluster<'_>, with_budget: impl Fn(usize) -> bool) -> u64 {
    let passes = |share: u64| {
        let inflated = cluster.demands.iter().map(|demand| {
            let mut demand = *demand;
            if with_budget(demand.position) {
                demand.budget += part(share, demand.deadline, demand.budget);
            }
            demand
        });
        let inflated = Cluster {
            cpus: cluster.cpus,
            demands: inflated.collect(),
        };
        let mut unproven = Vec::new();
        check_cluster(&inflated, &mut unproven).is_ok()
    };
    let any = cluster.demands.iter().any(|demand| with_budget(demand.position));
    if !any {
        return 0;
    }
    let (mut good, mut bad) = (0, PARTS + 1);
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if passes(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

/// `share` parts of a window, at most what the budget leaves of it.
fn part(share: u64, window: u64, budget: u64) -> u64 {
    let part = u128::from(window) * u128::from(share) / u128::from(PARTS);
    u64::try_from(part)
        .unwrap_or(u64::MAX)
        .min(window.saturating_sub(budget))
}
