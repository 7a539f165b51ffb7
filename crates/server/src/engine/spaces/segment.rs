//! A part of a client's address space that the engine knows.

use crate::engine::keys::{MapKey, TaskKey};
use freehold_core::id::{MappingId, ObjectId};

/// A part of a client's address space that the engine knows, by its first address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The first address past it.
    pub(crate) end: u64,
    pub(crate) object: ObjectId,
    /// The object's page at the first address.
    pub(crate) first: u32,
    pub(crate) task: TaskKey,
    pub(crate) mapping: MappingId,
    pub(crate) kind: SegmentKind,
}

impl Segment {
    /// The object's page at an address of it, which begins at `start`.
    pub(crate) fn page_at(&self, start: u64, address: u64) -> u32 {
        self.first + u32::try_from((address - start) / crate::PAGE).unwrap_or(u32::MAX)
    }
}

/// What kind of memory a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// A shared object's.
    Shared { key: MapKey, writable: bool },
    /// Private memory.
    Private,
}
