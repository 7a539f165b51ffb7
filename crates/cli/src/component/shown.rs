//! Compositions that run, as tables and as metrics: r, a, δ, b, used, and who waits for whom.

use freehold_component::{Running, Wait};
use freehold_scenario::results::{Align, TextTable};
use std::fmt::Write;

/// What is said of a component that writes where it must not; nothing of others.
pub(super) fn violations(count: u64) -> String {
    if count == 0 {
        return String::new();
    }
    format!("  VIOLATIONS {count}: it writes to units that are not its own, or to what is known of them")
}

/// Units of each component of every composition.
pub(crate) fn units(all: &[Running]) -> TextTable {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = TextTable::new(&[
        ("composition", left),
        ("component", left),
        ("kind", left),
        ("r", right),
        ("a", right),
        ("δ", right),
        ("used", right),
        ("waits", right),
        ("b (us)", right),
        ("violations", right),
    ]);
    for (running, unit) in all
        .iter()
        .flat_map(|running| running.units.iter().map(move |unit| (running, unit)))
    {
        table.row([
            running.composition.clone(),
            unit.component.clone(),
            unit.kind.clone(),
            unit.requested.to_string(),
            unit.allocated.to_string(),
            unit.desired.to_string(),
            unit.used.to_string(),
            unit.contended.to_string(),
            (unit.blocked_ns / 1000).to_string(),
            unit.violations.to_string(),
        ]);
    }
    table
}

/// Whose job waits for whose.
pub(crate) fn waits(all: &[Running]) -> TextTable {
    let left = Align::Left;
    let mut table = TextTable::new(&[("thread", left), ("waits for", left), ("in", left), ("kind", left)]);
    for wait in all.iter().flat_map(|running| &running.waits) {
        table.row([
            wait.thread.clone(),
            wait.holder.clone().unwrap_or_else(|| "another thread".to_owned()),
            wait.component.clone(),
            wait.kind.clone(),
        ]);
    }
    table
}

/// Both, with titles, where there is something; what cannot be read is not there.
pub(crate) fn tables() -> Vec<(&'static str, TextTable)> {
    let all = freehold_component::running().map(|all| all.known).unwrap_or_default();
    let tables = [
        ("components (units)", units(&all)),
        ("jobs that wait for units", waits(&all)),
    ];
    tables.into_iter().filter(|(_, table)| !table.is_empty()).collect()
}

/// What a component or a thread of a composition can count on, in sentences; empty where there is none of the name.
pub(crate) fn explain(all: &[Running], target: &str) -> Vec<String> {
    let mut text = Vec::new();
    for running in all {
        for unit in running.units.iter().filter(|unit| unit.component == target) {
            text.push(format!(
                "{} of {target} in {}: {} units (a), {} wanted at the same time (r), {} used, {} it ought to have (δ); \
                 {} requests waited, {} us in all (b)",
                unit.kind,
                running.composition,
                unit.allocated,
                unit.requested,
                unit.used,
                unit.desired,
                unit.contended,
                unit.blocked_ns / 1000,
            ));
            if unit.violations > 0 {
                text.push(format!(
                    "{target} has a fault: at {} runs of the policy it had written to units that are not its own, or \
                     to what is known of them",
                    unit.violations
                ));
            }
            if unit.requested > unit.allocated {
                let missing = unit.requested - unit.allocated;
                text.push(format!("{} more at the same time wait for their users", missing));
            }
        }
        let about = |wait: &&Wait| [wait.component.as_str(), wait.thread.as_str()].contains(&target);
        for wait in running.waits.iter().filter(about) {
            let holder = wait.holder.as_deref().unwrap_or("another thread");
            let (thread, kind, component) = (&wait.thread, &wait.kind, &wait.component);
            text.push(format!(
                "a job of {thread} waits for {holder}, which has a {kind} of {component}"
            ));
        }
    }
    text
}

/// In Prometheus' text format.
pub(super) fn metrics(all: &[Running]) -> String {
    let mut text = String::new();
    let families = [
        (
            "requested",
            "gauge",
            "Units wanted at the same time in the last period (r)",
        ),
        ("allocated", "gauge", "Units that the component has (a)"),
        ("desired", "gauge", "Units that it ought to have"),
        ("used", "gauge", "Units in use in the last period"),
        ("waits_total", "counter", "Requests that waited"),
        ("blocked_nanoseconds_total", "counter", "How long they waited (b)"),
        (
            "violations_total",
            "counter",
            "Runs of the policy that found units or memory that it had not granted",
        ),
    ];
    for (at, (name, kind, help)) in families.into_iter().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "# HELP freehold_component_{name} {help}\n# TYPE freehold_component_{name} {kind}"
        );
        for (running, unit) in all
            .iter()
            .flat_map(|running| running.units.iter().map(move |unit| (running, unit)))
        {
            let numbers = [
                unit.requested.into(),
                unit.allocated.into(),
                unit.desired.into(),
                unit.used.into(),
                unit.contended,
                unit.blocked_ns,
                unit.violations,
            ];
            let labels = [&running.composition, &unit.component, &unit.kind].map(|label| escape(label));
            let [composition, component, units] = labels;
            let labels = format!("composition=\"{composition}\",component=\"{component}\",kind=\"{units}\"");
            let _ = writeln!(text, "freehold_component_{name}{{{labels}}} {}", numbers[at]);
        }
    }
    text
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::{explain, metrics, units, waits};
    use freehold_component::{Running, UnitState, Wait};

    #[test]
    fn every_number_is_shown() {
        let all = [Running {
            composition: "a \"b\"".to_owned(),
            manager: 1,
            components: Vec::new(),
            units: vec![UnitState {
                component: "files".to_owned(),
                kind: "cbuf".to_owned(),
                requested: 11,
                allocated: 12,
                desired: 13,
                used: 14,
                contended: 15,
                blocked_ns: 16_000,
                violations: 17,
            }],
            waits: vec![Wait {
                thread: "fast".to_owned(),
                component: "files".to_owned(),
                kind: "cbuf".to_owned(),
                holder: Some("slow".to_owned()),
            }],
        }];
        let (table, text) = (units(&all).to_string(), metrics(&all));
        for number in ["11", "12", "13", "14", "15", "17"] {
            assert!(
                table.contains(number) && text.contains(&format!("kind=\"cbuf\"}} {number}\n")),
                "{number}"
            );
        }
        assert!(text.contains("composition=\"a \\\"b\\\"\"") && text.contains(" 16000\n"));
        let said = explain(&all, "files").join("\n");
        for part in [
            "12 units (a), 11 wanted",
            "14 used, 13 it",
            "15 requests waited, 16 us",
            "at 17 runs",
            "fast waits for slow",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!((explain(&all, "fast").len(), explain(&all, "nobody").len()), (1, 0));
        let waits = waits(&all).to_string();
        assert!(waits.contains("fast") && waits.contains("slow"));
    }
}
