//! The tables of keys in `docs/book/src/scenario.md`.

use super::keys::{DEVICE_FILE, ROOT};
use super::schema::{Fields, Key, Shape, Type, Unset};
use std::fmt::Write;

/// Every key of scenario files and of device files, as tables in Markdown. `docs/book/src/scenario.md` has them, and a
/// test of this crate compares both.
#[must_use]
pub fn tables_of_keys() -> String {
    let mut out = String::new();
    section(&mut out, "At the top", "", ROOT);
    below(&mut out, "", ROOT);
    section(&mut out, "Device files", "A device file has these tables.", DEVICE_FILE);
    below(&mut out, "", DEVICE_FILE);
    out
}

/// The sections of the tables under `fields`, whose own path is `path`.
fn below(out: &mut String, path: &str, fields: Fields) {
    for key in fields {
        let name = format!("{path}{}", key.name);
        let (title, inner) = match key.shape {
            Shape::Table(inner) => (format!("`[{name}]`"), inner),
            Shape::Named(inner) | Shape::Numbered(inner) => (format!("`[[{name}]]`"), inner),
            Shape::Leaf(_) | Shape::PerRegion | Shape::Later => continue,
        };
        section(out, &title, key.about, inner);
        below(out, &format!("{name}."), inner);
    }
}

// Writing to a `String` cannot fail, so results of `write!` are dropped.
fn section(out: &mut String, title: &str, about: &str, fields: Fields) {
    let rows: Vec<String> = fields.iter().filter_map(row).collect();
    let _ = writeln!(out, "### {title}\n");
    if !about.is_empty() {
        let _ = writeln!(out, "{about}\n");
    }
    if !rows.is_empty() {
        let _ = writeln!(
            out,
            "| key | value | left out | meaning |\n|---|---|---|---|\n{}",
            rows.join("\n")
        );
        let _ = writeln!(out);
    }
}

/// A value's row; tables have sections of their own.
fn row(key: &Key) -> Option<String> {
    let value = match key.shape {
        Shape::Leaf(Type::Text) => "text".to_owned(),
        Shape::Leaf(Type::Size) => "size".to_owned(),
        Shape::Leaf(Type::Time) => "time".to_owned(),
        Shape::Leaf(Type::Whole(range)) => format!("whole number: {range}"),
        Shape::Leaf(Type::Number(range)) => format!("number: {range}"),
        Shape::Leaf(Type::Flag) => "`true`, `false`".to_owned(),
        Shape::Leaf(Type::Wholes) => "list of whole numbers".to_owned(),
        Shape::Leaf(Type::Word(words)) => words
            .iter()
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", "),
        Shape::PerRegion => "table of regions".to_owned(),
        Shape::Table(_) | Shape::Named(_) | Shape::Numbered(_) | Shape::Later => return None,
    };
    let unset = match key.unset {
        Unset::Required(_) => "must stand",
        Unset::Is(what) => what,
    };
    Some(format!("| `{}` | {value} | {unset} | {} |", key.name, key.about))
}
