//! Prometheus' text format: families of samples, each made of the rows of a table.

use std::fmt::{self, Display, Write};

/// Whether a number only grows until the server ends, or goes up and down.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Counter,
    Gauge,
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        })
    }
}

/// A number that every row of a table has.
#[derive(Debug)]
pub(super) struct Metric<T> {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&T) -> u64,
}

/// A number that only grows.
pub(super) const fn counter<T>(name: &'static str, help: &'static str, value: fn(&T) -> u64) -> Metric<T> {
    Metric {
        name,
        kind: Kind::Counter,
        help,
        value,
    }
}

/// A number that goes up and down.
pub(super) const fn gauge<T>(name: &'static str, help: &'static str, value: fn(&T) -> u64) -> Metric<T> {
    Metric {
        name,
        kind: Kind::Gauge,
        help,
        value,
    }
}

/// A label with a value that is the same in every run.
pub(super) type Label = (&'static str, &'static str);

/// A row of a table, and what tells it from the others.
#[derive(Debug)]
pub(super) struct Row<'a, T> {
    of: &'a T,
    labels: Vec<(&'static str, String)>,
}

impl<'a, T> Row<'a, T> {
    pub(super) fn new(of: &'a T) -> Self {
        Self { of, labels: Vec::new() }
    }

    /// The rows with their names and, because two may have the same name, their places.
    pub(super) fn numbered(rows: &'a [T], label: &'static str, name: fn(&T) -> &str) -> Vec<Self> {
        let numbered = rows.iter().enumerate();
        numbered
            .map(|(place, of)| Self::new(of).with(label, name(of)).with("row", place))
            .collect()
    }

    pub(super) fn with(mut self, label: &'static str, value: impl Display) -> Self {
        self.labels.push((label, value.to_string()));
        self
    }

    fn and<const L: usize>(&self, more: [Label; L]) -> Vec<(&'static str, String)> {
        let more = more.map(|(label, value)| (label, value.to_owned()));
        self.labels.iter().cloned().chain(more).collect()
    }
}

/// Writes families of metrics one after the other.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// A family for each metric of a table. The names of all begin with `prefix`.
    pub(super) fn table<T>(&mut self, prefix: &str, metrics: &[Metric<T>], rows: &[Row<'_, T>]) {
        for metric in metrics {
            let name = format!("{prefix}{}", metric.name);
            self.family(&name, metric.kind, metric.help, rows, metric.value);
        }
    }

    /// One family.
    pub(super) fn family<T, V: Display>(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        rows: &[Row<'_, T>],
        value: impl Fn(&T) -> V,
    ) {
        self.head(name, kind, help);
        for row in rows {
            self.sample(name, &row.labels, value(row.of));
        }
    }

    /// A family with a sample for each part of a row, told apart by further labels.
    pub(super) fn parts<T, V: Display, const L: usize, const N: usize>(
        &mut self,
        (name, kind, help): (&str, Kind, &str),
        rows: &[Row<'_, T>],
        parts: impl Fn(&T) -> [([Label; L], V); N],
    ) {
        self.head(name, kind, help);
        for row in rows {
            for (labels, value) in parts(row.of) {
                self.sample(name, &row.and(labels), value);
            }
        }
    }

    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(
            self.text,
            "# HELP freehold_{name} {help}\n# TYPE freehold_{name} {kind}"
        );
    }

    fn sample(&mut self, name: &str, labels: &[(&'static str, String)], value: impl Display) {
        self.text.push_str("freehold_");
        self.text.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escape(text));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

/// A label's value as the format wants it.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        let row = Row::new(&1).with("a", "q\"b\\c\nd").with("b", "");
        page.family("x", Kind::Gauge, "X.", &[row], |value| *value);
        let sample = page.into_text().lines().last().map(str::to_owned);
        assert_eq!(sample.as_deref(), Some("freehold_x{a=\"q\\\"b\\\\c\\nd\",b=\"\"} 1"));
    }
}
