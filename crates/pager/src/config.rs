//! The shape of a pager.

use crate::file_cache::FileCache;
use crate::watch::Watch;
use freehold_core::ReadAhead;
use freehold_core::limits::Limits;
use freehold_core::units::{Duration, FrameCount};
use freehold_driver::EventCapacity;
use freehold_store::FileConfig;
use std::sync::Arc;

/// What makes transfers end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// The monotonic clock: a transfer ends when its store says it is due.
    #[default]
    Clock,
    /// A coordinator, with [`Pager::complete`](crate::Pager::complete): for tests that prescribe the order. The core's
    /// clock stands still between calls of [`Pager::set_now`](crate::Pager::set_now).
    Manual,
}

/// Where evicted pages go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreMedium {
    /// Locked memory, with emulated latency.
    #[default]
    Memory,
    /// Locked memory, compressed, of at most so many frames; see
    /// [`CompressedConfig::capacity`](freehold_store::CompressedConfig::capacity).
    Compressed(Option<FrameCount>),
    /// A file. Its `slots` and `parallel` are those of the pager.
    File(FileConfig),
}

/// How the store behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreShape {
    /// How long each transfer takes; only [`StoreMedium::Memory`] keeps to it, the others take the time they take.
    pub latency: Duration,
    /// Transfers at the device at a time.
    pub parallel: u16,
}

impl Default for StoreShape {
    /// 500 µs, 8 at a time.
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(500),
            parallel: 8,
        }
    }
}

/// Options of a [`Pager`](crate::Pager).
#[derive(Clone, Debug)]
pub struct Config {
    /// Sizes of the core's tables, and of the pager's beside them. The pager keeps 16 bytes for each pair of a task and
    /// an object.
    pub limits: Limits,
    /// What makes transfers end.
    pub pace: Pace,
    /// The store, whose own memory is not part of the pool.
    pub store: StoreShape,
    /// What the store is made of.
    pub medium: StoreMedium,
    /// Pages that tasks without a reservation read back together.
    pub read_ahead: ReadAhead,
    /// Is told of tasks that wait, in [`Pace::Manual`].
    pub watch: Option<Arc<dyn Watch>>,
    /// Takes pages of objects of kind file that leave memory clean.
    pub files: Option<Arc<dyn FileCache>>,
    /// What happens is recorded, as far as there is room: see [`Pager::take_events`](crate::Pager::take_events).
    pub events: Option<EventCapacity>,
}

impl Config {
    /// The clock's pace and a store in memory.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            pace: Pace::default(),
            store: StoreShape::default(),
            medium: StoreMedium::default(),
            read_ahead: ReadAhead::NONE,
            watch: None,
            files: None,
            events: None,
        }
    }
}
