//! The places for a device: PR(d), and of these the *safe* ones.
//!
//! A state is *safe* if the closed devices can be packed into the gaps between the open ones. A device is opened only
//! where the state stays safe. So no open of a closed device is ever refused, in any order, and no open device is
//! moved: the empty state is safe; from a safe state each closed device has its place in the packing; a device that
//! closes is packed back to its place. The paper's rule (free, and in PR(d)) does not give that: of sizes 1, 1, 2 the
//! first two at 0 and 2 leave no place for the third.

use super::spec::{FrameRange, MOST_DEVICES};

/// Sets of devices, one bit each.
type Devices = u8;
/// How many sets there are.
const SETS: usize = 1 << MOST_DEVICES;

/// Sets of sets of devices.
#[derive(Clone, Copy)]
struct Sets([u64; SETS / 64]);

impl Sets {
    const NONE: Self = Self([0; SETS / 64]);

    fn add(&mut self, set: Devices) {
        self.0[usize::from(set) / 64] |= 1 << (set % 64);
    }

    fn has(&self, set: Devices) -> bool {
        self.0[usize::from(set) / 64] & (1 << (set % 64)) != 0
    }
}

/// The sizes of devices, and of the rest of the region as one more that never opens. Their sum is the region.
#[derive(Debug)]
pub(super) struct Layout {
    sizes: [u32; MOST_DEVICES],
    devices: usize,
    /// The sum of each set's sizes.
    sums: [u32; SETS],
}

/// Places for a device: their first frames, in ascending order.
#[derive(Debug)]
pub(super) struct Places {
    firsts: [u32; SETS],
    count: usize,
}

impl Places {
    const NONE: Self = Self {
        firsts: [0; SETS],
        count: 0,
    };

    fn add(&mut self, first: u32) {
        if let Err(at) = self.firsts[..self.count].binary_search(&first) {
            self.firsts.copy_within(at..self.count, at + 1);
            self.firsts[at] = first;
            self.count += 1;
        }
    }

    pub(super) fn firsts(&self) -> &[u32] {
        &self.firsts[..self.count]
    }
}

impl Layout {
    /// A layout of the first `devices` sizes.
    pub(super) fn new(sizes: [u32; MOST_DEVICES], devices: usize) -> Self {
        let mut sums = [0_u32; SETS];
        for set in 1..1_usize << devices {
            let lowest = set.trailing_zeros() as usize;
            sums[set] = sums[set & (set - 1)] + sizes[lowest];
        }
        Self { sizes, devices, sums }
    }

    pub(super) fn size(&self, device: usize) -> u32 {
        self.sizes[device]
    }

    fn all(&self) -> Devices {
        Devices::try_from((1_usize << self.devices) - 1).unwrap_or(Devices::MAX)
    }

    fn sum(&self, set: Devices) -> u32 {
        self.sums[usize::from(set)]
    }

    /// Every address where a device can begin or end, in ascending order: 0 and the end of the region among them.
    pub(super) fn cuts(&self) -> Cuts {
        let mut cuts = Places::NONE;
        for set in 0..=self.all() {
            cuts.add(self.sum(set));
        }
        Cuts(cuts)
    }

    /// PR(d), as far as it is free: places of the device in any permutation, that no open one overlaps.
    pub(super) fn free_places(&self, device: usize, open: &[FrameRange]) -> Places {
        let mut places = Places::NONE;
        for left in subsets(self.all() & !bit(device)) {
            let place = FrameRange {
                first: self.sum(left),
                count: self.sizes[device],
            };
            if !open.iter().any(|other| other.overlaps(place)) {
                places.add(place.first);
            }
        }
        places
    }

    /// Places after which the state is safe; some, if it is safe now. `closed`: which devices are not open, the rest of
    /// the region among them; `open`: the places of the others in ascending order. O(gaps² × 3^closed).
    pub(super) fn safe_places(&self, device: usize, closed: u8, open: &[FrameRange]) -> Places {
        let mut places = Places::NONE;
        for gap in 0..=open.len() {
            let Some(first) = self
                .gap(gap, open)
                .filter(|range| range.count > 0)
                .map(|range| range.first)
            else {
                continue;
            };
            let elsewhere = self.fillings(gap, closed & !bit(device), open);
            for filling in subsets(closed & !bit(device)).filter(|set| elsewhere.has(*set)) {
                // The others and the device fill this gap, in any order.
                for left in subsets(closed & !bit(device) & !filling) {
                    places.add(first + self.sum(left));
                }
            }
        }
        places
    }

    /// Whether the devices that are not open can be packed into the gaps.
    pub(super) fn is_safe(&self, closed: u8, open: &[FrameRange]) -> bool {
        self.fillings(open.len() + 1, closed, open).has(closed)
    }

    /// The gap before the open device at this position, or behind the last one.
    fn gap(&self, gap: usize, open: &[FrameRange]) -> Option<FrameRange> {
        let first = match gap.checked_sub(1) {
            Some(before) => open.get(before)?.end(),
            None => 0,
        };
        let end = open.get(gap).map_or(self.sum(self.all()), |range| range.first);
        Some(FrameRange {
            first,
            count: end.saturating_sub(first),
        })
    }

    /// Sets of closed devices that fill all gaps but one exactly.
    fn fillings(&self, but: usize, closed: Devices, open: &[FrameRange]) -> Sets {
        let mut filled = Sets::NONE;
        filled.add(0);
        for gap in (0..=open.len()).filter(|gap| *gap != but) {
            let room = self.gap(gap, open).map_or(0, |range| range.count);
            let mut next = Sets::NONE;
            for set in subsets(closed).filter(|set| filled.has(*set)) {
                for more in subsets(closed & !set).filter(|more| self.sum(*more) == room) {
                    next.add(set | more);
                }
            }
            filled = next;
        }
        filled
    }
}

/// Addresses, ascending.
#[derive(Debug)]
pub(super) struct Cuts(Places);

impl Cuts {
    pub(super) fn addresses(&self) -> &[u32] {
        self.0.firsts()
    }
}

fn bit(device: usize) -> Devices {
    1 << device
}

/// All subsets of a set, the empty one and itself included.
fn subsets(set: Devices) -> impl Iterator<Item = Devices> {
    let mut next = Some(0);
    core::iter::from_fn(move || {
        let this: Devices = next?;
        next = if this == set {
            None
        } else {
            Some(this.wrapping_sub(set) & set)
        };
        Some(this)
    })
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
