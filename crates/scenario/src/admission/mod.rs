//! CPU admission (law 8): a test that is sound for the scheduler used, on the declared budgets.
//!
//! A budget counts everything a job takes, waits for the store included; counting a wait as computation keeps every
//! test here sound for tasks that suspend themselves. Tasks are taken to be present all the time and released at
//! the worst instant. Best-effort tasks run below all others and are not tested.

mod deadline;
mod fixed;
mod swap_budget;

use crate::error::{Fault, Warning};
use crate::model::{Class, Task};
use freehold_core::units::Duration;

pub(crate) use swap_budget::grant as grant_swap_budgets;

/// What a test knows of one task with a budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand<'a> {
    position: usize,
    name: &'a str,
    class: Class,
    budget: u64,
    period: u64,
    deadline: u64,
}

/// Tasks that share a set of CPUs and compete with nobody outside it.
#[derive(Debug)]
struct Cluster<'a> {
    cpus: &'a [u32],
    demands: Vec<Demand<'a>>,
}

/// Refuses what the declared budgets prove impossible or, where a sound test exists, do not prove possible; warns of
/// what cannot be tested.
pub(crate) fn check(machine: u32, tasks: &[Task], warnings: &mut Vec<Warning>) -> Result<(), Fault> {
    let real_time = || {
        tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| task.class != Class::BestEffort)
    };
    for (_, task) in real_time().filter(|(_, task)| task.budget.is_none()) {
        let message = "declares no budget: its deadlines, and those of tasks below it, are not proven".to_owned();
        warnings.push(Warning {
            key: format!("task.{}.budget", task.name),
            message,
        });
    }
    let Some(clusters) = clusters(real_time()) else {
        let message = format!(
            "CPU admission is not proven: real-time tasks have `cpus` that overlap without being equal \
             (machine of {machine} CPUs)"
        );
        warnings.push(Warning {
            key: "task.cpus".to_owned(),
            message,
        });
        return Ok(());
    };
    clusters.iter().try_for_each(|cluster| check_cluster(cluster, warnings))
}

/// The sets of CPUs that tasks use, where any two are equal or disjoint.
fn clusters<'a>(tasks: impl Iterator<Item = (usize, &'a Task)>) -> Option<Vec<Cluster<'a>>> {
    let mut clusters: Vec<Cluster<'a>> = Vec::new();
    for (position, task) in tasks {
        let meets = |cluster: &&mut Cluster<'_>| cluster.cpus.iter().any(|cpu| task.cpus.contains(cpu));
        let demand = demand(position, task);
        match clusters.iter_mut().find(meets) {
            Some(cluster) if cluster.cpus == task.cpus => cluster.demands.extend(demand),
            Some(_) => return None,
            None => clusters.push(Cluster {
                cpus: &task.cpus,
                demands: demand.into_iter().collect(),
            }),
        }
    }
    Some(clusters)
}

fn demand(position: usize, task: &Task) -> Option<Demand<'_>> {
    let [budget, period, deadline] = [task.budget?, task.period?, task.deadline?].map(Duration::get);
    Some(Demand {
        position,
        name: &task.name,
        class: task.class,
        budget,
        period,
        deadline,
    })
}

fn check_cluster(cluster: &Cluster<'_>, warnings: &mut Vec<Warning>) -> Result<(), Fault> {
    let of_deadline = |demand: &&Demand<'_>| demand.class == Class::Deadline;
    let deadline: Vec<Demand<'_>> = cluster.demands.iter().filter(of_deadline).copied().collect();
    let cpus = cluster.cpus.len();
    if cpus == 1 {
        deadline::one_cpu(cluster.cpus[0], &deadline, warnings)?;
        return fixed::one_cpu(cluster.cpus[0], &cluster.demands);
    }
    deadline::global(cpus, &deadline)?;
    let fixed: Vec<&str> = cluster
        .demands
        .iter()
        .filter(|demand| demand.class != Class::Deadline)
        .map(|demand| demand.name)
        .collect();
    if !fixed.is_empty() {
        let message = format!(
            "CPU admission of the fifo tasks {} on {cpus} CPUs is not proven: give each one CPU of its own in `cpus`",
            fixed.join(", ")
        );
        warnings.push(Warning {
            key: "task.cpus".to_owned(),
            message,
        });
    }
    Ok(())
}

/// A refusal that names every task concerned.
fn refusal(message: String, demands: &[Demand<'_>]) -> Fault {
    let last = demands.last().map_or(0, |demand| demand.position);
    demands
        .iter()
        .fold(Fault::new(format!("task.{last}.budget"), message), |fault, demand| {
            let path = |key: &str| format!("task.{}.{key}", demand.position);
            let keys = ["budget", "period", "deadline", "priority", "cpus"];
            keys.iter().fold(fault, |fault, key| fault.with(path(key)))
        })
}

/// `tau1 40ms/100ms, tau2 …`: budget and period of each.
fn listed(demands: &[Demand<'_>]) -> String {
    let show = |ns: u64| crate::quantity::format_time(Duration::new(ns));
    let one = |demand: &Demand<'_>| {
        let constrained = (demand.deadline < demand.period).then(|| format!(" within {}", show(demand.deadline)));
        format!(
            "{} {}/{}{}",
            demand.name,
            show(demand.budget),
            show(demand.period),
            constrained.unwrap_or_default()
        )
    };
    demands.iter().map(one).collect::<Vec<_>>().join(", ")
}

pub(crate) fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Least common multiple; `None` past the range, and for zero.
pub(crate) fn lcm(a: u128, b: u128) -> Option<u128> {
    let gcd = gcd(a, b);
    (gcd != 0)
        .then(|| a / gcd)
        .filter(|factor| *factor != 0)?
        .checked_mul(b)
}
