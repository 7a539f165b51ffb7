//! How keys are declared. The reader refuses what is not declared, `--set` reaches what is, and the documentation is
//! made of it; the declarations themselves are in [`super::keys`].

use super::section::Section;
use super::tree::Node;
use crate::error::Fault;

/// A document's root.
pub(crate) type Tree = [(String, Node)];

/// The root as a section, its keys checked.
pub(crate) fn section(table: &Tree, fields: Fields) -> Result<Section<'_>, Fault> {
    Section::new(String::new(), table, fields)
}

/// The keys of one table, in the order of the documentation.
pub(crate) type Fields = &'static [Key];

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) unset: Unset,
    /// What it is, for the documentation.
    pub(crate) about: &'static str,
}

/// What stands under a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// One value.
    Leaf(Type),
    /// A table.
    Table(Fields),
    /// A list of tables, each addressed by its `name`.
    Named(Fields),
    /// A list of tables, addressed by position.
    Numbered(Fields),
    /// A table whose keys are the names of regions.
    PerRegion,
    /// Part of the format, but not of this version.
    Later,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A string.
    Text,
    /// A size with its unit.
    Size,
    /// A time with its unit.
    Time,
    /// A whole number in the range that is said.
    Whole(&'static str),
    /// A number in the range that is said.
    Number(&'static str),
    /// `true` or `false`.
    Flag,
    /// A list of whole numbers.
    Wholes,
    /// One of these.
    Word(&'static [&'static str]),
}

/// What holds where a key is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unset {
    /// It must not be: such a value is missing.
    Required(&'static str),
    /// This, for the documentation.
    Is(&'static str),
}

impl Key {
    /// A value with what holds where it is left out.
    pub(crate) const fn value(name: &'static str, what: Type, unset: &'static str, about: &'static str) -> Self {
        Self {
            name,
            shape: Shape::Leaf(what),
            unset: Unset::Is(unset),
            about,
        }
    }

    /// A value that must stand, as in `example`.
    pub(crate) const fn required(name: &'static str, what: Type, example: &'static str, about: &'static str) -> Self {
        Self {
            name,
            shape: Shape::Leaf(what),
            unset: Unset::Required(example),
            about,
        }
    }

    /// A table, a list of tables, or a key of a later version.
    pub(crate) const fn below(name: &'static str, shape: Shape, about: &'static str) -> Self {
        Self {
            name,
            shape,
            unset: Unset::Is(""),
            about,
        }
    }
}

/// The declaration of `key`.
pub(crate) fn find(fields: Fields, key: &str) -> Option<&'static Key> {
    fields.iter().find(|declared| declared.name == key)
}

/// What stands under `key`.
pub(crate) fn shape(fields: Fields, key: &str) -> Option<Shape> {
    find(fields, key).map(|declared| declared.shape)
}

/// The keys of this version, for a sentence.
pub(crate) fn known(fields: Fields) -> String {
    let keys = fields.iter().filter(|key| !matches!(key.shape, Shape::Later));
    keys.map(|key| key.name).collect::<Vec<_>>().join(", ")
}
