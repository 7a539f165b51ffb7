//! The clients of devices in lockstep: they open and close when the schedule says so, and watch their memory.

use std::path::Path;
use std::time::Duration;

use freehold_client::device::Device;
use freehold_linux::clock;
use freehold_scenario::Scenario;
use freehold_scenario::results::DeviceResult;
use freehold_sim::DeviceChange;

use crate::error::LiveError;
use crate::placement::server::{Openings, WatchedDevice, device_name};
use crate::result::DeviceCounts;

/// How long memory may take to come back, and how often it is looked whether it has.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_micros(100);

/// One client a device.
#[derive(Debug)]
pub(super) struct Clients<'a> {
    scenario: &'a Scenario,
    socket: &'a Path,
    open: Vec<Option<WatchedDevice<'a>>>,
    openings: Vec<Openings>,
}

impl<'a> Clients<'a> {
    pub(super) fn new(scenario: &'a Scenario, socket: &'a Path) -> Self {
        Self {
            scenario,
            socket,
            open: scenario.devices.iter().map(|_| None).collect(),
            openings: scenario.devices.iter().map(|_| Openings::default()).collect(),
        }
    }

    /// What the clients have found so far.
    pub(super) fn openings(&self) -> &[Openings] {
        &self.openings
    }

    /// Opens or closes a device.
    pub(super) fn change(&mut self, device: usize, change: DeviceChange) -> Result<(), String> {
        let none = || format!("there is no device {device}");
        let found = self.openings.get_mut(device).ok_or_else(none)?;
        match change {
            DeviceChange::Open { used } => {
                let opened = Device::open(self.socket, &device_name(device), used.get());
                let opened = opened.map_err(|error| error.to_string())?;
                found.opens += 1;
                let row = &self.scenario.devices[device];
                let watched = WatchedDevice::new(opened, row, found.opens, &mut found.wrong);
                self.open[device] = Some(watched);
            }
            DeviceChange::Close => {
                let open = self.open[device].take();
                open.ok_or_else(|| format!("device {device} is not open"))?
                    .close(&mut found.wrong);
            }
        }
        Ok(())
    }
}

/// Waits until all memory of a device is back.
pub(super) fn await_return(device: usize, counts: impl Fn() -> Result<DeviceCounts, LiveError>) -> Result<(), String> {
    let until = clock::now().saturating_add(PATIENCE);
    loop {
        let (_, rows) = counts().map_err(|error| error.to_string())?;
        if rows.get(device).is_some_and(|row| row.state == "idle") {
            return Ok(());
        }
        if clock::now() >= until {
            return Err("its memory does not come back".to_owned());
        }
        std::thread::sleep(LOOK);
    }
}

/// What differs from the simulator.
pub(super) fn differences(simulated: &DeviceCounts, live: &DeviceCounts) -> Vec<String> {
    let mut found = Vec::new();
    let mut equal = |what: String, sim: &dyn std::fmt::Debug, live: &dyn std::fmt::Debug| {
        let (sim, live) = (format!("{sim:?}"), format!("{live:?}"));
        if sim != live {
            found.push(format!("lockstep: {what}: {sim} in the simulator, {live} live"));
        }
    };
    equal("victim cache".to_owned(), &simulated.0, &live.0);
    equal("devices".to_owned(), &simulated.1.len(), &live.1.len());
    for (sim, live) in simulated.1.iter().zip(&live.1) {
        let counts = |row: &DeviceResult| (row.pages, row.used, row.state.clone(), row.first, row.opens);
        equal(format!("device {}", sim.name), &counts(sim), &counts(live));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_scenario::results::{Response, VictimCacheResult};

    fn counts(hits: u64, first: Option<u64>) -> DeviceCounts {
        let cache = VictimCacheResult {
            hits,
            ..VictimCacheResult::default()
        };
        let device = DeviceResult {
            name: "camera".to_owned(),
            pages: 8,
            used: 8,
            state: "open".to_owned(),
            first,
            trusted: true,
            opens: 1,
            refused: 0,
            open_ns: Response {
                p50: hits,
                p99: 0,
                max: 0,
            },
            return_ns: Response { p50: 0, p99: 0, max: 0 },
        };
        (Some(cache), vec![device])
    }

    #[test]
    fn counts_and_places_are_compared_and_times_are_not() {
        let same = differences(&counts(3, Some(4)), &counts(3, Some(4)));
        assert!(same.is_empty(), "{same:?}");
        let found = differences(&counts(3, Some(4)), &counts(2, Some(0)));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("victim cache") && found[1].contains("device camera"));
    }
}
