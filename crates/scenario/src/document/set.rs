//! Overrides: `task.tau1.period=50ms` put into the document before it is read.

use super::schema::{self, Fields, Shape};
use super::tree::{Node, Origin, Table, Value, get, value};
use crate::error::Fault;
use toml::de::DeValue;

/// The value of an override: TOML where it is TOML, else a string, so that quotes may be left out.
pub(super) fn parse_value(text: &str, origin: Origin) -> Node {
    let parsed = DeValue::parse(text)
        .ok()
        .map(|parsed| value(parsed.get_ref(), &|_| origin));
    Node {
        value: parsed.unwrap_or_else(|| Value::Text(text.to_owned())),
        origin,
    }
}

/// Puts `node` at the address `rest` below `table`, whose own address is `at`.
pub(super) fn put(table: &mut Table, fields: Fields, at: &str, rest: &str, node: Node) -> Result<(), Fault> {
    let (key, below) = split(rest);
    let path = join(at, key);
    match schema::shape(fields, key) {
        None => {
            let message = format!(
                "there is no key `{}` here: there is {}",
                key.escape_debug(),
                schema::known(fields)
            );
            Err(Fault::new(path, message))
        }
        Some(Shape::Later) => Err(Fault::new(path, format!("`{key}` is not in this version"))),
        Some(Shape::Leaf(_)) => match below {
            Some(below) => Err(Fault::new(
                join(&path, below),
                format!("`{key}` is one value, nothing is below it"),
            )),
            None => {
                replace(table, key, node);
                Ok(())
            }
        },
        Some(Shape::Table(inner)) => {
            let below = below.ok_or_else(|| deeper(&path, &schema::known(inner)))?;
            put(table_at(table, key, &path, node.origin)?, inner, &path, below, node)
        }
        Some(Shape::PerRegion) => {
            let below = below.ok_or_else(|| deeper(&path, "the name of a region"))?;
            replace(table_at(table, key, &path, node.origin)?, below, node);
            Ok(())
        }
        Some(Shape::Named(inner)) => put_in_list(table, key, &path, below, (inner, true), node),
        Some(Shape::Numbered(inner)) => put_in_list(table, key, &path, below, (inner, false), node),
    }
}

/// Puts `node` into one element of a list of tables, addressed by name or by position.
fn put_in_list(
    table: &mut Table,
    key: &str,
    path: &str,
    below: Option<&str>,
    (fields, named): (Fields, bool),
    node: Node,
) -> Result<(), Fault> {
    let items = match table
        .iter_mut()
        .find(|(name, _)| name == key)
        .map(|(_, node)| &mut node.value)
    {
        Some(Value::List(items)) => items,
        Some(_) => return Err(Fault::new(path, "is not a list of tables in the file")),
        None => return Err(Fault::new(path, "there is none in the file")),
    };
    let labels: Vec<String> = items
        .iter()
        .enumerate()
        .map(|(at, item)| label(at, item, named))
        .collect();
    let known = if labels.is_empty() {
        "none".to_owned()
    } else {
        labels.join(", ")
    };
    let (wanted, below) = split(below.ok_or_else(|| deeper(path, &known))?);
    let element = join(path, wanted);
    let Some(position) = labels.iter().position(|label| label == wanted) else {
        let message = format!("there is no {key} `{}`: there is {known}", wanted.escape_debug());
        return Err(Fault::new(element, message));
    };
    let below = below.ok_or_else(|| deeper(&element, &schema::known(fields)))?;
    match items.get_mut(position).map(|item| &mut item.value) {
        Some(Value::Table(inner)) => put(inner, fields, &element, below, node),
        _ => Err(Fault::new(element, "is not a table in the file")),
    }
}

/// How an element of a list is addressed.
fn label(position: usize, item: &Node, named: bool) -> String {
    match &item.value {
        Value::Table(table) if named => match get(table, "name").map(|node| &node.value) {
            Some(Value::Text(name)) => name.clone(),
            _ => String::new(),
        },
        _ => position.to_string(),
    }
}

fn deeper(path: &str, known: &str) -> Fault {
    Fault::new(path, format!("the address goes on: below it there is {known}"))
}

fn table_at<'a>(table: &'a mut Table, key: &str, path: &str, origin: Origin) -> Result<&'a mut Table, Fault> {
    let position = table.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
        table.push((
            key.to_owned(),
            Node {
                value: Value::Table(Table::new()),
                origin,
            },
        ));
        table.len() - 1
    });
    match table.get_mut(position).map(|(_, node)| &mut node.value) {
        Some(Value::Table(inner)) => Ok(inner),
        _ => Err(Fault::new(path, "is not a table in the file")),
    }
}

fn replace(table: &mut Table, key: &str, node: Node) {
    match table.iter_mut().find(|(name, _)| name == key) {
        Some((_, old)) => *old = node,
        None => table.push((key.to_owned(), node)),
    }
}

fn split(address: &str) -> (&str, Option<&str>) {
    address
        .split_once('.')
        .map_or((address, None), |(key, below)| (key, Some(below)))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
