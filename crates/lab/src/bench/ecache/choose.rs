//! Opening a device in a cache of 9 GiB beside the same in one of 90 MiB: the choice of a place does not depend on how
//! many pages there are.

use freehold_core::units::{FrameCount, PageIndex};
use freehold_core::victim_cache::{DeviceEffect, DeviceId, FileId, Placement, Policy, VictimCache, VictimCacheSpec};

use super::super::Bench;
use super::super::rounds::{Effort, Found, Samples, refused};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

/// Of paper 003's phone, in MiB: 90 MiB together.
const DEVICES: [u32; 4] = [34, 36, 12, 8];
/// How many times as large the large cache is.
const LARGE: u32 = 100;
/// Opens of each device in a round.
const OPENS: u32 = 50;
/// Pages put between two opens.
const PUTS: u32 = 500;

/// The benchmark.
pub(in super::super) const CHOOSE: Bench = Bench {
    name: "ecache-choose",
    about: "a device's place chosen and what was there discarded, in a full cache of 9 GiB (decisions only)",
    floor: "the same in a cache of 90 MiB",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.5,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let (mut small, mut large) = (World::full(1)?, World::full(LARGE)?);
    let opens = effort.scaled(OPENS);
    found.alternate(
        effort,
        |samples| small.opens(opens, samples),
        |samples| large.opens(opens, samples),
    )?;
    found.notes.push(format!(
        "devices of {DEVICES:?} MiB, and of {LARGE} times as much; {PUTS} pages are put between two opens"
    ));
    Ok(found)
}

struct World {
    cache: VictimCache,
    next: u32,
}

impl World {
    /// A cache whose frames all hold a page.
    fn full(times: u32) -> Result<Self, Failure> {
        let devices = DEVICES.map(|mebibytes| FrameCount::new(mebibytes * 256 * times));
        let frames: u32 = devices.iter().map(|device| device.get()).sum();
        let spec = VictimCacheSpec {
            frames: FrameCount::new(frames),
            devices: &devices,
            granule: FrameCount::new(512),
            copies: 1,
            files: 1,
            policy: Policy::Lru,
            placement: Placement::Safe,
        };
        let cache = spec.seal().map_err(refused)?;
        let mut world = Self { cache, next: 0 };
        world.put(frames)?;
        Ok(world)
    }

    fn put(&mut self, pages: u32) -> Result<(), Failure> {
        for _ in 0..pages {
            let put = self
                .cache
                .put(FileId::new(1), PageIndex::new(self.next), 1)
                .map_err(refused)?;
            self.cache.copied(put.frame).map_err(refused)?;
            self.next = self.next.wrapping_add(1);
        }
        Ok(())
    }

    fn opens(&mut self, count: u32, samples: &mut Samples) -> Result<(), Failure> {
        for _ in 0..count {
            for device in (0..DEVICES.len()).filter_map(DeviceId::new) {
                let opened = samples
                    .time(|| self.cache.open(device, FrameCount::new(0)))
                    .map_err(refused)?;
                let Some(DeviceEffect::HandOver { range, .. }) = self.cache.poll_effect() else {
                    return Err(Failure::Run("a device got no memory".to_owned()));
                };
                if range != opened.range {
                    return Err(Failure::Run("a device got other memory than was chosen".to_owned()));
                }
                self.cache.closed(device).map_err(refused)?;
                while self.cache.poll_effect().is_some() {}
                self.cache.returned(device, range).map_err(refused)?;
                self.put(PUTS)?;
            }
        }
        Ok(())
    }
}
