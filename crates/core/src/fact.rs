//! Facts: the engine's reports to the core, of faults and of the ends of requests.

use crate::id::{MappingId, ObjectId};
use crate::units::PageIndex;

/// A page of a memory object, looked up and found to exist. Only the core makes one; from outside a page is a claim
/// (a mapping and an index) until a lookup proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRef {
    object: ObjectId,
    page: PageIndex,
}

impl PageRef {
    pub(crate) const fn new(object: ObjectId, page: PageIndex) -> Self {
        Self { object, page }
    }

    /// The memory object.
    #[must_use]
    pub const fn object(self) -> ObjectId {
        self.object
    }

    /// The page's position in it.
    #[must_use]
    pub const fn page(self) -> PageIndex {
        self.page
    }
}

/// How a task touched a page that was not mapped for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// A read of an absent page.
    Read,
    /// A write to an absent page.
    Write,
    /// A write to a page that is mapped read-only in this very mapping: a write-permission fault.
    Upgrade,
}

/// One fault, as claimed by the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The mapping that was touched; it names task and object.
    pub mapping: MappingId,
    /// The page of the object.
    pub page: PageIndex,
    /// The kind of access.
    pub access: Access,
}

/// Which of the two requests on a page has ended. A page has at most one of them outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// [`Effect::Fill`](crate::effect::Effect::Fill).
    Fill,
    /// [`Effect::WriteBack`](crate::effect::Effect::WriteBack) or
    /// [`Effect::Discard`](crate::effect::Effect::Discard).
    Evict,
}
