//! What colours, hatches and heights mean.

use std::fmt::Write;

/// Hatches that all charts of the page use. Not shown itself; a picture that is not displayed at all would lose them.
pub(super) const PATTERNS: &str = include_str!("patterns.svg");

/// A swatch's class, and what it means.
type Entry = (&'static str, &'static str);

/// Of execution histories.
pub(super) const STATES: [Entry; 5] = [
    ("running", "running (full height)"),
    ("wait", "store wait, suspended (two thirds)"),
    ("spin", "store wait, spinning (two thirds)"),
    ("ready", "ready (one third)"),
    ("late", "late: past the deadline"),
];

/// Of the marks beneath execution histories, from the top down.
pub(super) const FAULTS: [Entry; 5] = [
    ("fault-shared", "shared swap-ins: another evicted the page"),
    ("fault-swap", "swap-ins and file reads"),
    ("fault-zero", "zero fills and copies"),
    ("fault-soft", "soft and write faults"),
    ("fault-failed", "failed faults"),
];

/// Of lists, from the bottom up.
pub(super) const LISTS: [Entry; 6] = [
    ("active", "active"),
    ("inactive", "inactive"),
    ("locked", "locked"),
    ("flight", "in flight"),
    ("owed", "owed by the pool"),
    ("free", "free"),
];

/// Of frames held, from the bottom up.
pub(super) const FRAMES: [Entry; 4] = [
    ("owned", "owned pages"),
    ("conserved", "conserved for foreign pages"),
    ("flight", "in flight"),
    ("free", "free"),
];

/// Of late jobs, from the left.
pub(super) const CAUSES: [Entry; 5] = [
    ("cpu-wait", "CPU wait"),
    ("wait", "store wait"),
    ("service", "fault service"),
    ("lock-wait", "lock wait"),
    ("running", "own computation"),
];

/// A list of swatches.
pub(super) fn draw(title: &str, entries: &[Entry]) -> String {
    let mut html = format!("<ul class=\"legend\" aria-label=\"{title}\"><li><b>{title}:</b></li>");
    for (class, meaning) in entries {
        let _ = write!(
            html,
            "<li><svg width=\"22\" height=\"12\" aria-hidden=\"true\">\
             <path class=\"{class}\" d=\"M1 1h20v10h-20z\"/></svg> {meaning}</li>"
        );
    }
    html.push_str("</ul>\n");
    html
}
