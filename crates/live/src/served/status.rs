//! What the server says of itself, as far as a result needs it.

use freehold_client::Counts as ClientCounts;
use freehold_core::pinning::PinnedPoolView;
use freehold_core::units::{Duration, PageCount};
use freehold_core::view::TaskCounts;
use freehold_scenario::results::{MemoryResult, ReservationResult, StoreResult};
use serde::Deserialize;

use super::ServerError;

/// The status document. It says more than this.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Status {
    pub(crate) memory: MemoryResult,
    pub(crate) reservations: Vec<ReservationResult>,
    pub(crate) objects: Vec<Object>,
    pub(crate) pinned_pools: Vec<Pool>,
    pub(crate) store: Store,
    pub(crate) orders: Orders,
}

/// One object.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Object {
    pub(crate) name: String,
    pub(crate) resident: u64,
}

/// A pinned page pool.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pool {
    name: String,
    capacity: u32,
    active: u32,
    inactive: u32,
    swap_budget_ns: u64,
    restored: u64,
}

/// The store.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Store {
    kind: String,
    backend: String,
    direct: bool,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    read_bytes: u64,
    failed_reads: u64,
    failed_writes: u64,
    retried: u64,
    frames: u64,
    stored_bytes: u64,
    pub(crate) shortfalls: Vec<String>,
}

/// Orders to clients.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Orders {
    pub(crate) outstanding: u64,
}

impl Status {
    /// From the document's text.
    pub(crate) fn parse(text: &str) -> Result<Self, ServerError> {
        serde_json::from_str(text).map_err(ServerError::Status)
    }

    /// The resident pages of an object.
    pub(crate) fn resident(&self, name: &str) -> Result<u64, ServerError> {
        let found = self.objects.iter().find(|object| object.name == name);
        let found = found.ok_or_else(|| ServerError::Unnamed(format!("the region {name}")))?;
        Ok(found.resident)
    }

    /// The pinned page pool of this name, as far as a result says of it, and how many pages it had brought back.
    pub(crate) fn pool(&self, name: &str) -> Result<(PinnedPoolView, u64), ServerError> {
        let found = self.pinned_pools.iter().find(|pool| pool.name == name);
        let found = found.ok_or_else(|| ServerError::Unnamed(format!("the pinned page pool {name}")))?;
        let lists = PinnedPoolView {
            capacity: PageCount::new(found.capacity),
            active: PageCount::new(found.active),
            inactive: PageCount::new(found.inactive),
            swap_budget: Duration::new(found.swap_budget_ns),
            ..PinnedPoolView::default()
        };
        Ok((lists, found.restored))
    }

    /// Frames of reservations that hold no page: free, or conserved for a foreign one.
    pub(crate) fn idle(&self) -> u64 {
        let idle = self.reservations.iter();
        idle.map(|reservation| reservation.free + reservation.conserved).sum()
    }

    /// Whether the kernel counts as many frames as are used by the books, or all but those that hold no page.
    pub(crate) fn agrees_with_the_kernel(&self) -> bool {
        let (used, measured) = (self.memory.used, self.memory.resident_measured);
        measured == used || measured == used.saturating_sub(self.idle())
    }

    /// Whether nothing is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.orders.outstanding == 0 && self.reservations.iter().all(|reservation| reservation.in_flight == 0)
    }
}

impl Store {
    /// What the store did since `before`, and what it is.
    pub(crate) fn since(&self, before: &Self) -> StoreResult {
        StoreResult {
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            kind: self.kind.clone(),
            backend: Some(self.backend.clone()),
            direct: self.direct,
            own_frames: self.frames,
            failed_reads: self.failed_reads.saturating_sub(before.failed_reads),
            failed_writes: self.failed_writes.saturating_sub(before.failed_writes),
            retried: self.retried.saturating_sub(before.retried),
            stored_bytes: self.stored_bytes,
        }
    }
}

/// What the server counted of a task.
pub(crate) fn task_counts(counts: &ClientCounts) -> TaskCounts {
    let nanos = u64::try_from(counts.waited.as_nanos()).unwrap_or(u64::MAX);
    TaskCounts {
        soft_faults: counts.soft_faults,
        zero_fills: counts.zero_fills,
        swap_ins: counts.swap_ins,
        shared_swap_ins: counts.shared_swap_ins,
        file_reads: counts.file_reads,
        write_faults: counts.write_faults,
        read_ahead: counts.read_ahead,
        evictions: counts.evictions,
        waited: Duration::new(nanos),
        ..TaskCounts::default()
    }
}
