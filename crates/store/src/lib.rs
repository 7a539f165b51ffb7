//! Where evicted pages go.
//!
//! There are three: [`MemoryStore`], [`CompressedStore`] and [`FileStore`]. A store has one slot for each page it may
//! ever hold, reserved when the store is made: a write-back never finds the store full, unless its user asked for
//! less room than that. A transfer has three moments, the seam that all of them share ([`Store`]):
//!
//! 1. *submit*: the transfer begins. The store is lent the page ([`PageLease`]) until the transfer is finished, and
//!    moves the bytes when it likes.
//! 2. *due*: the time at which it ends, where that is known; else the store tells a [`Completion`].
//! 3. *finish*: the result is fetched and the page given back. Only here does a failure show, and only here may a
//!    reader look at the page.
//!
//! At most one transfer of a slot is under way at a time; the core's page states see to that.
//!
//! # Absences
//! - Nothing is allocated in a transfer, and no call of one reads a clock: all of them may be made in a signal handler.
//! - Nothing outlives the process: checksums and places are in memory, and the file has no name.
#![forbid(unsafe_code)]

mod attempts;
mod channels;
mod checksum;
mod compressed;
mod description;
mod error;
mod faults;
mod file;
mod memory;
mod queue;
mod slots;
mod store;
mod tally;

pub use checksum::keyed as checksum;
pub use compressed::{CompressedConfig, CompressedStore};
pub use description::{Backend, Description, Kind, Shortfall};
pub use error::{Damage, SetupError, StoreError};
pub use faults::{Faults, RandomFaults};
pub use file::{FileConfig, FileStore};
pub use freehold_linux::memory::PageLease;
pub use memory::{MemoryStore, StoreConfig};
pub use slots::Slot;
pub use store::{Completion, Due, Store, Urgency};
pub use tally::StoreStats;

/// Bytes in a record: one page.
pub const RECORD_SIZE: usize = freehold_linux::PAGE_SIZE;

/// The content of one page.
pub type Record = [u8; RECORD_SIZE];
