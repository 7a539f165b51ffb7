//! Several runs side by side: one table, and for each task a chart with a row for each run.

use freehold_scenario::results::TaskResult;

use super::figures::{around_worst, side_by_side};
use super::{Detail, legend, whole};
use crate::html::{self, Cell, Table};
use crate::svg::Numbers;
use crate::{Run, label, number};

/// So many tasks are drawn side by side.
const MOST_TASKS: usize = 8;

pub(super) fn section(runs: &[Run<'_>], detail: Detail, numbers: &mut Numbers) -> String {
    let mut html = String::from("<section id=\"comparison\">\n<h2>Comparison</h2>\n");
    html.push_str(&table(runs).to_html());
    let tasks = common_tasks(runs);
    if tasks.is_empty() {
        html.push_str(&html::paragraph("No task occurs in more than one run."));
    } else {
        html.push_str(&legend::draw("Tasks", &legend::STATES));
    }
    for task in tasks.iter().take(MOST_TASKS) {
        html.push_str(&side_by_side(runs, task, whole(runs), "the whole run", detail, numbers));
        let found = runs.iter().filter_map(|run| {
            let result = run.result.tasks.iter().find(|of| of.name == *task)?;
            let (window, what) = around_worst(result, run)?;
            Some((result.max_tardiness_ns, window, what))
        });
        if let Some((_, window, what)) = found.max_by_key(|(tardiness, ..)| *tardiness) {
            html.push_str(&side_by_side(runs, task, window, &what, detail, numbers));
        }
    }
    if tasks.len() > MOST_TASKS {
        html.push_str(&html::paragraph(&format!(
            "{MOST_TASKS} of {} tasks are drawn side by side: those with the most misses.",
            tasks.len()
        )));
    }
    html.push_str("</section>\n");
    html
}

/// Names of tasks that occur in more than one run: those with misses first, else in the order of the scenario.
fn common_tasks(runs: &[Run<'_>]) -> Vec<String> {
    let mut names: Vec<(u64, String)> = Vec::new();
    for task in runs.iter().flat_map(|run| &run.result.tasks) {
        let namesakes = || {
            runs.iter()
                .flat_map(|run| &run.result.tasks)
                .filter(|other| other.name == task.name)
        };
        if names.iter().any(|(_, name)| *name == task.name) || namesakes().count() < 2 {
            continue;
        }
        names.push((number::total(namesakes().map(|other| other.misses)), task.name.clone()));
    }
    names.sort_by_key(|(misses, _)| std::cmp::Reverse(*misses));
    names.into_iter().map(|(_, name)| name).collect()
}

fn table(runs: &[Run<'_>]) -> Table {
    let mut table = Table::new(
        "One row for each task of each run",
        &[
            "run",
            "sharing",
            "task",
            "jobs",
            "misses",
            "max tardiness",
            "response p50",
            "response p99",
            "response max",
            "swap-ins",
            "shared swap-ins",
            "peak frames used",
            "mostly late by",
        ],
    );
    for (position, run) in runs.iter().enumerate() {
        for task in &run.result.tasks {
            let response = &task.response_ns;
            let mut cells = vec![
                Cell::Head(label::of(runs, position)),
                Cell::Text(run.result.policy()),
                Cell::Text(task.name.clone()),
            ];
            cells.extend([task.jobs, task.misses].map(Cell::Count));
            cells.extend([task.max_tardiness_ns, response.p50, response.p99, response.max].map(Cell::Time));
            cells.extend(
                [
                    task.faults.swap_ins,
                    task.faults.shared_swap_ins,
                    run.result.memory.peak,
                ]
                .map(Cell::Count),
            );
            cells.push(Cell::Text(why(task)));
            if task.misses > 0 {
                table.marked_row(cells);
            } else {
                table.row(cells);
            }
        }
    }
    table
}

fn why(task: &TaskResult) -> String {
    if task.misses == 0 {
        return String::new();
    }
    task.late.late_delays_ns.reason(task.late.late_response_ns).to_string()
}
