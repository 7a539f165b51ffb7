//! Devices: opened, grown, closed, and their frames back (paper 003, sections 3.3 and 4).
//!
//! An open device has its whole place, whatever it uses of it: a prefix or a suffix is handed over, the rest goes on
//! caching, and [`VictimCache::grow`] is always served. A closed one keeps its place until all of its frames are back.

use super::VictimCache;
use super::copies::Fate;
use super::error::{FactError, OpenError};
use super::node::Place;
use super::spec::{DeviceId, FrameRange, MOST_DEVICES};
use super::view::{DeviceEffect, DeviceState, DeviceView, Opened};
use crate::units::FrameCount;

/// A device's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    /// None: there is no such device.
    pub(super) state: Option<DeviceState>,
    /// All that is kept for it while it is open.
    pub(super) place: FrameRange,
    /// What it has of that.
    pub(super) used: FrameRange,
    /// What is still to be handed over of that.
    handing: FrameRange,
    /// Frames of it in which copies are under way.
    waiting: u32,
    /// Frames that have come back since it was closed.
    back: u32,
    /// Effects that wait to be polled.
    hand_over: bool,
    revoke: bool,
}

impl Device {
    pub(super) const ABSENT: Self = Self {
        state: None,
        place: FrameRange { first: 0, count: 0 },
        used: FrameRange { first: 0, count: 0 },
        handing: FrameRange { first: 0, count: 0 },
        waiting: 0,
        back: 0,
        hand_over: false,
        revoke: false,
    };
    pub(super) const IDLE: Self = Self {
        state: Some(DeviceState::Idle),
        ..Self::ABSENT
    };

    pub(super) fn is_idle(&self) -> bool {
        self.state == Some(DeviceState::Idle)
    }

    /// Frames to hand over, once no copy is under way in them.
    fn hand(&mut self, range: FrameRange, waiting: u32) {
        self.handing = range;
        self.waiting = waiting;
        self.state = Some(DeviceState::Opening);
        self.go_on();
    }

    fn go_on(&mut self) {
        if self.waiting == 0 && self.state == Some(DeviceState::Opening) {
            self.state = Some(DeviceState::Open);
            self.hand_over = true;
        }
    }
}

impl VictimCache {
    /// Opens a device with `used` of its frames, all where that is zero; what is not a multiple of the granule is
    /// rounded up. A [`DeviceEffect::HandOver`] follows, at once or when copies under way have ended. O(buckets × base
    /// regions).
    ///
    /// # Errors
    /// See [`OpenError`]; with safe placement a closed device is never refused for its place.
    pub fn open(&mut self, device: DeviceId, used: FrameCount) -> Result<Opened, OpenError> {
        let row = self.devices[device.index()];
        match row.state {
            None => return Err(OpenError::Unknown),
            Some(DeviceState::Idle) => {}
            Some(_) => return Err(OpenError::InUse),
        }
        let size = self.layout.size(device.index());
        let used = self.rounded(used, size)?;
        let choice = self.choose(device.index(), used).ok_or(OpenError::NoPlace)?;
        self.chooser.count_open();
        let gone = self.discard(choice.used);
        self.devices[device.index()] = Device {
            place: choice.place,
            used: choice.used,
            ..Device::IDLE
        };
        self.devices[device.index()].hand(choice.used, gone.waiting);
        Ok(Opened {
            range: choice.used,
            candidates: choice.candidates,
            cost: choice.cost,
            discarded: FrameCount::new(gone.pages),
        })
    }

    /// Gives an open device more, up to its size, beside what it has: it uses `used` frames then, all where that is
    /// zero. Never refused for want of frames. A [`DeviceEffect::HandOver`] of what is new follows.
    ///
    /// # Errors
    /// [`OpenError::Unknown`], [`OpenError::TooLarge`], [`OpenError::NotOpen`].
    pub fn grow(&mut self, device: DeviceId, used: FrameCount) -> Result<Opened, OpenError> {
        let row = self.devices[device.index()];
        let state = row.state.ok_or(OpenError::Unknown)?;
        if state != DeviceState::Open || row.hand_over {
            return Err(OpenError::NotOpen);
        }
        let used = self.rounded(used, row.place.count)?.max(row.used.count);
        let more = used - row.used.count;
        let from_below = row.used.first == row.place.first;
        let (new, all) = if from_below {
            (row.used.end(), row.used.first)
        } else {
            (row.used.first - more, row.used.first - more)
        };
        let new = FrameRange {
            first: new,
            count: more,
        };
        let gone = self.discard(new);
        let row = &mut self.devices[device.index()];
        row.used = FrameRange {
            first: all,
            count: used,
        };
        if more > 0 {
            row.hand(new, gone.waiting);
        }
        Ok(Opened {
            range: new,
            candidates: 1,
            cost: 0,
            discarded: FrameCount::new(gone.pages),
        })
    }

    /// A device is closed, or whoever had it is gone. A [`DeviceEffect::Revoke`] of all its frames follows.
    ///
    /// # Errors
    /// [`OpenError::Unknown`], [`OpenError::NotOpen`].
    pub fn closed(&mut self, device: DeviceId) -> Result<(), OpenError> {
        let row = &mut self.devices[device.index()];
        match row.state.ok_or(OpenError::Unknown)? {
            DeviceState::Opening | DeviceState::Open => {}
            DeviceState::Idle | DeviceState::Returning => return Err(OpenError::NotOpen),
        }
        row.state = Some(DeviceState::Returning);
        (row.hand_over, row.revoke, row.back) = (false, true, 0);
        Ok(())
    }

    /// Nobody else can reach these frames of a closed device any more: they cache pages again. O(1) for each base
    /// region that is back whole, else O(frames).
    ///
    /// # Errors
    /// [`FactError::NotLent`].
    pub fn returned(&mut self, device: DeviceId, range: FrameRange) -> Result<(), FactError> {
        self.check_lent(device, range)?;
        for region in 0..self.regions.rows().len() {
            let row = self.regions.rows()[region];
            if !range.overlaps(row.range) {
                continue;
            }
            let quiet = !self.copies.rows().iter().any(|copy| row.range.has(copy.frame));
            if row.lent && quiet && range.contains(row.range) {
                self.regions.free_whole(region);
                self.frames.device -= row.range.count;
                self.frames.free += row.range.count;
            } else {
                self.return_part(device, region, range.meet(row.range));
            }
        }
        let row = &mut self.devices[device.index()];
        row.back += range.count;
        if row.back == row.used.count {
            *row = Device {
                revoke: row.revoke,
                ..Device::IDLE
            };
        }
        Ok(())
    }

    /// Somebody may still use these frames of a closed device, and nobody knows for how long.
    ///
    /// # Errors
    /// [`FactError::NotLent`].
    pub fn retired(&mut self, device: DeviceId, range: FrameRange) -> Result<(), FactError> {
        self.check_lent(device, range)?;
        for frame in range.first..range.end() {
            let region = usize::from(self.nodes[frame].region);
            if self.regions.rows()[region].lent {
                self.settle_region(region);
            }
            if self.nodes[frame].place == Place::Lent {
                self.nodes[frame].place = Place::Retired;
                self.frames.device -= 1;
                self.frames.retired += 1;
            }
        }
        Ok(())
    }

    /// The next thing for the engine to do. O(devices).
    pub fn poll_effect(&mut self) -> Option<DeviceEffect> {
        for (place, row) in self.devices.iter_mut().enumerate() {
            let Some(device) = DeviceId::new(place) else { continue };
            if core::mem::take(&mut row.hand_over) {
                let range = row.handing;
                return Some(DeviceEffect::HandOver { device, range });
            }
            if core::mem::take(&mut row.revoke) {
                let range = row.used;
                return Some(DeviceEffect::Revoke { device, range });
            }
        }
        None
    }

    /// A device as it is now; `None` where there is no such device.
    #[must_use]
    pub fn device(&self, device: DeviceId) -> Option<DeviceView> {
        let row = &self.devices[device.index()];
        row.state.map(|state| DeviceView {
            size: FrameCount::new(self.layout.size(device.index())),
            state,
            used: row.used,
        })
    }

    /// The copy in a frame that is to be a device's has ended.
    pub(super) fn lend_late(&mut self, frame: u32) {
        self.nodes[frame].place = Place::Lent;
        self.frames.device += 1;
        if let Some(row) = self
            .devices
            .iter_mut()
            .find(|row| row.used.has(frame) && !row.is_idle())
        {
            row.waiting = row.waiting.saturating_sub(1);
            row.go_on();
        }
    }

    /// Places of devices that are not idle, in ascending order, and the set of those that are, with the rest of the
    /// region.
    pub(super) fn occupied(&self) -> ([FrameRange; MOST_DEVICES], usize, u8) {
        let mut places = [FrameRange::default(); MOST_DEVICES];
        let (mut count, mut closed) = (0, 0);
        for (place, row) in self.devices.iter().enumerate() {
            if row.state.is_some() && !row.is_idle() {
                places[count] = row.place;
                count += 1;
            } else if self.layout.size(place) > 0 {
                closed |= 1 << place;
            }
        }
        places[..count].sort_unstable_by_key(|range| range.first);
        (places, count, closed)
    }

    fn rounded(&self, used: FrameCount, size: u32) -> Result<u32, OpenError> {
        if used.get() > size {
            return Err(OpenError::TooLarge {
                size: FrameCount::new(size),
            });
        }
        let used = if used.is_zero() { size } else { used.get() };
        Ok(used
            .div_ceil(self.chooser.granule())
            .saturating_mul(self.chooser.granule())
            .min(size))
    }

    fn check_lent(&self, device: DeviceId, range: FrameRange) -> Result<(), FactError> {
        let row = &self.devices[device.index()];
        let closed = row.state == Some(DeviceState::Returning);
        let has = |frame| {
            let node = &self.nodes[frame];
            let region = &self.regions.rows()[usize::from(node.region)];
            region.lent || !matches!(node.place, Place::Vacant | Place::Cached)
        };
        let inside = closed && row.used.contains(range) && range.end() <= self.nodes.len();
        if inside && (range.first..range.end()).all(has) {
            Ok(())
        } else {
            Err(FactError::NotLent)
        }
    }

    fn return_part(&mut self, device: DeviceId, region: usize, range: FrameRange) {
        self.settle_region(region);
        for frame in range.first..range.end() {
            match self.nodes[frame].place {
                Place::Lent => self.frames.device -= 1,
                Place::Retired => self.frames.retired -= 1,
                _ => {
                    // Free when its copy has ended.
                    self.copies.set_fate(frame, Fate::Free);
                    let row = &mut self.devices[device.index()];
                    row.waiting = row.waiting.saturating_sub(1);
                    continue;
                }
            }
            self.regions.free_one(&mut self.nodes, frame);
            self.frames.free += 1;
        }
    }
}
