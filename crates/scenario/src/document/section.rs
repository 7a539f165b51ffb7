//! Typed access to the keys of one table, with an error for every way a value can be wrong.

use super::schema::{self, Fields, Key, Shape, Type, Unset};
use super::tree::{Node, Value, get};
use crate::error::Fault;
use crate::quantity::{parse_size, parse_time};
use freehold_core::units::{ByteLen, Duration};

/// One table at its path.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    path: String,
    table: &'a [(String, Node)],
    fields: Fields,
}

type Read<T> = Result<Option<T>, Fault>;

impl<'a> Section<'a> {
    /// Refuses keys that `fields` does not know.
    pub(crate) fn new(path: String, table: &'a [(String, Node)], fields: Fields) -> Result<Self, Fault> {
        let section = Self { path, table, fields };
        for (key, _) in table {
            match schema::shape(fields, key) {
                Some(Shape::Later) => {
                    return Err(section.fault(key, format!("`{key}` is not in this version: remove it")));
                }
                Some(_) => {}
                None => {
                    let message = format!(
                        "unknown key `{}`: here may stand {}",
                        key.escape_debug(),
                        schema::known(fields)
                    );
                    return Err(section.fault(key, message));
                }
            }
        }
        Ok(section)
    }

    pub(crate) fn path(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    pub(crate) fn fault(&self, key: &str, message: impl Into<String>) -> Fault {
        Fault::new(self.path(key), message)
    }

    fn wrong(&self, key: &str, expected: &str, found: &Value) -> Fault {
        self.fault(key, format!("must be {expected}, not {}", found.kind()))
    }

    /// Refuses all keys but these.
    pub(crate) fn refuse_others(&self, known: &[&str], message: &str) -> Result<(), Fault> {
        let other = self.table.iter().find(|(key, _)| !known.contains(&key.as_str()));
        other.map_or(Ok(()), |(key, _)| Err(self.fault(key, message)))
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        get(self.table, key).is_some()
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        get(self.table, key).map(|node| &node.value)
    }

    /// The value that `key` must have; its declaration has an example.
    pub(crate) fn required<T>(&self, key: &str, value: Option<T>) -> Result<T, Fault> {
        let example = match self.declared(key).map(|declared| declared.unset) {
            Some(Unset::Required(example)) => example,
            _ => "\"…\"",
        };
        value.ok_or_else(|| self.missing(key, example))
    }

    /// What is said where `key` must stand and does not.
    pub(crate) fn missing(&self, key: &str, example: &str) -> Fault {
        self.fault(key, format!("is missing: add `{key} = {example}`"))
    }

    fn declared(&self, key: &str) -> Option<&'static Key> {
        schema::find(self.fields, key)
    }

    /// The reader takes a value for what its declaration says it is.
    fn check(&self, key: &str, is: impl Fn(Type) -> bool) {
        debug_assert!(
            matches!(self.declared(key), Some(Key { shape: Shape::Leaf(what), .. }) if is(*what)),
            "`{}` is declared as something else",
            self.path(key)
        );
    }

    fn text_like(&self, key: &str, expected: &str) -> Read<&'a str> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, expected, other)),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Read<String> {
        self.check(key, |what| what == Type::Text);
        Ok(self.text_like(key, "a string in quotes")?.map(str::to_owned))
    }

    pub(crate) fn size(&self, key: &str) -> Read<ByteLen> {
        self.check(key, |what| what == Type::Size);
        let text = self.text_like(key, "a size in quotes, such as \"10MiB\"")?;
        text.map(|text| parse_size(text).map_err(|message| self.fault(key, message)))
            .transpose()
    }

    pub(crate) fn time(&self, key: &str) -> Read<Duration> {
        self.check(key, |what| what == Type::Time);
        let text = self.text_like(key, "a time in quotes, such as \"40ms\"")?;
        text.map(|text| parse_time(text).map_err(|message| self.fault(key, message)))
            .transpose()
    }

    pub(crate) fn integer(&self, key: &str) -> Read<u64> {
        self.check(key, |what| matches!(what, Type::Whole(_)));
        match self.value(key) {
            None => Ok(None),
            Some(value) => self.whole(key, value).map(Some),
        }
    }

    fn whole(&self, key: &str, value: &Value) -> Result<u64, Fault> {
        match value {
            Value::Integer(Some(number)) => {
                u64::try_from(*number).map_err(|_| self.fault(key, format!("is {number}: must not be negative")))
            }
            other => Err(self.wrong(key, "a whole number", other)),
        }
    }

    /// A whole number that fits; its declaration says the range.
    pub(crate) fn small<T: TryFrom<u64>>(&self, key: &str) -> Read<T> {
        let number = self.integer(key)?;
        let rule = match self.declared(key).map(|declared| declared.shape) {
            Some(Shape::Leaf(Type::Whole(range))) => range,
            _ => "smaller",
        };
        number
            .map(|n| T::try_from(n).map_err(|_| self.fault(key, format!("is {n}: must be {rule}"))))
            .transpose()
    }

    pub(crate) fn integers(&self, key: &str) -> Read<Vec<u32>> {
        self.check(key, |what| what == Type::Wholes);
        let items = match self.value(key) {
            None => return Ok(None),
            Some(Value::List(items)) => items,
            Some(other) => return Err(self.wrong(key, "a list of numbers, such as [0, 1]", other)),
        };
        let number = |node: &Node| {
            let number = self.whole(key, &node.value)?;
            u32::try_from(number).map_err(|_| self.fault(key, format!("holds {number}, which is too large")))
        };
        items.iter().map(number).collect::<Result<_, _>>().map(Some)
    }

    pub(crate) fn number(&self, key: &str) -> Read<f64> {
        self.check(key, |what| matches!(what, Type::Number(_)));
        match self.value(key) {
            None => Ok(None),
            Some(Value::Float(number)) => Ok(Some(*number)),
            #[allow(
                clippy::cast_precision_loss,
                reason = "range checks follow; only small numbers pass them"
            )]
            Some(Value::Integer(Some(number))) => Ok(Some(*number as f64)),
            Some(other) => Err(self.wrong(key, "a number", other)),
        }
    }

    pub(crate) fn flag(&self, key: &str) -> Read<bool> {
        self.check(key, |what| what == Type::Flag);
        match self.value(key) {
            None => Ok(None),
            Some(Value::Flag(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.wrong(key, "true or false", other)),
        }
    }

    /// One of the words that are declared.
    pub(crate) fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Read<T> {
        self.check(
            key,
            |what| matches!(what, Type::Word(declared) if declared.iter().eq(words.iter().map(|(word, _)| word))),
        );
        let names = || {
            words
                .iter()
                .map(|(word, _)| format!("\"{word}\""))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let Some(text) = self.text_like(key, &format!("one of {}", names()))? else {
            return Ok(None);
        };
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => Err(self.fault(
                key,
                format!("`{}` is unknown: use one of {}", text.escape_debug(), names()),
            )),
        }
    }

    /// A table under a key, its keys not yet checked.
    pub(crate) fn entries(&self, key: &str) -> Read<&'a [(String, Node)]> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(table)),
            Some(other) => Err(self.wrong(key, "a table", other)),
        }
    }

    pub(crate) fn table(&self, key: &str, fields: Fields) -> Read<Section<'a>> {
        self.entries(key)?
            .map(|table| Section::new(self.path(key), table, fields))
            .transpose()
    }

    /// The tables of `[[key]]`, none where the key is absent.
    pub(crate) fn tables(&self, key: &str, fields: Fields) -> Result<Vec<Section<'a>>, Fault> {
        let expected = format!("a list of tables: write [[{key}]]");
        let items = match self.value(key) {
            None => return Ok(Vec::new()),
            Some(Value::List(items)) => items,
            Some(other) => return Err(self.wrong(key, &expected, other)),
        };
        let section = |(position, node): (usize, &'a Node)| match &node.value {
            Value::Table(table) => Section::new(format!("{}.{position}", self.path(key)), table, fields),
            other => Err(self.wrong(&format!("{key}.{position}"), "a table", other)),
        };
        items.iter().enumerate().map(section).collect()
    }
}
