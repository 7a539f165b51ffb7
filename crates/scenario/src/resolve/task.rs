//! The rules of tasks: timing, classes, CPUs, accesses.

use super::checks::{Lookup, pages, refuse, span, whole_pages};
use crate::error::{Fault, Warning};
use crate::model::{AccessStep, Class, Pattern, Region, RegionIndex, ReservationIndex, Task};
use crate::quantity::format_time;
use crate::spec::{AccessSpec, ClassSpec, ScenarioSpec, TaskSpec};
use freehold_core::units::{Duration, Instant, PageCount};

/// The lowest priority given by default.
const DEFAULT_PRIORITY: usize = 10;
/// The highest real-time priority.
const TOP_PRIORITY: usize = 99;

pub(super) fn resolve(
    spec: &ScenarioSpec,
    regions: &[Region],
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Task>, Fault> {
    Lookup::new("task", spec.tasks.iter().map(|task| task.name.as_str()))?;
    let region_names = Lookup::new("region", spec.regions.iter().map(|region| region.name.as_str()))?;
    let reservations = spec.reservations.iter().map(|reservation| reservation.name.as_str());
    let reservations = Lookup::new("reservation", reservations)?;
    let priorities = priorities(&spec.tasks, warnings)?;
    let mut tasks = Vec::with_capacity(spec.tasks.len());
    for (position, task) in spec.tasks.iter().enumerate() {
        let path = format!("task.{position}");
        let reservation = reservation(&path, task, &reservations)?;
        let class = class(&path, task, priorities.get(position).copied().flatten())?;
        let deadline = timing(&path, task)?;
        let (pinning, app) = super::pinning::resolve(&path, task, class)?;
        let (start, stop) = lifetime(&path, task, spec.duration, warnings)?;
        let cpus = cpus(&path, task, spec.cpus)?;
        let accesses = accesses(&path, task, regions, &region_names)?;
        let resolved = Task {
            name: task.name.clone(),
            reservation,
            pinning,
            app,
            class,
            period: task.period,
            budget: task.budget,
            deadline,
            start,
            stop,
            phase: task.phase,
            cpus,
            compute: task.compute,
            accesses,
        };
        if resolved.is_idle() {
            let message = "has no period and nothing to do: it never runs".to_owned();
            warnings.push(Warning {
                key: format!("task.{}", task.name),
                message,
            });
        }
        tasks.push(resolved);
    }
    Ok(tasks)
}

fn reservation(path: &str, task: &TaskSpec, names: &Lookup<'_>) -> Result<Option<ReservationIndex>, Fault> {
    let Some(name) = &task.reservation else {
        return Ok(None);
    };
    if task.pinning.is_some() {
        let message = "a task has a reservation or a pinning, not both: remove `pinning` or `reservation`";
        return Err(Fault::new(format!("{path}.pinning"), message).with(format!("{path}.reservation")));
    }
    names
        .find(&format!("{path}.reservation"), name)
        .map(|position| Some(ReservationIndex::new(position)))
}

/// The class in force.
fn class_of(task: &TaskSpec) -> ClassSpec {
    let implied = if task.period.is_some() {
        ClassSpec::Fifo(None)
    } else {
        ClassSpec::BestEffort
    };
    task.class.unwrap_or(implied)
}

/// Rate-monotonic priorities of the fifo tasks that state none: the shorter the period the higher, ties by order.
fn priorities(tasks: &[TaskSpec], warnings: &mut Vec<Warning>) -> Result<Vec<Option<u8>>, Fault> {
    let unranked = |task: &TaskSpec| class_of(task) == ClassSpec::Fifo(None);
    let mut ranked: Vec<usize> = (0..tasks.len())
        .filter(|position| unranked(&tasks[*position]))
        .collect();
    ranked.sort_by_key(|position| tasks[*position].period);
    if ranked.len() > TOP_PRIORITY {
        let message = format!(
            "{} fifo tasks have no priority, and there are only {TOP_PRIORITY} priorities: state them",
            ranked.len()
        );
        return refuse(format!("task.{}.priority", ranked[TOP_PRIORITY]), message);
    }
    let stated = tasks
        .iter()
        .any(|task| matches!(class_of(task), ClassSpec::Fifo(Some(_))));
    let mut priorities = vec![None; tasks.len()];
    let lowest = DEFAULT_PRIORITY.min(TOP_PRIORITY + 1 - ranked.len());
    for (rank, position) in ranked.iter().rev().enumerate() {
        priorities[*position] = u8::try_from(lowest + rank).ok();
        if stated {
            let message = format!(
                "gets the rate-monotonic priority {} beside tasks that state theirs",
                lowest + rank
            );
            warnings.push(Warning {
                key: format!("task.{}.priority", tasks[*position].name),
                message,
            });
        }
    }
    Ok(priorities)
}

fn class(path: &str, task: &TaskSpec, default_priority: Option<u8>) -> Result<Class, Fault> {
    let class_path = format!("{path}.class");
    match class_of(task) {
        ClassSpec::BestEffort => Ok(Class::BestEffort),
        ClassSpec::Deadline if task.period.is_none() => {
            Err(Fault::new(class_path, "class \"deadline\" needs a `period`: add one").with(format!("{path}.period")))
        }
        ClassSpec::Deadline if task.budget.is_none() => {
            Err(Fault::new(class_path, "class \"deadline\" needs a `budget`: add one").with(format!("{path}.budget")))
        }
        ClassSpec::Deadline => Ok(Class::Deadline),
        ClassSpec::Fifo(_) if task.period.is_none() => {
            let message = "class \"fifo\" needs a `period`; a task without one is \"best-effort\"";
            Err(Fault::new(class_path, message).with(format!("{path}.period")))
        }
        ClassSpec::Fifo(priority) => {
            let priority = priority.or(default_priority).unwrap_or(1);
            if priority == 0 || usize::from(priority) > TOP_PRIORITY {
                return refuse(
                    format!("{path}.priority"),
                    format!("is {priority}: must be 1 to {TOP_PRIORITY}"),
                );
            }
            Ok(Class::Fifo { priority })
        }
    }
}

/// Checks period, deadline, budget and phase against each other; returns the deadline in force.
fn timing(path: &str, task: &TaskSpec) -> Result<Option<Duration>, Fault> {
    let key = |key: &str| format!("{path}.{key}");
    for (name, time) in [
        ("period", task.period),
        ("deadline", task.deadline),
        ("budget", task.budget),
    ] {
        let Some(time) = time else { continue };
        span(&key(name), time)?;
        if time.is_zero() {
            return refuse(key(name), "is zero: state a time, such as \"10ms\", or leave it out");
        }
        if task.period.is_none() {
            let message = "means nothing without a `period`: add one";
            return Err(Fault::new(key(name), message).with(key("period")));
        }
    }
    span(&key("phase"), task.phase)?;
    span(&key("compute"), task.compute)?;
    let Some(period) = task.period else {
        return Ok(None);
    };
    let deadline = task.deadline.unwrap_or(period);
    let show = format_time;
    if deadline > period {
        let message = format!(
            "{} is longer than the period of {}: at most the period",
            show(deadline),
            show(period)
        );
        return Err(Fault::new(key("deadline"), message).with(key("period")));
    }
    if let Some(budget) = task.budget
        && budget > deadline
    {
        let message = format!(
            "{} is more than the deadline of {}: at most that",
            show(budget),
            show(deadline)
        );
        return Err(Fault::new(key("budget"), message)
            .with(key("deadline"))
            .with(key("period")));
    }
    if task.phase >= period {
        let message = format!(
            "{} is not below the period of {}: use `start` for a task that arrives later",
            show(task.phase),
            show(period)
        );
        return Err(Fault::new(key("phase"), message).with(key("period")));
    }
    Ok(Some(deadline))
}

fn lifetime(
    path: &str,
    task: &TaskSpec,
    duration: Duration,
    warnings: &mut Vec<Warning>,
) -> Result<(Instant, Instant), Fault> {
    let key = |key: &str| format!("{path}.{key}");
    let written = task.stop.unwrap_or(duration);
    span(&key("start"), task.start)?;
    span(&key("stop"), written)?;
    if task.start >= duration {
        let message = format!(
            "{} is not before the end at {}",
            format_time(task.start),
            format_time(duration)
        );
        return Err(Fault::new(key("start"), message).with("duration"));
    }
    if task.start >= written {
        let message = format!(
            "{} is not after the start at {}",
            format_time(written),
            format_time(task.start)
        );
        return Err(Fault::new(key("stop"), message).with(key("start")));
    }
    if written > duration {
        let message = format!(
            "{} is after the end at {}, which counts",
            format_time(written),
            format_time(duration)
        );
        warnings.push(Warning {
            key: format!("task.{}.stop", task.name),
            message,
        });
    }
    let stop = written.min(duration);
    Ok((Instant::new(task.start.get()), Instant::new(stop.get())))
}

fn cpus(path: &str, task: &TaskSpec, machine: u32) -> Result<Vec<u32>, Fault> {
    let path = format!("{path}.cpus");
    let Some(written) = &task.cpus else {
        return Ok((0..machine).collect());
    };
    if written.is_empty() {
        return refuse(
            path,
            "is empty: list the CPUs, such as [0], or leave the key out for all",
        );
    }
    let mut cpus = written.clone();
    cpus.sort_unstable();
    if let Some(pair) = cpus.windows(2).find(|pair| pair[0] == pair[1]) {
        return refuse(path, format!("names CPU {} twice: keep one", pair[0]));
    }
    if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= machine) {
        let message = format!(
            "names CPU {cpu}, and the machine has 0 to {}: see `machine.cpus`",
            machine.saturating_sub(1)
        );
        return Err(Fault::new(path, message).with("machine.cpus"));
    }
    Ok(cpus)
}

fn accesses(path: &str, task: &TaskSpec, regions: &[Region], names: &Lookup<'_>) -> Result<Vec<AccessStep>, Fault> {
    if task.accesses.len() > super::MAX_ENTRIES {
        return refuse(
            format!("{path}.access"),
            format!("has more than {} entries", super::MAX_ENTRIES),
        );
    }
    let steps = task.accesses.iter().enumerate();
    steps
        .map(|(number, access)| step(&format!("{path}.access.{number}"), access, regions, names))
        .collect()
}

fn step(path: &str, access: &AccessSpec, regions: &[Region], names: &Lookup<'_>) -> Result<AccessStep, Fault> {
    let position = names.find(&format!("{path}.region"), &access.region)?;
    let region_pages = regions
        .get(usize::from(position))
        .map_or(PageCount::ZERO, |region| region.pages);
    let whole = pattern(path, access, region_pages, position)?;
    let amount_path = format!("{path}.amount");
    let count = match access.amount {
        Some(amount) if amount.is_zero() => return refuse(amount_path, "is zero: remove the access, or say how much"),
        Some(amount) => match amount.to_pages() {
            Some(pages) => u64::from(pages.get()),
            None => return refuse(amount_path, "is too large: at most 4294967295 pages (16 TiB) a job"),
        },
        None => whole,
    };
    Ok(AccessStep {
        region: RegionIndex::new(position),
        pattern: access.pattern.clone(),
        count,
        write: access.write,
    })
}

/// Checks a pattern against its region; returns the accesses of one job by default.
fn pattern(path: &str, access: &AccessSpec, region: PageCount, position: u16) -> Result<u64, Fault> {
    match &access.pattern {
        Pattern::Sequential | Pattern::Random => Ok(u64::from(region.get())),
        Pattern::Zipf { exponent } if *exponent > 0.0 && *exponent <= 10.0 => Ok(u64::from(region.get())),
        Pattern::Zipf { exponent } => refuse(
            format!("{path}.exponent"),
            format!("is {exponent}: must be above 0, at most 10"),
        ),
        Pattern::Window { every: 0, .. } => {
            let message = "is 0: must be at least 1, which moves the window after each job";
            refuse(format!("{path}.every"), message)
        }
        Pattern::Window { size, shift, .. } => {
            let window = pages(&format!("{path}.size"), *size, u32::MAX)?;
            let shift = whole_pages(&format!("{path}.shift"), *shift)?;
            for (key, value, what) in [("size", window, "window"), ("shift", shift, "shift")] {
                if value > region {
                    let message = format!("a {what} of {value} is larger than the region of {region}");
                    return Err(Fault::new(format!("{path}.{key}"), message).with(format!("region.{position}.size")));
                }
            }
            Ok(u64::from(window.get()))
        }
        Pattern::Trace { file, entries } => {
            if access.write {
                return refuse(
                    format!("{path}.write"),
                    "a trace says line by line what is written (` w`): remove the key",
                );
            }
            if entries.is_empty() {
                return refuse(format!("{path}.file"), format!("`{file}` lists no pages"));
            }
            if let Some(entry) = entries.iter().find(|entry| entry.page.get() >= region.get()) {
                let message = format!(
                    "`{file}` line {}: {} is outside the region of {region}",
                    entry.line, entry.page
                );
                return Err(Fault::new(format!("{path}.file"), message).with(format!("region.{position}.size")));
            }
            Ok(entries.len() as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    #[test]
    fn priorities_are_rate_monotonic_with_ties_by_order() -> Result<(), crate::Error> {
        let mut spec = ScenarioSpec::new(
            "s",
            Duration::from_millis(100),
            freehold_core::units::ByteLen::new(64 << 10),
        );
        for (name, period) in [("a", 20), ("b", 10), ("c", 20)] {
            let mut task = TaskSpec::new(name);
            task.period = Some(Duration::from_millis(period));
            spec.tasks.push(task);
        }
        let scenario = Scenario::try_from(spec)?;
        let priority = |task: &Task| match task.class {
            Class::Fifo { priority } => priority,
            _ => 0,
        };
        let found: Vec<u8> = scenario.tasks.iter().map(priority).collect();
        assert_eq!(found, [11, 12, 10]);
        Ok(())
    }
}
