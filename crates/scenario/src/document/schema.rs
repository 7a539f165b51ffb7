//! Which keys exist. The reader refuses what is not here; `--set` reaches what is.

use super::section::Section;
use super::tree::Node;
use crate::error::Fault;

/// A document's root.
pub(crate) type Tree = [(String, Node)];

/// The root as a section, its keys checked.
pub(crate) fn section(table: &Tree, fields: Fields) -> Result<Section<'_>, Fault> {
    Section::new(String::new(), table, fields)
}

/// The keys of one table.
pub(crate) type Fields = &'static [(&'static str, Shape)];

/// What stands under a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// One value.
    Leaf,
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

use Shape::{Later, Leaf, Named, Numbered, PerRegion, Table};

pub(crate) const ROOT: Fields = &[
    ("name", Leaf),
    ("duration", Leaf),
    ("seed", Leaf),
    ("memory", Table(MEMORY)),
    ("machine", Table(MACHINE)),
    ("costs", Table(COSTS)),
    ("faults", Table(FAULTS)),
    ("region", Named(REGION)),
    ("reservation", Named(RESERVATION)),
    ("task", Named(TASK)),
    ("device", Named(SCENARIO_DEVICE)),
    ("component", Later),
    ("trace", Later),
];

/// A device file.
pub(crate) const DEVICE_FILE: Fields = &[("region", Table(DEVICE_REGION)), ("device", Named(DEVICE))];
pub(crate) const DEVICE_REGION: Fields = &[("backing", Leaf)];
pub(crate) const DEVICE: Fields = &[("name", Leaf), ("size", Leaf), ("trusted", Leaf), ("users", Leaf)];

/// A device of a scenario.
pub(crate) const SCENARIO_DEVICE: Fields = &[
    ("name", Leaf),
    ("size", Leaf),
    ("trusted", Leaf),
    ("task", Leaf),
    ("use", Leaf),
    ("open", Numbered(DEVICE_OPEN)),
];
pub(crate) const DEVICE_OPEN: Fields = &[("at", Leaf), ("hold", Leaf), ("use", Leaf)];

pub(crate) const MEMORY: Fields = &[("pool", Leaf), ("swap", Table(SWAP))];
pub(crate) const SWAP: Fields = &[
    ("store", Leaf),
    ("latency", Leaf),
    ("wait", Leaf),
    ("parallel", Leaf),
    ("read_ahead", Leaf),
    ("capacity", Leaf),
    ("directory", Leaf),
];
pub(crate) const MACHINE: Fields = &[("cpus", Leaf)];
pub(crate) const COSTS: Fields = &[
    ("access", Leaf),
    ("soft_fault", Leaf),
    ("zero_fill", Leaf),
    ("swap_in", Leaf),
    ("eviction", Leaf),
];
pub(crate) const FAULTS: Fields = &[
    ("seed", Leaf),
    ("late", Leaf),
    ("late_by", Leaf),
    ("fail", Leaf),
    ("reorder", Leaf),
];
pub(crate) const REGION: Fields = &[
    ("name", Leaf),
    ("kind", Leaf),
    ("size", Leaf),
    ("sharing", Leaf),
    ("copy_of", Leaf),
];
pub(crate) const RESERVATION: Fields = &[
    ("name", Leaf),
    ("size", Leaf),
    ("type", Leaf),
    ("sharing", PerRegion),
    ("lock", Numbered(LOCK)),
];
pub(crate) const LOCK: Fields = &[("region", Leaf), ("offset", Leaf), ("size", Leaf)];
pub(crate) const TASK: Fields = &[
    ("name", Leaf),
    ("reservation", Leaf),
    ("pinning", Leaf),
    ("app", Table(APP)),
    ("class", Leaf),
    ("priority", Leaf),
    ("period", Leaf),
    ("budget", Leaf),
    ("deadline", Leaf),
    ("start", Leaf),
    ("stop", Leaf),
    ("phase", Leaf),
    ("cpus", Leaf),
    ("compute", Leaf),
    ("access", Numbered(ACCESS)),
    ("command", Later),
];
pub(crate) const APP: Fields = &[
    ("capacity", Leaf),
    ("alpha", Leaf),
    ("beta", Leaf),
    ("gamma", Leaf),
    ("lambda", Leaf),
    ("unpinned", Leaf),
    ("memory-share", Leaf),
    ("steady", Leaf),
    ("restore", Leaf),
];
pub(crate) const ACCESS: Fields = &[
    ("region", Leaf),
    ("pattern", Leaf),
    ("exponent", Leaf),
    ("size", Leaf),
    ("shift", Leaf),
    ("every", Leaf),
    ("file", Leaf),
    ("amount", Leaf),
    ("write", Leaf),
    ("command", Later),
];

/// What stands under `key`.
pub(crate) fn shape(fields: Fields, key: &str) -> Option<Shape> {
    fields.iter().find(|(name, _)| *name == key).map(|(_, shape)| *shape)
}

/// The keys of this version, for a sentence.
pub(crate) fn known(fields: Fields) -> String {
    let keys = fields
        .iter()
        .filter(|(_, shape)| !matches!(shape, Later))
        .map(|(name, _)| *name);
    keys.collect::<Vec<_>>().join(", ")
}
