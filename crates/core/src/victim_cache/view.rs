//! What an engine sees of a victim cache.

use super::spec::{DeviceId, FileId, FrameIndex, FrameRange};
use crate::units::{FrameCount, PageIndex};

/// Frames of the region by what they are used for; the six together are the region (law 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Nothing is in them.
    pub free: FrameCount,
    /// A page is copied into them.
    pub filling: FrameCount,
    /// A page is cached in them.
    pub cached: FrameCount,
    /// A page is copied out of them.
    pub leaving: FrameCount,
    /// They are an open device's.
    pub device: FrameCount,
    /// They were a device's, and somebody may still use them.
    pub retired: FrameCount,
}

/// What has happened to pages. `puts` = `hits` + `evicted` + `flushed` + `discarded` + `failed` + cached + filling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Pages taken.
    pub puts: u64,
    /// Pages asked for.
    pub gets: u64,
    /// Pages given back.
    pub hits: u64,
    /// Pages that made room for others, the least recently put one first.
    pub evicted: u64,
    /// Pages whose file has changed or gone.
    pub flushed: u64,
    /// Pages that were where a device is now.
    pub discarded: u64,
    /// Pages that could not be copied in.
    pub failed: u64,
}

/// Where a page that was put goes.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Copy it into this frame, then report [`copied`](super::VictimCache::copied).
    pub frame: FrameIndex,
    /// The page that made room.
    pub evicted: Option<(FileId, PageIndex)>,
}

/// What a page that was asked for is.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// In this frame, and in the cache no more: copy it out, then report [`copied`](super::VictimCache::copied).
    Hit(FrameIndex),
    /// Not here.
    Miss,
}

/// What the engine is to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceEffect {
    /// Give the device these frames; no copy is under way in any of them.
    HandOver {
        /// Whose they are.
        device: DeviceId,
        /// Which.
        range: FrameRange,
    },
    /// Take these frames back, and report [`returned`](super::VictimCache::returned) as far as nobody has them.
    Revoke {
        /// Whose they were.
        device: DeviceId,
        /// Which.
        range: FrameRange,
    },
}

/// Where an opened device is, and what it cost.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The frames that are handed over.
    pub range: FrameRange,
    /// Places that were possible.
    pub candidates: u32,
    /// The cost of the chosen one by the policy, of what is handed over. Distances are counted in halves.
    pub cost: u64,
    /// Pages that were there.
    pub discarded: FrameCount,
}

/// How far a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Closed: its memory caches pages.
    Idle,
    /// Frames wait for copies under way in them.
    Opening,
    /// It has its frames.
    Open,
    /// It is closed, and somebody may still have some of its frames.
    Returning,
}

/// A device as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceView {
    /// Frames that it can open.
    pub size: FrameCount,
    /// How far it is.
    pub state: DeviceState,
    /// What it has, or had until it was closed.
    pub used: FrameRange,
}
