//! Earliest deadline first: utilisation and processor demand on one CPU, the density form of the bound of Goossens,
//! Funk and Baruah on several.

use super::{Demand, lcm, listed, refusal};
use crate::error::{Fault, Warning};

/// Points at which processor demand is evaluated before giving up.
const MAX_POINTS: usize = 100_000;

/// One as a fixed-point number, for sums of ratios that have no exact common denominator.
const ONE: u128 = 1 << 64;

/// Refuses where demand passes the CPU; warns where that cannot be decided.
pub(super) fn one_cpu(cpu: u32, demands: &[Demand<'_>], warnings: &mut Vec<Warning>) -> Result<(), Fault> {
    if !at_most_one(demands, |demand| demand.period) {
        let percent = percent(demands, |demand| demand.period);
        let message = format!(
            "CPU admission fails on CPU {cpu}: {} use {percent} % of it; shorten budgets or lengthen periods",
            listed(demands)
        );
        return Err(refusal(message, demands));
    }
    if at_most_one(demands, |demand| demand.deadline) {
        return Ok(());
    }
    match demand_fits(demands) {
        Some(Ok(())) => Ok(()),
        Some(Err(instant)) => {
            let message = format!(
                "CPU admission fails on CPU {cpu}: within {instant} ns {} can demand more than that; \
                 shorten budgets or lengthen deadlines",
                listed(demands)
            );
            Err(refusal(message, demands))
        }
        None => {
            let message = format!(
                "CPU admission of {} on CPU {cpu} is not proven: too many deadlines to check",
                listed(demands)
            );
            warnings.push(Warning {
                key: "task.deadline".to_owned(),
                message,
            });
            Ok(())
        }
    }
}

/// Refuses where the densities sum to more than `m − (m − 1) × the largest`.
pub(super) fn global(cpus: usize, demands: &[Demand<'_>]) -> Result<(), Fault> {
    let cpus = u128::try_from(cpus).unwrap_or(1).max(1);
    let density = |demand: &Demand<'_>| (u128::from(demand.budget) << 64).div_ceil(u128::from(demand.deadline));
    let sum: u128 = demands.iter().map(density).sum();
    let largest = demands.iter().map(density).max().unwrap_or(0);
    // Rounding up lost at most one unit a task: give it back, so that exact sums pass.
    let rounding = demands.len() as u128 * cpus;
    if sum + (cpus - 1) * largest <= cpus * ONE + rounding {
        return Ok(());
    }
    let per_cent = |ratio: u128| ratio.saturating_mul(100) >> 64;
    let message = format!(
        "CPU admission fails on {cpus} CPUs: {} have a total density of {} %, and with a largest of {} % at most {} % \
         are safe (Goossens, Funk and Baruah); shorten budgets or give tasks CPUs of their own in `cpus`",
        listed(demands),
        per_cent(sum),
        per_cent(largest),
        per_cent(cpus * ONE - ((cpus - 1) * largest).min(cpus * ONE))
    );
    Err(refusal(message, demands))
}

/// Whether the budgets divided by `window` sum to at most 1: exactly where a common denominator exists, else rounded
/// to the safe side.
fn at_most_one(demands: &[Demand<'_>], window: impl Fn(&Demand<'_>) -> u64) -> bool {
    let common = demands
        .iter()
        .try_fold(1, |common, demand| lcm(common, u128::from(window(demand))));
    let exact = common.and_then(|common| {
        let share = |demand: &Demand<'_>| u128::from(demand.budget).checked_mul(common / u128::from(window(demand)));
        let sum = demands
            .iter()
            .try_fold(0_u128, |sum, demand| sum.checked_add(share(demand)?))?;
        Some(sum <= common)
    });
    exact.unwrap_or_else(|| {
        let share = |demand: &Demand<'_>| (u128::from(demand.budget) << 64).div_ceil(u128::from(window(demand)));
        demands.iter().map(share).sum::<u128>() <= ONE
    })
}

fn percent(demands: &[Demand<'_>], window: impl Fn(&Demand<'_>) -> u64) -> u128 {
    let share = |demand: &Demand<'_>| u128::from(demand.budget) * 10_000 / u128::from(window(demand).max(1));
    demands.iter().map(share).sum::<u128>().div_ceil(100)
}

/// Processor demand at every deadline of the synchronous busy period: `Err` with the first that is passed, `None`
/// where there are too many.
fn demand_fits(demands: &[Demand<'_>]) -> Option<Result<(), u128>> {
    let horizon = busy_period(demands)?;
    let mut next: Vec<u128> = demands.iter().map(|demand| u128::from(demand.deadline)).collect();
    for _ in 0..MAX_POINTS {
        let Some(instant) = next.iter().min().copied().filter(|instant| *instant <= horizon) else {
            return Some(Ok(()));
        };
        let due = |demand: &Demand<'_>| {
            let late = instant.checked_sub(u128::from(demand.deadline));
            late.map_or(0, |late| {
                (late / u128::from(demand.period) + 1) * u128::from(demand.budget)
            })
        };
        if demands.iter().map(due).sum::<u128>() > instant {
            return Some(Err(instant));
        }
        for (instant_of, demand) in next.iter_mut().zip(demands) {
            if *instant_of == instant {
                *instant_of += u128::from(demand.period);
            }
        }
    }
    None
}

/// The length of the synchronous busy period; `None` where it takes too long to find.
fn busy_period(demands: &[Demand<'_>]) -> Option<u128> {
    let mut length: u128 = demands.iter().map(|demand| u128::from(demand.budget)).sum();
    for _ in 0..MAX_POINTS {
        let jobs = |demand: &Demand<'_>| length.div_ceil(u128::from(demand.period)) * u128::from(demand.budget);
        let next = demands.iter().map(jobs).sum();
        if next == length {
            return Some(length);
        }
        length = next;
    }
    None
}
