//! What the server says of itself, as far as a result needs it.

use freehold_core::pinning::PinnedPoolView;
use freehold_core::units::{Duration, PageCount};
use freehold_report::status::{ReservationStatus, StatusDocument, StoreStatus, count_in};
use freehold_scenario::Scenario;
use freehold_scenario::results::{DeviceResult, MemoryResult, Response, StoreResult, VictimCacheResult};

use crate::placement::server::ServerError;
use crate::placement::server::devices::{Openings, device_name};

/// The status document, with what a run asks of it.
#[derive(Clone, Debug)]
pub(crate) struct Status(StatusDocument);

impl Status {
    /// From the document's text.
    pub(crate) fn read(text: &str) -> Result<Self, ServerError> {
        freehold_report::read(text).map(Self).map_err(ServerError::Status)
    }

    /// The resident pages of an object.
    pub(crate) fn resident(&self, name: &str) -> Result<u64, ServerError> {
        let found = self.0.objects.iter().find(|object| object.name == name);
        let found = found.ok_or_else(|| ServerError::Unnamed(format!("the region {name}")))?;
        Ok(found.resident)
    }

    /// The reservation that the server calls `name`.
    pub(crate) fn reservation(&self, name: &str) -> Result<&ReservationStatus, ServerError> {
        let found = self.0.reservations.iter().find(|found| found.name == name);
        found.ok_or_else(|| ServerError::Unnamed(format!("the reservation {name}")))
    }

    /// The pinned page pool of this name, as far as a result says of it, and how many pages it had brought back.
    pub(crate) fn pool(&self, name: &str) -> Result<(PinnedPoolView, u64), ServerError> {
        let found = self.0.pinned_pools.iter().find(|pool| pool.name == name);
        let found = found.ok_or_else(|| ServerError::Unnamed(format!("the pinned page pool {name}")))?;
        let pages = |count: u64| PageCount::new(u32::try_from(count).unwrap_or(u32::MAX));
        let lists = PinnedPoolView {
            capacity: pages(found.pages.capacity),
            active: pages(found.pages.active),
            inactive: pages(found.pages.inactive),
            swap_budget: Duration::new(found.budget.swap_budget_ns),
            ..PinnedPoolView::default()
        };
        Ok((lists, found.restored))
    }

    /// The pool.
    pub(crate) fn memory(&self) -> MemoryResult {
        let memory = &self.0.memory;
        MemoryResult {
            pool: memory.pool,
            used: memory.used,
            peak: memory.peak,
            outside: memory.outside,
            resident_measured: memory.resident_measured,
        }
    }

    /// What became of device memory since `before`, of which the clients of its devices have found this.
    pub(crate) fn devices(
        &self,
        scenario: &Scenario,
        found: &[Openings],
        before: &Self,
    ) -> Result<(Option<VictimCacheResult>, Vec<DeviceResult>), ServerError> {
        let Some(region) = self.0.victim_cache.as_ref().filter(|_| !found.is_empty()) else {
            return Ok((None, Vec::new()));
        };
        let cached = |key| count_in(region, key);
        let was = |key| before.0.victim_cache.as_ref().map_or(0, |region| count_in(region, key));
        let since = |key| cached(key).saturating_sub(was(key));
        let result = VictimCacheResult {
            frames: cached("frames"),
            free: cached("free"),
            filling: cached("filling"),
            cached: cached("cached"),
            leaving: cached("leaving"),
            device: cached("device"),
            retired: cached("retired"),
            puts: since("puts"),
            gets: since("gets"),
            hits: since("hits"),
            evicted: since("evicted"),
            flushed: since("flushed"),
            discarded: since("discarded"),
            failed: 0,
        };
        let mut devices = Vec::new();
        for (position, (device, openings)) in scenario.devices.iter().zip(found).enumerate() {
            let name = device_name(position);
            let row = self.0.devices.iter().find(|row| row["name"] == name.as_str());
            let row = row.ok_or(ServerError::Unnamed(format!("the device {}", device.name)))?;
            let times = &row["return_ns"];
            devices.push(DeviceResult {
                name: device.name.clone(),
                pages: count_in(row, "pages"),
                used: count_in(row, "used"),
                state: row["state"].as_str().unwrap_or_default().to_owned(),
                first: row["first"].as_u64(),
                trusted: device.trusted,
                opens: openings.opens,
                refused: openings.refused,
                open_ns: openings.times.response(),
                return_ns: Response {
                    p50: count_in(times, "p50"),
                    p99: count_in(times, "p99"),
                    max: count_in(times, "max"),
                },
            });
        }
        Ok((Some(result), devices))
    }

    /// Where evicted pages go.
    pub(crate) fn store(&self) -> &StoreStatus {
        &self.0.store
    }

    /// Frames of reservations that hold no page: free, or conserved for a foreign one.
    pub(crate) fn idle(&self) -> u64 {
        let idle = self.0.reservations.iter();
        idle.map(|row| row.lists.free + row.frames.conserved).sum()
    }

    /// Whether the kernel counts as many frames as are used by the books, or all but those that hold no page. Frames of
    /// devices are in memory of their own, which the server's count leaves out.
    pub(crate) fn agrees_with_the_kernel(&self) -> bool {
        let memory = &self.0.memory;
        let (used, measured) = (memory.used.saturating_sub(memory.outside), memory.resident_measured);
        measured == used || measured == used.saturating_sub(self.idle())
    }

    /// Whether nothing is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.orders.outstanding == 0 && self.0.reservations.iter().all(|row| row.lists.in_flight == 0)
    }
}

/// What the store did since `before`, and what it is.
pub(crate) fn store_since(now: &StoreStatus, before: &StoreStatus) -> StoreResult {
    StoreResult {
        reads: now.reads.saturating_sub(before.reads),
        writes: now.writes.saturating_sub(before.writes),
        read_bytes: now.read_bytes.saturating_sub(before.read_bytes),
        kind: now.kind.clone(),
        backend: Some(now.backend.clone()),
        direct: now.direct,
        own_frames: now.frames,
        failed_reads: now.failed_reads.saturating_sub(before.failed_reads),
        failed_writes: now.failed_writes.saturating_sub(before.failed_writes),
        retried: now.retried.saturating_sub(before.retried),
        stored_bytes: now.stored_bytes,
    }
}
