//! The tables of a run. Every number is the document's.

use freehold_report::reservation::Number;
use freehold_scenario::results::{LateJob, RunResult, TaskResult};

use crate::html::{Cell, Table};
use crate::number;

/// Jobs and response times.
pub(super) fn jobs(result: &RunResult) -> Table {
    let mut table = Table::new(
        "Jobs and response times",
        &[
            "task",
            "class",
            "period",
            "deadline",
            "jobs",
            "misses",
            "max tardiness",
            "response p50",
            "response p99",
            "response max",
        ],
    );
    for task in &result.tasks {
        let response = &task.response_ns;
        let mut cells = vec![Cell::Head(task.name.clone()), Cell::Text(task.class.clone())];
        cells.extend([task.period_ns, task.deadline_ns].map(|time| time.map_or(Cell::None, Cell::Time)));
        cells.extend([task.jobs, task.misses].map(Cell::Count));
        cells.extend([task.max_tardiness_ns, response.p50, response.p99, response.max].map(Cell::Time));
        if task.misses > 0 {
            table.marked_row(cells);
        } else {
            table.row(cells);
        }
    }
    table
}

/// Faults by kind, and evictions.
pub(super) fn faults(result: &RunResult, counted_at: u64) -> Table {
    let caption = format!("Faults by kind, counted at {}", number::time(counted_at));
    let mut table = Table::new(
        &caption,
        &[
            "task",
            "soft faults",
            "zero fills",
            "swap-ins",
            "shared swap-ins",
            "write faults",
            "evictions",
            "pinned pages",
        ],
    );
    for task in &result.tasks {
        let counts = [
            task.faults.soft_faults,
            task.faults.zero_fills,
            task.faults.swap_ins,
            task.faults.shared_swap_ins,
            task.write_faults,
            task.faults.evictions,
            task.pinned.pinned_pages,
        ];
        let cells = std::iter::once(Cell::Head(task.name.clone())).chain(counts.map(Cell::Count));
        table.row(cells.collect());
    }
    table
}

/// Where the time went, of the whole run.
pub(super) fn times(result: &RunResult) -> Table {
    let mut table = Table::new(
        "Time, of the whole run",
        &[
            "task",
            "CPU",
            "CPU wait",
            "store wait",
            "fault service",
            "lock wait",
            "swap budget",
        ],
    );
    for task in &result.tasks {
        let times = [
            task.times.cpu_ns,
            task.waits.cpu_wait_ns,
            task.times.store_wait_ns,
            task.times.fault_service_ns,
            task.waits.lock_wait_ns,
            task.pinned.swap_budget_ns,
        ];
        let cells = std::iter::once(Cell::Head(task.name.clone())).chain(times.map(Cell::Time));
        table.row(cells.collect());
    }
    table
}

/// Frames of reservations.
pub(super) fn reservations(result: &RunResult, counted_at: u64) -> Table {
    let caption = format!("Frames of 4 KiB, counted at {}", number::time(counted_at));
    let numbers: Vec<Number> = Number::shown().collect();
    // Pages taken back are told beside the frames that were borrowed.
    let first = numbers.iter().position(|number| number.name() == "borrowed");
    let (lists, frames) = numbers.split_at(first.map_or(numbers.len(), |at| at + 1));
    let labels = |part: &[Number]| part.iter().map(|number| number.label()).collect::<Vec<_>>();
    let (before, behind) = (labels(lists), labels(frames));
    let mut columns = vec!["reservation"];
    columns.extend(before.iter().map(String::as_str));
    columns.push("taken back");
    columns.extend(behind.iter().map(String::as_str));
    let mut table = Table::new(&caption, &columns);
    for row in &result.reservations {
        let counts = row.counts();
        let values = |part: &[Number]| part.iter().map(|number| number.of(&counts)).collect::<Vec<_>>();
        let values = [values(lists), vec![row.taken_back], values(frames)].concat();
        let cells = std::iter::once(Cell::Head(row.name.clone())).chain(values.into_iter().map(Cell::Count));
        table.row(cells.collect());
    }
    table
}

/// Units of components (paper 004).
pub(super) fn units(result: &RunResult) -> Table {
    let columns = ["r", "a", "δ", "used", "waits", "b", "handed over", "granted", "taken"];
    let columns: Vec<&str> = ["component", "kind"].into_iter().chain(columns).collect();
    let mut table = Table::new("Units of components", &columns);
    for row in result.transient.iter().flat_map(|transient| &transient.components) {
        let state = &row.state;
        let mut cells = vec![Cell::Head(state.component.clone()), Cell::Text(state.kind.clone())];
        let counts = [state.requested, state.allocated, state.desired, state.used];
        cells.extend(counts.map(|count| Cell::Count(count.into())));
        cells.extend([Cell::Count(state.contended), Cell::Time(state.blocked_ns)]);
        cells.extend([row.handed_over, row.granted, row.taken].map(Cell::Count));
        table.row(cells);
    }
    table
}

/// Whose job waits for whose at the end.
pub(super) fn waits(result: &RunResult) -> Table {
    let mut table = Table::new("Jobs that wait for units", &["task", "waits for", "component", "kind"]);
    for wait in result.transient.iter().flat_map(|transient| &transient.waits) {
        let holder = wait.holder.clone().unwrap_or_else(|| "another".to_owned());
        table.row(vec![
            Cell::Head(wait.thread.clone()),
            Cell::Text(holder),
            Cell::Text(wait.component.clone()),
            Cell::Text(wait.kind.clone()),
        ]);
    }
    table
}

/// Residency and use of regions.
pub(super) fn regions(result: &RunResult) -> Table {
    let mut table = Table::new(
        "Regions, in pages",
        &[
            "region",
            "sharing",
            "resident",
            "pages touched, by reservation",
            "mean per period, by reservation",
        ],
    );
    for region in &result.regions {
        let named = |values: Vec<String>| {
            let names = result.reservations.iter().map(|of| of.name.as_str());
            let pairs = names.zip(values).map(|(name, value)| format!("{name} {value}"));
            pairs.collect::<Vec<_>>().join(", ")
        };
        let sharing = match region.advice {
            Some(_) => format!("{}, decided", region.sharing.name()),
            None => region.sharing.name().to_owned(),
        };
        table.row(vec![
            Cell::Head(region.name.clone()),
            Cell::Text(sharing),
            Cell::Count(region.resident),
            Cell::Text(named(region.max_use.iter().map(u64::to_string).collect())),
            Cell::Text(named(region.avg_use.iter().map(|mean| format!("{mean:.1}")).collect())),
        ]);
    }
    table
}

/// The pool, the store and the core's lock.
pub(super) fn memory(result: &RunResult) -> Table {
    let mut columns = vec![
        "",
        "frames",
        "used",
        "peak",
        "resident measured",
        "pages read",
        "pages written",
        "bytes read",
    ];
    let (memory, store) = (&result.memory, &result.store);
    let counts = [
        memory.pool,
        memory.used,
        memory.peak,
        memory.resident_measured,
        store.reads,
        store.writes,
        store.read_bytes,
    ];
    let mut cells = vec![Cell::Head("pool and store".to_owned())];
    cells.extend(counts.map(Cell::Count));
    if let Some(lock) = &result.lock {
        columns.extend(["lock holds", "longest hold", "longest wait"]);
        cells.extend([
            Cell::Count(lock.holds),
            Cell::Time(lock.longest_hold_ns),
            Cell::Time(lock.longest_wait_ns),
        ]);
    }
    let mut table = Table::new("Pool and store", &columns);
    table.row(cells);
    table
}

/// The late jobs of a task: the sum of all, then those that the document lists.
pub(super) fn late(task: &TaskResult) -> Table {
    let mut table = Table::new(
        &format!("Late jobs of {}", task.name),
        &[
            "job",
            "released at",
            "response",
            "tardiness",
            "CPU wait",
            "store wait",
            "fault service",
            "lock wait",
            "own computation",
            "mostly",
        ],
    );
    let whole = task.late.late_response_ns;
    let mut all = vec![
        Cell::Head(format!("all {}", task.late.late_jobs_total)),
        Cell::None,
        Cell::Time(whole),
        Cell::None,
    ];
    all.extend(
        task.late
            .late_delays_ns
            .shares(whole)
            .map(|(_, share)| Cell::Share(share, whole)),
    );
    all.push(Cell::Text(task.late.late_delays_ns.reason(whole).to_string()));
    table.marked_row(all);
    for job in &task.late.late_jobs {
        table.row(late_job(job, format!("job {}", job.job)));
    }
    if let Some(worst) = task
        .late
        .worst_late_job
        .filter(|worst| task.late.late_jobs.iter().all(|job| job.job != worst.job))
    {
        table.row(late_job(&worst, format!("job {}, the worst", worst.job)));
    }
    table
}

fn late_job(job: &LateJob, name: String) -> Vec<Cell> {
    let mut cells = vec![Cell::Head(name)];
    cells.extend([job.release_ns, job.response_ns, job.tardiness_ns].map(Cell::Time));
    cells.extend(
        job.delays
            .shares(job.response_ns)
            .map(|(_, share)| Cell::Share(share, job.response_ns)),
    );
    cells.push(Cell::Text(job.reason.to_string()));
    cells
}

/// Broken laws.
pub(super) fn violations(result: &RunResult) -> Table {
    let mut table = Table::new("Laws broken", &["law", "at", "what was found"]);
    for found in &result.laws.violations {
        table.marked_row(vec![
            Cell::Head(found.law.to_string()),
            Cell::Time(found.at_ns),
            Cell::Text(found.what.clone()),
        ]);
    }
    table
}
