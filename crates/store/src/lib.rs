//! Where evicted pages go.
//!
//! A store has one slot for each page it may ever hold, reserved when the store is made: a write-back never finds the
//! store full. A transfer has three moments, the seam along which other stores will be added:
//!
//! 1. *submit*: the transfer begins ([`MemoryStore::submit_write`], [`MemoryStore::submit_read`]). A write takes its
//!    copy of the page at once, so that the frame may go on to be dropped when the write is done.
//! 2. *due*: the time, returned by submit, at which it ends. Nobody is called back: whoever cares waits.
//! 3. *finish*: the result is fetched ([`MemoryStore::finish_write`], [`MemoryStore::finish_read`]). Only here does a
//!    failure show, and only here does a reader see bytes.
//!
//! At most one transfer of a slot is under way at a time; the core's page states see to that.
//!
//! # Absences
//! - Nothing is allocated after a store is made, and no call waits, sleeps or reads a clock: all of them may be made in
//!   a signal handler. The kernel gives a slot its frame at its first write.
//! - No trait: there is one kind of store so far.
#![forbid(unsafe_code)]

mod channels;
mod checksum;
mod error;
mod faults;
mod memory;
mod slots;

pub use error::{Damage, SetupError, StoreError};
pub use faults::Faults;
pub use memory::{MemoryStore, StoreConfig, StoreStats};
pub use slots::Slot;

/// Bytes in a record: one page.
pub const RECORD_SIZE: usize = freehold_linux::PAGE_SIZE;

/// The content of one page.
pub type Record = [u8; RECORD_SIZE];
