//! A TOML document whose every value knows where it was written.

use toml::de::{DeTable, DeValue};

/// Where a value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A line of the file, from 1.
    Line(usize),
    /// An override, by its position.
    Set(usize),
}

/// Keys and values in the order written.
pub(crate) type Table = Vec<(String, Node)>;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    /// `None` past the range of an `i64`.
    Integer(Option<i64>),
    Float(f64),
    Flag(bool),
    Date,
    List(Vec<Node>),
    Table(Table),
}

impl Value {
    /// What it is, in a sentence.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(Some(_)) => "a number",
            Self::Integer(None) => "one out of range: at most 9223372036854775807",
            Self::Float(_) => "a fraction",
            Self::Flag(_) => "true or false",
            Self::Date => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// Finds the line of a byte offset.
#[derive(Debug)]
pub(crate) struct Lines {
    /// Offsets after each line end.
    starts: Vec<usize>,
}

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        Self {
            starts: text
                .bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(at, _)| at + 1)
                .collect(),
        }
    }

    /// The line of an offset, from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset) + 1
    }
}

/// Takes over a parsed table. `origin` maps a byte offset to where that was written.
pub(crate) fn table(parsed: &DeTable<'_>, origin: &dyn Fn(usize) -> Origin) -> Table {
    let mut entries: Vec<_> = parsed.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| {
        let node = Node {
            value: self::value(value.get_ref(), origin),
            origin: origin(key.span().start),
        };
        (key.get_ref().to_string(), node)
    };
    entries.into_iter().map(entry).collect()
}

/// Takes over a parsed value.
pub(crate) fn value(parsed: &DeValue<'_>, origin: &dyn Fn(usize) -> Origin) -> Value {
    match parsed {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => Value::Integer(i64::from_str_radix(number.as_str(), number.radix()).ok()),
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => {
            let node = |item: &toml::Spanned<DeValue<'_>>| Node {
                value: value(item.get_ref(), origin),
                origin: origin(item.span().start),
            };
            Value::List(items.iter().map(node).collect())
        }
        DeValue::Table(inner) => Value::Table(table(inner, origin)),
    }
}

/// The value under `key`.
pub(crate) fn get<'a>(table: &'a [(String, Node)], key: &str) -> Option<&'a Node> {
    table.iter().find(|(name, _)| name == key).map(|(_, node)| node)
}

/// The value at a path of keys and positions, or the deepest one on the way; and whether the whole path exists.
pub(crate) fn locate(table: &[(String, Node)], path: &str) -> (Option<Origin>, bool) {
    let mut found: Option<&Node> = None;
    for part in path.split('.') {
        let next = match found.map(|node| &node.value) {
            None => get(table, part),
            Some(Value::Table(inner)) => get(inner, part),
            Some(Value::List(items)) => part.parse::<usize>().ok().and_then(|position| items.get(position)),
            Some(_) => None,
        };
        match next {
            Some(node) => found = Some(node),
            None => return (found.map(|node| node.origin), false),
        }
    }
    (found.map(|node| node.origin), true)
}
