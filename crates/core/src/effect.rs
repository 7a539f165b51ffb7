//! Effects: the core's orders and requests to the engine.
//!
//! For one page effects come out in the order in which they must take effect. `Fill`, `WriteBack` and `Discard` are
//! requests. The engine answers each with exactly one `handle_done` or `handle_failed`, in any order, at any later
//! time. The other effects are orders. The engine carries them out before it tells the core anything that follows from
//! them.

use crate::fact::PageRef;
use crate::id::{MappingId, ReservationId, TaskId};
use crate::units::FrameCount;

/// Who a frame or a page is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A reservation.
    Reservation(ReservationId),
    /// The pool: the global lists, for tasks without a reservation.
    Pool,
}

/// Whose mappings of a page are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Every mapping of the page's object, and of copy-on-write views of it.
    Everyone,
    /// The mappings of this holder's tasks only (of `Pool`: those of all tasks without a reservation).
    Of(Holder),
}

/// Why a page is unmapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnmapReason {
    /// Moved to the inactive list, to learn whether it is still referenced. Many come together: zap them as a batch.
    Demotion,
    /// Evicted from its holder's lists.
    Eviction,
    /// Taken back from a firm reservation that had borrowed its frame.
    TakenBack,
    /// The holder left the page: the reservation ended, or its last mapping of the object went.
    Left,
    /// A copy-on-write page got its own copy.
    Copied,
}

/// What a mapping allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protection {
    /// Reads only: the next write must fault.
    ReadOnly,
    /// Reads and writes.
    Writable,
}

/// Where a page's content comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Zeros: the page was never written.
    Zero,
    /// The store, or the file behind the object (see the object's kind): read back what was written there last.
    Store,
    /// A copy of this page, for copy-on-write: from its frame where it is resident, else from its store.
    CopyOf(PageRef),
}

/// How a fault was resolved; counts are kept by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resolution {
    /// The page was resident, or another task's fault brought it in; only the mapping was absent.
    Soft,
    /// Filled with zeros.
    ZeroFill,
    /// Read back from the store. `shared`: the task's reservation still held the page when another's eviction
    /// took it (only under `none`).
    SwapIn {
        /// Whether another's eviction took it.
        shared: bool,
    },
    /// Read from the file behind the object for the first time.
    FileRead,
    /// Copied on write.
    Copy,
    /// Write permission granted; the page was mapped.
    Upgrade,
    /// No fault: mapped ahead of one, from a frame that the holder had free.
    Ahead,
}

/// Why a task's fault cannot be resolved. The task gets a defined error; nobody else notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultFailure {
    /// The page could not be read.
    Read,
    /// A frame could only have come from a page whose write-back failed; that page is kept, dirty.
    WriteBack,
    /// Nothing can be evicted to make room: all frames are locked, owed, or none exist.
    NoFrame,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an effect that is not carried out breaks the laws"]
pub enum Effect {
    /// Map `page` into `mapping` and let `task` go on: ends its fault.
    Map {
        /// The task whose fault ends.
        task: TaskId,
        /// Its mapping.
        mapping: MappingId,
        /// The page; of the base object where `mapping` is a copy-on-write view without a copy of its own.
        page: PageRef,
        /// What it may do.
        protection: Protection,
        /// How the fault was resolved.
        resolution: Resolution,
    },
    /// Let `task` touch the page again: what it waited for is over, and the fault is to be looked at afresh.
    Retry {
        /// The task.
        task: TaskId,
    },
    /// Give `task` an error for its fault.
    Fail {
        /// The task.
        task: TaskId,
        /// Why.
        failure: FaultFailure,
    },
    /// Remove mappings of `page`.
    Unmap {
        /// The page.
        page: PageRef,
        /// From whose mappings.
        from: Scope,
        /// Why.
        reason: UnmapReason,
    },
    /// Request: give `page` a frame and fill it.
    Fill {
        /// The page.
        page: PageRef,
        /// Its content.
        source: Source,
        /// The task that waits, for urgency; none where a lock brings the page in.
        urgent: Option<TaskId>,
    },
    /// Request: write `page` to its store, then drop it. Its mappings are gone (an `Unmap` from everyone precedes).
    WriteBack {
        /// The page.
        page: PageRef,
        /// Who gets the frame: whose lists the page was evicted from, or the pool that takes back what it lent.
        holder: Holder,
    },
    /// Request: drop `page`, whose content is in its store, its file, or zero. Its mappings are gone.
    Discard {
        /// The page.
        page: PageRef,
        /// Who gets the frame: whose lists the page was evicted from, or the pool that takes back what it lent.
        holder: Holder,
    },
    /// Move the frame and content of `from` to `to`: a copy-on-write page whose only user writes it.
    Take {
        /// The base page, not resident afterwards.
        from: PageRef,
        /// The private page, resident afterwards.
        to: PageRef,
    },
    /// For the record: ownership of a shared page passed on. Nothing to do.
    Transfer {
        /// The page.
        page: PageRef,
        /// The owner until now.
        from: ReservationId,
        /// The owner from now on.
        to: ReservationId,
    },
    /// The pool wants back frames that it lent and that this reservation has outside. Whoever uses them returns so many
    /// ([`return_outside`](crate::Memory::return_outside)) within the bound that the engine gave, or is ended: then the
    /// engine returns them (law 9). A later recall adds to an earlier one.
    Recall {
        /// The reservation.
        reservation: ReservationId,
        /// How many.
        frames: FrameCount,
    },
    /// All pages that this reservation locks are resident now.
    Locked {
        /// The reservation.
        reservation: ReservationId,
    },
    /// A page that this reservation was to lock could not be had: the lock stops there. The pages before it stay
    /// locked; unlock them, or lock the rest again.
    LockFailed {
        /// The reservation.
        reservation: ReservationId,
    },
}
