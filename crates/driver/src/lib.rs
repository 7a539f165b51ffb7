//! The common part of all drivers of the core: the simulator, the embedded pager and the server.
//!
//! The core decides and does nothing. A driver carries its effects out, and tells it of each end. Drivers differ in
//! the place of the pages, the passing of time and the way of waiting: that is their [`Backend`]. Everything else is
//! here.
//!
//! # Absences
//! - No clock, no system call, no lock. A driver that shares a structure between threads puts it behind its own lock.
//! - No allocation in a structure that was made [bounded](Transfers::bounded), nor in a [`Recorder`].
#![forbid(unsafe_code)]

mod batch;
mod completions;
mod events;
mod holder_row;
mod record_search;
mod recorder;
mod runs;
mod transfers;

pub use batch::{Backend, Batch, Run};
pub use completions::{Completions, End, Ended};
pub use events::{EvictionEvent, Evictions, FaultEnd, FaultEvent, LockHoldEvent, TransferEvent, WaitEvent};
pub use holder_row::HolderRow;
pub use record_search::RecordSearch;
pub use recorder::{EventCapacity, Recorder, keep, touched};
pub use runs::for_runs;
pub use transfers::{Transfer, Transfers, WHEN_TOLD};
