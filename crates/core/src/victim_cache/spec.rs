//! What a victim cache is made with, and the names of what it manages.

use super::VictimCache;
use super::error::SpecError;
use crate::units::FrameCount;

/// The most devices, the rest of a region that is larger than their sum counted as one.
pub const MOST_DEVICES: usize = 8;
/// The most frames of a region: 64 GiB.
const MOST_FRAMES: u32 = 1 << 24;

/// A file: an identity that the engine has given a number. The number says nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u64);

impl FileId {
    /// The file with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A device, by its place in [`VictimCacheSpec::devices`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(u8);

impl DeviceId {
    /// The device at this place, from zero; `None` past [`MOST_DEVICES`].
    #[must_use]
    pub fn new(place: usize) -> Option<Self> {
        u8::try_from(place)
            .ok()
            .filter(|place| usize::from(*place) < MOST_DEVICES)
            .map(Self)
    }

    /// The place, from zero.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A frame of the region, by its position in it, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameIndex(pub(super) u32);

impl FrameIndex {
    /// The frame at this position.
    #[must_use]
    pub const fn new(position: u32) -> Self {
        Self(position)
    }

    /// The position.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Frames that lie behind one another in the region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameRange {
    pub(super) first: u32,
    pub(super) count: u32,
}

impl FrameRange {
    /// `count` frames from `first` on. A range that leaves the region is refused where it is used.
    #[must_use]
    pub const fn new(first: FrameIndex, count: FrameCount) -> Self {
        Self {
            first: first.0,
            count: count.get(),
        }
    }

    /// The first frame.
    #[must_use]
    pub const fn first(self) -> FrameIndex {
        FrameIndex(self.first)
    }

    /// How many frames.
    #[must_use]
    pub const fn count(self) -> FrameCount {
        FrameCount::new(self.count)
    }

    pub(super) const fn end(self) -> u32 {
        self.first.saturating_add(self.count)
    }

    pub(super) const fn has(self, frame: u32) -> bool {
        self.first <= frame && frame < self.end()
    }

    pub(super) const fn contains(self, other: Self) -> bool {
        self.first <= other.first && other.end() <= self.end()
    }

    pub(super) const fn overlaps(self, other: Self) -> bool {
        self.first < other.end() && other.first < self.end()
    }

    /// The part that both have.
    pub(super) fn meet(self, other: Self) -> Self {
        let first = self.first.max(other.first);
        Self {
            first,
            count: self.end().min(other.end()).saturating_sub(first),
        }
    }
}

/// Which of the possible places an opened device gets (paper 003, sections 3.3 and 5.4). The cost of a place is the sum
/// of its pages' costs; the lowest address wins among equals. Free frames cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// A page costs its distance from the least recently put one. Distances are those of the middle of a page's bucket:
    /// the chosen place costs at most `frames of the device × frames of the region / 256` more than the cheapest.
    Lru,
    /// As [`Policy::Lru`], by one walk through the list of all pages: exact, and O(frames).
    LruExact,
    /// A page costs what it was said to be worth when it was put. With every worth 1 this is the paper's `count`.
    Worth,
    /// Any place, drawn from this seed and the number of opens so far.
    Random {
        /// The seed.
        seed: u64,
    },
    /// Each device has one place: that in which the devices lie behind one another in this order.
    Static {
        /// Devices in order of address. Places behind the last device are not looked at.
        order: [u8; MOST_DEVICES],
    },
}

/// Which places are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Those after which every closed device can still be packed into the gaps: no open of a closed device is refused.
    Safe,
    /// Those of the paper, free and in PR(d): a device can find none. For comparison.
    Paper,
}

/// A region of frames, set aside for devices, that caches clean pages of files while they are closed.
#[derive(Clone, Copy, Debug)]
pub struct VictimCacheSpec<'a> {
    /// Frames of the region, 1 to 2²⁴; at least the sum of the devices'.
    pub frames: FrameCount,
    /// What each device opens at most: 1 to 8 devices, one less where the region is larger than their sum.
    pub devices: &'a [FrameCount],
    /// What is opened in part is rounded up to a multiple of this, at least 1.
    pub granule: FrameCount,
    /// Copies into and out of frames that can be under way at a time, 1 to 1024.
    pub copies: u16,
    /// Files that pages can be of at a time, at least 1. Those count whose pages a device has displaced, until they are
    /// met: at least as many as there are frames never refuses a page.
    pub files: u32,
    /// Which place a device gets.
    pub policy: Policy,
    /// Which are possible.
    pub placement: Placement,
}

impl VictimCacheSpec<'_> {
    /// Makes the tables: some 50 bytes for each frame. Nothing is allocated afterwards.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn seal(self) -> Result<VictimCache, SpecError> {
        let frames = self.frames.get();
        if frames == 0 || frames > MOST_FRAMES {
            return Err(SpecError::Frames);
        }
        if self.granule.is_zero() || self.copies == 0 || self.copies > 1024 || self.files == 0 {
            return Err(SpecError::Limit);
        }
        if self.devices.is_empty() || self.devices.iter().any(|size| size.is_zero()) {
            return Err(SpecError::Devices);
        }
        let sum: u64 = self.devices.iter().map(|size| u64::from(size.get())).sum();
        if sum > u64::from(frames) {
            return Err(SpecError::TooSmall {
                region: self.frames,
                devices: FrameCount::new(u32::try_from(sum).unwrap_or(u32::MAX)),
            });
        }
        if self.devices.len() + usize::from(sum < u64::from(frames)) > MOST_DEVICES {
            return Err(SpecError::Devices);
        }
        if let Policy::Static { order } = self.policy {
            let listed = &order[..self.devices.len()];
            let all = (0..self.devices.len()).all(|device| listed.iter().any(|place| usize::from(*place) == device));
            if !all {
                return Err(SpecError::Order);
            }
        }
        VictimCache::new(&self).ok_or(SpecError::OutOfMemory)
    }
}
