//! Memory objects.

use crate::fault::runs::Run;
use crate::index::PinnedIndex;
use crate::limits::{ObjectKind, Regime};

/// One memory object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) kind: ObjectKind,
    pub(crate) regime: Regime,
    /// Its first page in the page table.
    pub(crate) first: u32,
    pub(crate) pages: u32,
    /// Of an object under `none`: its first row in the table of pages taken.
    pub(crate) first_taken: u32,
    /// Of a copy-on-write view: the object it reads through to, and that object's first page.
    pub(crate) base: Option<Base>,
    pub(crate) mappings: u32,
    /// Copy-on-write views of it; it cannot be written while it has any.
    pub(crate) views: u32,
    pub(crate) resident: u32,
    /// Pages, from its first on, that are forgotten, because it is being removed.
    pub(crate) removed: u32,
    /// The pinned page pool that its pages enter.
    pub(crate) pinner: PinnedIndex,
    /// Where swap-ins of its pages have come to.
    pub(crate) run: Run,
}

impl Object {
    /// Whether this page, counted through all objects, is one of its.
    pub(crate) const fn owns(&self, page: u32) -> bool {
        page >= self.first && page - self.first < self.pages
    }
}

/// What a copy-on-write view reads through to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    pub(crate) object: u16,
    pub(crate) first: u32,
}
