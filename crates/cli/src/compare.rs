//! Several runs side by side: who missed what, and why.

use freehold_scenario::results::{Align, TaskResult, TextTable};

use freehold_command::engine::Outcome;
use freehold_command::output::human_time;

/// One row for each task of each run, then whether the laws held.
pub(crate) fn page(outcomes: &[Outcome]) -> String {
    let (name, number) = (Align::Left, Align::Right);
    let mut table = TextTable::new(&[
        ("scenario", name),
        ("policy", name),
        ("task", name),
        ("jobs", number),
        ("misses", number),
        ("worst response", number),
        ("shared swap-ins", number),
        ("why", name),
    ]);
    for outcome in outcomes {
        for task in &outcome.result.tasks {
            table.row([
                outcome.result.head.scenario.clone(),
                outcome.result.policy(),
                task.name.clone(),
                task.jobs.to_string(),
                task.misses.to_string(),
                human_time(task.response_ns.max),
                task.faults.shared_swap_ins.to_string(),
                why(task),
            ]);
        }
    }
    let checks: u64 = outcomes.iter().map(|outcome| outcome.result.laws.checked).sum();
    let broken: usize = outcomes.iter().map(|outcome| outcome.broken_laws().count()).sum();
    let verdict = match broken {
        0 => format!("laws: all held, checked {checks} times"),
        _ => format!("laws: {broken} broken, checked {checks} times"),
    };
    format!("{table}\n{verdict}\n")
}

/// Why a task missed deadlines, in a few words.
fn why(task: &TaskResult) -> String {
    if task.misses == 0 {
        return String::new();
    }
    let reason = task.late.late_delays_ns.reason(task.late.late_response_ns);
    let evicted = task.faults.shared_swap_ins;
    if evicted > 0 {
        format!("{reason}: another evicted {evicted} pages it still held")
    } else {
        reason.to_string()
    }
}
