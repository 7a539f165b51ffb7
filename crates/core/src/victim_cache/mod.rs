//! Memory that is reserved for devices, as a cache of file pages while they are closed (paper 003).
//!
//! A state machine beside [`Memory`](crate::Memory): it decides which page is in which frame of the *region*, which
//! pages go for others, and where a device that opens gets its frames. It copies nothing and hands over nothing: facts
//! and commands go in, [`Put`], [`Got`], [`Opened`] and [`DeviceEffect`] come out. The cache is exclusive (a hit takes
//! the page out) and holds clean pages only, so a discard loses nothing but time (law 6).
//!
//! | paper 003 | here |
//! |---|---|
//! | `put_page`, `get_page`, `flush_page`, `flush_inode` (3.2) | `put`, `get`, `flush_page`, `flush_file`: `pages.rs` |
//! | one LRU list over all frames (3.2) | `lru.rs` |
//! | PR(d), BR(d) (3.3) | `placement.rs`, `regions.rs` |
//! | page cost C_i, equations 1 and 2 (3.3) | `cost.rs`, `choice.rs` |
//! | `ecache_alloc`, `ecache_free` (4) | `open`, `grow`, `closed`, `returned`: `device.rs` |
//! | lazy discard (4) | `discard.rs`, by generation of a base region |

mod choice;
mod copies;
mod cost;
mod device;
mod discard;
pub mod error;
mod files;
mod index;
mod law;
mod lru;
mod node;
mod pages;
mod placement;
mod regions;
mod spec;
mod view;

pub use spec::{DeviceId, FileId, FrameIndex, FrameRange, MOST_DEVICES, Placement, Policy, VictimCacheSpec};
pub use view::{DeviceEffect, DeviceState, DeviceView, Frames, Got, Opened, PageCounts, Put};

use crate::units::FrameCount;
use choice::Chooser;
use copies::Copies;
use cost::Buckets;
use device::Device;
use files::Files;
use index::HashTable;
use lru::FrameList;
use node::Nodes;
use placement::Layout;
use regions::Regions;

/// A region of frames and everything that is known of it. Made by [`VictimCacheSpec::seal`].
#[derive(Debug)]
pub struct VictimCache {
    nodes: Nodes,
    /// Pages in order of puts.
    order: FrameList,
    index: HashTable,
    files: Files,
    regions: Regions,
    buckets: Buckets,
    copies: Copies,
    layout: Layout,
    chooser: Chooser,
    devices: [Device; MOST_DEVICES],
    frames: Tally,
    pages: PageCounts,
}

/// Frames by use, as plain numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    free: u32,
    filling: u32,
    cached: u32,
    leaving: u32,
    device: u32,
    retired: u32,
}

impl VictimCache {
    /// Tables for a checked specification; `None` where memory is short.
    fn new(spec: &VictimCacheSpec<'_>) -> Option<Self> {
        let frames = spec.frames.get();
        let mut sizes = [0; MOST_DEVICES];
        for (size, wanted) in sizes.iter_mut().zip(spec.devices) {
            *size = wanted.get();
        }
        let rest = frames - sizes.iter().sum::<u32>();
        let mut parts = spec.devices.len();
        if rest > 0 {
            sizes[parts] = rest;
            parts += 1;
        }
        let layout = Layout::new(sizes, parts);
        let cuts = layout.cuts();
        let cuts = cuts.addresses();
        let regions = Regions::new(cuts)?;
        let region = |frame| u8::try_from(cuts.partition_point(|cut| *cut <= frame) - 1).unwrap_or(u8::MAX);
        let mut devices = [Device::ABSENT; MOST_DEVICES];
        for device in &mut devices[..spec.devices.len()] {
            *device = Device::IDLE;
        }
        Some(Self {
            nodes: Nodes::new(frames, region)?,
            order: FrameList::EMPTY,
            index: HashTable::new(frames)?,
            // One more than there can be pages of: a new file comes before the page that makes room goes.
            files: Files::new(spec.files.min(frames) + 1)?,
            buckets: Buckets::new(frames, regions.rows().len())?,
            regions,
            copies: Copies::new(spec.copies)?,
            layout,
            chooser: Chooser::new(spec),
            devices,
            frames: Tally {
                free: frames,
                ..Tally::default()
            },
            pages: PageCounts::default(),
        })
    }

    /// The region's frames by use.
    #[must_use]
    pub fn frames(&self) -> Frames {
        let Tally {
            free,
            filling,
            cached,
            leaving,
            device,
            retired,
        } = self.frames;
        Frames {
            free: FrameCount::new(free),
            filling: FrameCount::new(filling),
            cached: FrameCount::new(cached),
            leaving: FrameCount::new(leaving),
            device: FrameCount::new(device),
            retired: FrameCount::new(retired),
        }
    }

    /// What has happened to pages so far.
    #[must_use]
    pub fn page_counts(&self) -> PageCounts {
        self.pages
    }

    /// By how much the place that [`Policy::Lru`] chooses can cost more than the cheapest, in the unit of
    /// [`Opened::cost`], for a device of so many frames.
    #[must_use]
    pub fn cost_error(&self, frames: FrameCount) -> u64 {
        2 * u64::from(frames.get()) * u64::from(self.buckets.capacity())
    }
}
