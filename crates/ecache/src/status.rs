//! What a cache and its devices are doing, as rows of a document.

use crate::cache::{Cache, State};
use crate::contiguity::Contiguity;
use crate::device::Row;
use freehold_core::units::FrameCount;
use freehold_core::victim_cache::{self, DeviceId, FrameIndex, FrameRange};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::sync::atomic::Ordering;

/// The region: frames by use (the six add up to `frames`), and pages by fate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(
    missing_docs,
    reason = "the names are the document's, explained in docs/book/src/devices.md"
)]
pub struct VictimCacheRow {
    #[serde(flatten)]
    pub uses: RegionUses,
    pub puts: u64,
    pub gets: u64,
    pub hits: u64,
    pub evicted: u64,
    pub flushed: u64,
    pub discarded: u64,
    pub mismatched: u64,
    pub backing: &'static str,
    pub contiguity: Contiguity,
    pub pieces: u32,
    pub measured_bytes: u64,
    pub shortfalls: Vec<String>,
}

/// Its frames, by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "as above")]
pub struct RegionUses {
    pub frames: u32,
    pub free: u32,
    pub filling: u32,
    pub cached: u32,
    pub leaving: u32,
    pub device: u32,
    pub retired: u32,
}

/// How far a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceState {
    /// Closed: its memory caches pages.
    Idle,
    /// Somebody has it.
    Open,
    /// It is closed, and its memory is on its way back.
    Returning,
}

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are the document's")]
pub struct Times {
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(
    missing_docs,
    reason = "the names are the document's, explained in docs/book/src/devices.md"
)]
pub struct DeviceRow {
    pub name: String,
    pub pages: u32,
    pub used: u32,
    pub state: DeviceState,
    pub first: Option<u32>,
    pub trusted: bool,
    pub client: Option<u32>,
    pub opens: u64,
    pub refused: u64,
    pub punched: u64,
    pub open_ns: Times,
    pub return_ns: Times,
    /// Who may open it, beside root.
    #[serde(skip)]
    pub users: Vec<u32>,
}

impl Cache {
    /// The region now. Asks the kernel how its memory lies: O(frames) where that is on small pages.
    #[must_use]
    pub fn region_row(&self) -> VictimCacheRow {
        let region = &self.shared.region;
        let frames = FrameCount::new(region.cuts().frames());
        let layout = region.layout_now(FrameRange::new(FrameIndex::new(0), frames));
        let measured_bytes = region.measured();
        let state = self.shared.state();
        let (uses, pages) = (state.core.frames(), state.core.page_counts());
        drop(state);
        VictimCacheRow {
            uses: RegionUses {
                frames: frames.get(),
                free: uses.free.get(),
                filling: uses.filling.get(),
                cached: uses.cached.get(),
                leaving: uses.leaving.get(),
                device: uses.device.get(),
                retired: uses.retired.get(),
            },
            puts: pages.puts,
            gets: pages.gets,
            hits: pages.hits,
            evicted: pages.evicted,
            flushed: pages.flushed,
            discarded: pages.discarded,
            mismatched: self.shared.mismatches.load(Ordering::Relaxed),
            backing: if region.is_huge() { "huge" } else { "small" },
            contiguity: layout.contiguity,
            pieces: layout.pieces,
            measured_bytes,
            shortfalls: region.shortfalls().to_vec(),
        }
    }

    /// All devices, in the order of their file.
    #[must_use]
    pub fn device_rows(&self) -> Vec<DeviceRow> {
        let state = self.shared.state();
        let rows = state.rows.iter().enumerate();
        rows.filter_map(|(place, row)| device_row(&state, DeviceId::new(place)?, row))
            .collect()
    }

    /// Who may open a device, beside root; none where there is no such device.
    pub(crate) fn users_of(&self, name: &str) -> Option<Vec<u32>> {
        let state = self.shared.state();
        let row = state.rows.iter().find(|row| row.device.name == name)?;
        Some(row.device.users.clone())
    }

    /// Frames by use and pages by fate, without asking the kernel.
    #[must_use]
    pub fn counts(&self) -> (victim_cache::Frames, victim_cache::PageCounts) {
        let state = self.shared.state();
        (state.core.frames(), state.core.page_counts())
    }
}

fn device_row(state: &State, device: DeviceId, row: &Row) -> Option<DeviceRow> {
    let view = state.core.device(device)?;
    let now = match view.state {
        victim_cache::DeviceState::Idle => DeviceState::Idle,
        victim_cache::DeviceState::Opening | victim_cache::DeviceState::Open => DeviceState::Open,
        victim_cache::DeviceState::Returning => DeviceState::Returning,
    };
    Some(DeviceRow {
        name: row.device.name.clone(),
        pages: view.size.get(),
        used: view.used.count().get(),
        state: now,
        first: (now != DeviceState::Idle).then_some(view.used.first().get()),
        trusted: row.device.trusted,
        client: row.client.map(|client| client.pid),
        opens: row.opens,
        refused: row.refused,
        punched: row.punched,
        open_ns: times(&row.open_times),
        return_ns: times(&row.return_times),
        users: row.device.users.clone(),
    })
}

fn times(times: &Histogram<u64>) -> Times {
    Times {
        p50: times.value_at_quantile(0.5),
        p99: times.value_at_quantile(0.99),
        max: times.max(),
    }
}
