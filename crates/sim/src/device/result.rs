//! What a run says of device memory.

use freehold_core::units::FrameCount;
use freehold_core::victim_cache::DeviceState;
use freehold_scenario::Scenario;
use freehold_scenario::results::{DeviceResult, VictimCacheResult};

use super::{DeviceMemory, Row};

impl DeviceMemory {
    /// Frames and pages at this moment.
    pub(crate) fn result(&self) -> VictimCacheResult {
        let (frames, pages) = (self.cache.frames(), self.cache.page_counts());
        let count = |frames: FrameCount| u64::from(frames.get());
        VictimCacheResult {
            frames: count(self.region()),
            free: count(frames.free),
            filling: count(frames.filling),
            cached: count(frames.cached),
            leaving: count(frames.leaving),
            device: count(frames.device),
            retired: count(frames.retired),
            puts: pages.puts,
            gets: pages.gets,
            hits: pages.hits,
            evicted: pages.evicted,
            flushed: pages.flushed,
            discarded: pages.discarded,
            failed: pages.failed,
        }
    }

    /// Each device at this moment.
    pub(crate) fn devices(&self, scenario: &Scenario) -> Vec<DeviceResult> {
        let devices = scenario.devices.iter().zip(&self.rows);
        devices
            .map(|(device, row)| self.device(&device.name, device.size, row))
            .collect()
    }

    fn device(&self, name: &str, size: FrameCount, row: &Row) -> DeviceResult {
        let (state, range) = self.state(row);
        let idle = state == DeviceState::Idle;
        DeviceResult {
            name: name.to_owned(),
            pages: u64::from(size.get()),
            used: if idle { 0 } else { u64::from(range.count().get()) },
            state: match state {
                DeviceState::Idle => "idle",
                DeviceState::Opening | DeviceState::Open => "open",
                DeviceState::Returning => "returning",
            }
            .to_owned(),
            first: (!idle).then(|| u64::from(range.first().get())),
            trusted: row.trusted,
            opens: row.opens,
            refused: row.refused,
            open_ns: row.open_times.response(),
            return_ns: row.return_times.response(),
        }
    }
}
