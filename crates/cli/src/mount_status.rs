//! What a mount tells of itself: it serves devices, not reservations, so its socket answers with rows of its own.

use std::path::Path;

use freehold_client::device;
use freehold_scenario::results::{Align, TextTable};
use serde_json::{Map, Value};

use crate::connect;
use freehold_command::exit_status::{Failure, Status};
use freehold_command::output;

/// Shows the status of whoever serves devices at this socket; `None` where nobody does.
pub(crate) fn show(socket: &Path, as_json: bool) -> Option<Result<Status, Failure>> {
    let text = device::status(socket).ok()?;
    let shown = if as_json {
        connect::print_document(&text)
    } else {
        connect::read(&text).and_then(|document| output::print(&page(&document)))
    };
    Some(shown.map(|()| Status::Done))
}

/// The document for people: its rows one beneath the other, and the devices in a table.
fn page(document: &Map<String, Value>) -> String {
    let mut parts = Vec::new();
    for (title, value) in document {
        match value {
            Value::Object(row) => parts.push(format!("{title}\n{}", pairs(row))),
            Value::Array(rows) if !rows.is_empty() => parts.push(format!("{title}\n{}", table(rows))),
            Value::Bool(true) => parts.push(format!("{title}: only what you may know\n")),
            _ => {}
        }
    }
    parts.join("\n")
}

fn pairs(row: &Map<String, Value>) -> TextTable {
    let mut table = TextTable::new(&[("", Align::Left), ("", Align::Right)]);
    for (name, value) in row {
        match value {
            Value::Object(inner) => {
                let inner = inner
                    .iter()
                    .map(|(part, value)| [format!("{name}.{part}"), plain(value)]);
                inner.for_each(|cells| table.row(cells));
            }
            value => table.row([name.clone(), plain(value)]),
        }
    }
    table
}

/// Rows with the same fields, those that are single values.
fn table(rows: &[Value]) -> TextTable {
    let first = rows.first().and_then(Value::as_object);
    let single = |(_, value): &(&String, &Value)| !value.is_object() && !value.is_array();
    let names: Vec<&str> = first
        .into_iter()
        .flatten()
        .filter(single)
        .map(|(name, _)| name.as_str())
        .collect();
    let columns: Vec<(&str, Align)> = names.iter().map(|name| (*name, Align::Left)).collect();
    let mut table = TextTable::new(&columns);
    for row in rows {
        table.row(names.iter().map(|name| plain(&row[*name])));
    }
    table
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(texts) => texts.iter().map(plain).collect::<Vec<_>>().join("; "),
        value => value.to_string(),
    }
}
