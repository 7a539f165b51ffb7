//! Which charts a run gets, and of what part of it.

use freehold_scenario::results::TaskResult;

use super::{Detail, whole};
use crate::chart::areas::{self, Areas, FRAMES, LISTS, Layer};
use crate::chart::histogram::Histogram;
use crate::chart::timeline::{Row, Timeline};
use crate::number;
use crate::svg::{Numbers, Window};
use crate::{Run, label};

/// The whole run, its first hyperperiods, and the worst late job: each where it shows more than the one before.
pub(super) fn executions(runs: &[Run<'_>], position: usize, detail: Detail, numbers: &mut Numbers) -> String {
    let Some(run) = runs.get(position) else {
        return String::new();
    };
    let rows: Vec<Row<'_>> = rows_of(run);
    let draw = |title: String, window: Window, faults: bool, numbers: &mut Numbers| {
        let timeline = Timeline {
            title,
            rows: rows.clone(),
            window,
            faults,
            columns: detail.columns,
        };
        timeline.draw(numbers)
    };
    let mut html = draw("Execution, the whole run".to_owned(), whole(runs), false, numbers);
    if let Some((window, what)) = beginning(run) {
        html.push_str(&draw(format!("Execution, {what}"), window, true, numbers));
    }
    let latest = run.result.tasks.iter().max_by_key(|task| task.max_tardiness_ns);
    if let Some((window, what)) = latest.and_then(|task| around_worst(task, run)) {
        html.push_str(&draw(format!("Execution, {what}"), window, true, numbers));
    }
    html
}

fn rows_of<'a>(run: &Run<'a>) -> Vec<Row<'a>> {
    let rows = run.tasks().map(|(recorded, task, until)| Row {
        name: task.name.clone(),
        remark: times_of(task),
        task: recorded,
        until,
    });
    rows.collect()
}

fn times_of(task: &TaskResult) -> String {
    task.period_ns.map_or_else(
        || task.class.clone(),
        |period| format!("every {}", number::time(period)),
    )
}

/// The first hyperperiods, or the first periods, unless that is most of the run.
fn beginning(run: &Run<'_>) -> Option<(Window, String)> {
    let short = |length: &u64| *length > 0 && *length <= run.result.head.duration_ns / 5 * 3;
    let hyperperiod = run.scenario.hyperperiod().map(|time| time.get());
    for (count, what) in [(2, "the first two hyperperiods"), (1, "the first hyperperiod")] {
        let length = hyperperiod.and_then(|time| time.checked_mul(count));
        if let Some(length) = length.filter(short) {
            return Some((Window::new(0, length), what.to_owned()));
        }
    }
    let shortest = run.result.tasks.iter().filter_map(|task| task.period_ns).min();
    let length = shortest.and_then(|period| period.checked_mul(4)).filter(short)?;
    Some((Window::new(0, length), "the first periods".to_owned()))
}

/// The worst late job of a task, with some time before and after.
pub(super) fn around_worst(task: &TaskResult, run: &Run<'_>) -> Option<(Window, String)> {
    let worst = task.late.worst_late_job.as_ref()?;
    let margin = worst.response_ns / 4;
    let end = worst.release_ns.saturating_add(worst.response_ns);
    let from = worst.release_ns.saturating_sub(margin);
    let window = Window::new(from, end.saturating_add(margin).min(run.result.head.duration_ns));
    let late = number::time(worst.tardiness_ns);
    Some((
        window,
        format!(
            "around the worst late job: {} job {}, late by {late}",
            task.name, worst.job
        ),
    ))
}

/// One task in several runs, a row each.
pub(super) fn side_by_side(
    runs: &[Run<'_>],
    task: &str,
    window: Window,
    what: &str,
    detail: Detail,
    numbers: &mut Numbers,
) -> String {
    let mut rows = Vec::new();
    for (position, run) in runs.iter().enumerate() {
        for (recorded, result, until) in run.tasks().filter(|(_, result, _)| result.name == task) {
            rows.push(Row {
                name: label::of(runs, position),
                remark: format!("{}; {} of {} late", run.result.policy(), result.misses, result.jobs),
                task: recorded,
                until,
            });
        }
    }
    let timeline = Timeline {
        title: format!("{task}, {what}"),
        rows,
        window,
        faults: false,
        columns: detail.columns,
    };
    timeline.draw(numbers)
}

/// The pool, then the lists and the frames of every reservation, to the scales of its namesakes in other runs.
pub(super) fn memory(runs: &[Run<'_>], position: usize, detail: Detail, numbers: &mut Numbers) -> String {
    let Some(run) = runs.get(position) else {
        return String::new();
    };
    let areas = |title: String, layers: Vec<(&'static str, &'static str)>, points, capacity, most| Areas {
        title,
        layers,
        points,
        capacity,
        window: whole(runs),
        most,
        columns: detail.samples,
    };
    let pools = runs.iter().map(|other| other.result.memory.pool);
    let (pool, layers) = (
        areas::of_pool(&run.recording.samples),
        vec![("used", "active"), ("free", "free")],
    );
    let most = pools.max().unwrap_or(0);
    let mut html = areas("Pool".to_owned(), layers, pool, run.result.memory.pool, most).draw(numbers);
    for (at, reservation) in run.result.reservations.iter().enumerate() {
        for (title, layers) in [("lists", &LISTS[..]), ("frames held", &FRAMES[..])] {
            let points = areas::of_reservation(&run.recording.samples, at, layers);
            let title = format!("{}: {title}", reservation.name);
            let names = layers.iter().map(|(name, class, _)| (*name, *class)).collect();
            let most = most_of_namesakes(runs, &reservation.name, layers);
            html.push_str(&areas(title, names, points, reservation.lists.capacity, most).draw(numbers));
        }
    }
    html
}

/// The most that reservations of this name have in any run.
fn most_of_namesakes(runs: &[Run<'_>], name: &str, layers: &[Layer]) -> u64 {
    let of = |run: &Run<'_>| {
        let at = run.result.reservations.iter().position(|of| of.name == name)?;
        let sampled = areas::largest(&areas::of_reservation(&run.recording.samples, at, layers));
        Some(run.result.reservations[at].lists.capacity.max(sampled))
    };
    runs.iter().filter_map(of).max().unwrap_or(0)
}

/// The response times of every task that finished jobs, to the scales of its namesakes in other runs.
pub(super) fn responses(runs: &[Run<'_>], position: usize, numbers: &mut Numbers) -> String {
    let mut html = String::new();
    let Some(run) = runs.get(position) else {
        return html;
    };
    for (recorded, task) in run.recording.tasks.iter().zip(&run.result.tasks) {
        if !recorded.jobs.iter().any(|job| job.finished) {
            continue;
        }
        let others = runs.iter().flat_map(|run| &run.result.tasks);
        let namesakes = others.filter(|other| other.name == task.name);
        let most = namesakes.map(|other| other.response_ns.max.max(other.deadline_ns.unwrap_or(0)));
        let histogram = Histogram {
            title: format!("Response times of {}", task.name),
            jobs: &recorded.jobs,
            counted: task.jobs,
            max: task.response_ns.max,
            deadline: task.deadline_ns,
            most: most.max().unwrap_or(0),
        };
        html.push_str(&histogram.draw(numbers));
    }
    html
}
