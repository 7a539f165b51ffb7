//! Tasks and their mappings.

use crate::effect::Resolution;
use crate::fact::Access;
use crate::index::{EntryIndex, HolderIndex, PageNumber, PinnedIndex, TaskIndex};
use crate::units::Instant;
use crate::view::TaskCounts;

/// A fault that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) page: PageNumber,
    pub(crate) mapping: u16,
    pub(crate) access: Access,
    pub(crate) since: Instant,
    /// The entry for which this task waits for a frame.
    pub(crate) claim: EntryIndex,
    /// Set where this task's claim started the fill.
    pub(crate) resolution: Resolution,
}

/// One task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) holder: HolderIndex,
    pub(crate) waiting: Option<Waiting>,
    /// Next task in its holder's queue of claims.
    pub(crate) next_claim: TaskIndex,
    /// Next waiting task in the same bucket of pages waited for.
    pub(crate) next_waiter: TaskIndex,
    pub(crate) mappings: u32,
    /// Its pinned page pool, if it has one.
    pub(crate) pinner: PinnedIndex,
    /// It brings pages back for the others of that.
    pub(crate) restores: bool,
    pub(crate) counts: TaskCounts,
}

/// One task's mapping of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) task: TaskIndex,
    pub(crate) object: u16,
    /// Pages of the object, from its first on, that have not been left yet; the others have, because it is being ended.
    pub(crate) unleft: u32,
}
