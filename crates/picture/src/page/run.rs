//! The section of one run.

use std::fmt::Write;

use freehold_scenario::recording::TransferKind;
use freehold_scenario::results::{Placement, RunResult};

use super::{Detail, figures, legend, part, tables, whole};
use crate::chart::{delays, traffic};
use crate::html::{self, Table, escape};
use crate::svg::Numbers;
use crate::{Run, label, number};

/// So many late jobs are listed at once; the rest can be unfolded.
const LISTED: usize = 12;

pub(super) fn section(runs: &[Run<'_>], position: usize, detail: Detail, numbers: &mut Numbers) -> String {
    let Some(run) = runs.get(position) else {
        return String::new();
    };
    let result = run.result;
    let counted_at = run.scenario.counts_at().get();
    let mut html = format!(
        "<section id=\"run{}\">\n<h2>{}</h2>\n",
        position + 1,
        escape(&label::of(runs, position))
    );
    html.push_str(&facts(run));
    html.push_str(&beside(&[
        tables::jobs(result),
        tables::faults(result, counted_at),
        tables::times(result),
    ]));
    html.push_str(&executions(runs, position, detail, numbers));
    html.push_str(&misses(result, numbers));
    let responses = figures::responses(runs, position, numbers);
    if !responses.is_empty() {
        html.push_str(&part(3, "Response times", &responses));
    }
    html.push_str(&memory(runs, position, detail, numbers));
    html.push_str("</section>\n");
    html
}

/// What ran, whether the laws held, and what to know.
fn facts(run: &Run<'_>) -> String {
    let result = run.result;
    let late = number::total(result.tasks.iter().map(|task| task.misses));
    let jobs = number::total(result.tasks.iter().map(|task| task.jobs));
    let engine = match result.head.placement {
        None => run.engine_name().to_owned(),
        Some(Placement::Embedded) => format!("{}, embedded", run.engine_name()),
        Some(Placement::Server) => format!("{}, server", run.engine_name()),
        Some(Placement::Kernel) => format!("{}, kernel", run.engine_name()),
    };
    let (duration, seed) = (number::time(result.head.duration_ns), result.head.seed);
    let mut html = format!("<p class=\"facts\">{engine}, seed {seed}, {duration}. ");
    let _ = match late {
        0 => write!(
            html,
            "<strong class=\"good\">No deadline missed</strong> in {} jobs. ",
            number::grouped(jobs)
        ),
        _ => write!(
            html,
            "<strong class=\"bad\">{} of {} jobs late.</strong> ",
            number::grouped(late),
            number::grouped(jobs)
        ),
    };
    let (checked, broken) = (number::grouped(result.laws.checked), result.laws.violations.len());
    let _ = match broken {
        0 => writeln!(
            html,
            "<strong class=\"good\">Laws held</strong>, checked {checked} times.</p>"
        ),
        _ => writeln!(
            html,
            "<strong class=\"bad\">{broken} laws broken</strong>, checked {checked} times.</p>"
        ),
    };
    if broken > 0 {
        html.push_str(&tables::violations(result).to_html());
    }
    html.push_str(&notes(run));
    html
}

/// Warnings of the run, and what the recording lacks.
fn notes(run: &Run<'_>) -> String {
    let mut notes: Vec<String> = run.result.warnings.clone();
    let recording = run.recording;
    if recording.lost > 0 {
        notes.push(format!(
            "{} events found no room in the recording: of every kind the first ones are drawn",
            number::grouped(recording.lost)
        ));
    }
    if recording
        .tasks
        .iter()
        .all(|task| task.jobs.is_empty() && task.spans.is_empty())
    {
        notes.push("nothing was recorded of what tasks did: the tables are all there is".to_owned());
    }
    if notes.is_empty() {
        return String::new();
    }
    let items: Vec<String> = notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    format!("<ul class=\"notes\">\n{}\n</ul>\n", items.join("\n"))
}

fn executions(runs: &[Run<'_>], position: usize, detail: Detail, numbers: &mut Numbers) -> String {
    if runs.get(position).is_none_or(|run| run.result.tasks.is_empty()) {
        return html::paragraph("There are no tasks.");
    }
    let mut body = legend::draw("Tasks", &legend::STATES);
    body.push_str(&legend::draw("Marks beneath, from the top", &legend::FAULTS));
    body.push_str(&figures::executions(runs, position, detail, numbers));
    part(3, "Execution", &body)
}

fn misses(result: &RunResult, numbers: &mut Numbers) -> String {
    let late = result.tasks.iter().filter(|task| task.misses > 0);
    let mut body = String::new();
    for task in late {
        body.push_str(&html::paragraph(task.why_late().trim_end()));
        body.push_str(&delays::draw(task, numbers));
        let table = tables::late(task);
        let caption = format!("Late jobs of {}", task.name);
        body.push_str(&table.part(&caption, 0..table.len().min(LISTED)).to_html());
        if table.len() > LISTED {
            let rest = table.part(&format!("{caption}, the rest"), LISTED..table.len());
            let (more, total) = (table.len() - LISTED, task.late.late_jobs_total);
            let _ = write!(
                body,
                "<details><summary>{more} more late jobs; the result lists {} of {total}</summary>\n{}</details>\n",
                task.late.late_jobs.len(),
                rest.to_html()
            );
        }
    }
    if body.is_empty() {
        return body;
    }
    part(
        3,
        "Deadlines missed",
        &format!("{}{body}", legend::draw("Causes", &legend::CAUSES)),
    )
}

fn memory(runs: &[Run<'_>], position: usize, detail: Detail, numbers: &mut Numbers) -> String {
    let Some(run) = runs.get(position) else {
        return String::new();
    };
    let (result, counted_at) = (run.result, run.scenario.counts_at().get());
    let mut body = beside(&[
        tables::memory(result),
        tables::reservations(result, counted_at),
        tables::regions(result),
        tables::units(result),
        tables::waits(result),
    ]);
    body.push_str(&html::paragraph(&store(run)));
    body.push_str(&traffic::draw(run, whole(runs), numbers));
    if !run.recording.samples.is_empty() {
        if !result.reservations.is_empty() {
            body.push_str(&legend::draw("Lists, from the bottom", &legend::LISTS));
            body.push_str(&legend::draw("Frames held, from the bottom", &legend::FRAMES));
        }
        body.push_str(&figures::memory(runs, position, detail, numbers));
    }
    part(3, "Memory", &body)
}

/// Tables that have rows, beside each other where there is room.
fn beside(tables: &[Table]) -> String {
    let tables = tables.iter().filter(|table| !table.is_empty());
    let tables: String = tables.map(Table::to_html).collect();
    format!("<div class=\"tables\">\n{tables}</div>\n")
}

/// The store, and how long it took.
fn store(run: &Run<'_>) -> String {
    let config = &run.scenario.store;
    let mut text = format!(
        "Store: {}, {} a page, {} at once.",
        config.kind.name(),
        number::time(config.latency.get()),
        config.parallel
    );
    for (kind, name) in [(TransferKind::Read, "reads"), (TransferKind::Write, "writes")] {
        let transfers = run.recording.transfers.iter().filter(|transfer| transfer.kind == kind);
        let mut times: Vec<u64> = transfers.map(|of| of.to_ns.saturating_sub(of.from_ns)).collect();
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len().saturating_sub(1) * percent / 100).copied();
        if let (Some(median), Some(slow), Some(longest)) = (at(50), at(99), at(100)) {
            text.push_str(&format!(
                " {} {name} recorded: p50 {}, p99 {}, max {} from request to end.",
                number::grouped(times.len() as u64),
                number::time(median),
                number::time(slow),
                number::time(longest)
            ));
        }
    }
    let line = run.result.store.line();
    if !line.is_empty() {
        text.push_str(&format!(" Live: {}.", line.trim_end()));
    }
    text
}
