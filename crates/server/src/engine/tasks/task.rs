//! A task of a client, and the tasks of the core that wait for its threads.

use crate::engine::faults::FaultMessage;
use crate::engine::faults::fault_queue::FaultQueue;
use crate::engine::keys::{ClientId, Membership, TaskKey};
use freehold_core::effect::Protection;
use freehold_core::id::{MappingId, ObjectId, PinnedPoolId, ReservationId, TaskId};
use freehold_core::units::PageIndex;
use std::collections::BTreeMap;

/// A task of a client.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) client: ClientId,
    pub(crate) name: String,
    pub(crate) reservation: Option<ReservationId>,
    /// The pinned page pool that may pin its pages, where it has no reservation.
    pub(crate) pinned: Option<PinnedPoolId>,
    pub(crate) urgency: u8,
    /// The first has the mappings.
    pub(crate) wait_slots: Vec<WaitSlot>,
    pub(crate) mappings: BTreeMap<ObjectId, Mapped>,
    /// Faults that found every wait slot waiting.
    pub(crate) queued: FaultQueue,
    /// It is to go, and cannot be used any more.
    pub(crate) ending: bool,
    pub(crate) jobs: u64,
    pub(crate) misses: u64,
}

impl Task {
    /// What it is in.
    pub(crate) fn membership(&self) -> Option<Membership> {
        let reservation = self.reservation.map(Membership::Reservation);
        reservation.or_else(|| self.pinned.map(Membership::Pinned))
    }
}

/// A task's use of an object, by so many segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    pub(crate) mapping: MappingId,
    pub(crate) segments: u32,
}

/// A task of the core that waits for a client's thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitSlot {
    pub(crate) core: TaskId,
    pub(crate) pending: Option<Pending>,
}

/// What a wait slot waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) fault: FaultMessage,
    pub(crate) object: ObjectId,
    pub(crate) page: PageIndex,
    /// The core has decided; what the page is to be mapped with once it is back from the client.
    pub(crate) mapped: Option<Protection>,
}

/// Where a wait slot of the core belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitSlotName {
    pub(crate) task: TaskKey,
    pub(crate) wait_slot: u8,
}
