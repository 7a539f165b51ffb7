//! What a server is started with.

use freehold_core::units::{FrameCount, PageCount};
use freehold_core::{ReadAhead, UNLOCKED_FRAMES};
use std::path::PathBuf;
use std::time::Duration;

/// Sizes, the store, and how the server treats clients that do not answer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Frames of the pool.
    pub frames: FrameCount,
    /// Pages of all objects together, private memory included: also the records of the store.
    pub pages: PageCount,
    /// Frames of the pool that stay for tasks without a reservation, together, while there are any: few, but no fault
    /// of theirs finds none at all.
    pub least_unreserved: FrameCount,
    /// How much of everything else there can be.
    pub tables: Tables,
    /// Where evicted pages go.
    pub store: StoreMedium,
    /// Pages that tasks without a reservation read back together.
    pub read_ahead: ReadAhead,
    /// Reservations read back in runs what follows: for a server of one program, since law 0 does not hold with it.
    pub reads_on: bool,
    /// What becomes of a client that does not answer while somebody waits.
    pub unresponsive: Unresponsive,
    /// SCHED_FIFO priority of the pager threads.
    pub priority: u32,
    /// CPUs that get a pager thread; all that the process may use if empty.
    pub cpus: Vec<usize>,
    /// What happens is recorded, for one run; see [`RecordingRoom`].
    pub recording: Option<RecordingRoom>,
}

/// How many rows there are, and pages of kinds that take rows of their own.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    /// Reservations at a time.
    pub reservations: u16,
    /// Objects at a time; private memory takes one for each 4 MiB, or less, of each client.
    pub objects: u16,
    /// Tasks of the core at a time: up to 8 for each task of a client.
    pub tasks: u16,
    /// Mappings at a time: one for each pair of task and object.
    pub mappings: u16,
    /// Clients at a time.
    pub clients: u16,
    /// The part of objects, their pages, mappings, clients and tasks that all users together may have who are neither
    /// root nor the server's own, in percent.
    pub user_share: u8,
    /// Pages of objects under `none`, together.
    pub compared_pages: PageCount,
    /// Locked pages that another locker pays, at a time.
    pub shared_locks: PageCount,
}

/// How many events of each kind are recorded: the first ones. An event takes some 50 bytes of locked memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingRoom {
    /// Faults of all tasks.
    pub faults: usize,
    /// Pages that leave.
    pub evictions: usize,
    /// Pages from and to the store.
    pub transfers: usize,
    /// Holds of the engine.
    pub holds: usize,
    /// Samples of all lists.
    pub samples: usize,
    /// The time between two of these.
    pub sample_step: Duration,
}

/// Of the pool's frames, the part that stays for tasks without a reservation, and how many that are at most.
const UNRESERVED_PART: u32 = 16;
const MOST_UNRESERVED: u32 = 64;
/// Pages of objects under the regime `none` together: 2 GiB, for which the table takes 2 MiB.
const COMPARED: u32 = 1 << 19;

impl Settings {
    /// How long a transfer takes by declaration, of files too.
    #[must_use]
    pub fn declared_latency(&self) -> Duration {
        match self.store {
            StoreMedium::Memory { latency, .. } => latency,
            _ => Duration::ZERO,
        }
    }

    /// A server of `frames` frames with four times as many pages, but at least 2 GiB of them, which are kept in memory.
    /// However private memory is scattered, a third as many pages can be in use.
    #[must_use]
    pub fn new(frames: FrameCount) -> Self {
        let pages = frames.get().saturating_mul(4).clamp(1 << 19, 1 << 30);
        let least_unreserved = (frames.get() / UNRESERVED_PART).clamp(UNLOCKED_FRAMES, MOST_UNRESERVED);
        Self {
            frames,
            pages: PageCount::new(pages),
            least_unreserved: FrameCount::new(least_unreserved),
            tables: Tables {
                reservations: 256,
                objects: 8_192,
                tasks: 8_192,
                mappings: 65_000,
                clients: 1_024,
                user_share: 75,
                compared_pages: PageCount::new(pages.min(COMPARED)),
                shared_locks: PageCount::new(65_536),
            },
            store: StoreMedium::Memory {
                latency: Duration::ZERO,
                parallel: 8,
            },
            read_ahead: ReadAhead::NONE,
            reads_on: false,
            unresponsive: Unresponsive {
                bound: Duration::from_secs(1),
                reaction: Reaction::Kill,
            },
            priority: 60,
            cpus: Vec::new(),
            recording: None,
        }
    }
}

/// Which store is made.
#[derive(Clone, Debug)]
pub enum StoreMedium {
    /// Locked memory of the server, with emulated latency.
    Memory {
        /// How long a transfer takes.
        latency: Duration,
        /// Transfers at a time.
        parallel: u16,
    },
    /// Locked memory of the server, compressed.
    Compressed {
        /// Bytes it may take; 0 for as many as it needs.
        bytes: u64,
    },
    /// A nameless file in a directory.
    File {
        /// The directory.
        directory: PathBuf,
        /// Transfers at the device at a time.
        parallel: u16,
    },
}

/// What becomes of a client that leaves an order unanswered while somebody else waits for it (law 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unresponsive {
    /// How long it may.
    pub bound: Duration,
    /// What is done then.
    pub reaction: Reaction,
}

/// How an unresponsive client is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// SIGKILL.
    Kill,
    /// SIGSTOP; it keeps the pages that it has, and others do without.
    Freeze,
}
