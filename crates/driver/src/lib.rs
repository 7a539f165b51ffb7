//! What every driver of the core keeps and does the same way: the simulator, the embedded pager and the server.
//!
//! The core decides and does nothing; a driver carries its effects out and tells it what has ended. Where the pages
//! are, how time passes and who waits differs between the drivers: that is their [`Backend`]. What does not is here.
//!
//! # Absences
//! - No clock, no system call, no lock: who shares a structure between threads puts it behind a lock of its own.
//! - Nothing is allocated where a structure was made [bounded](Transfers::bounded), and by a [`Recorder`].
#![forbid(unsafe_code)]

mod batch;
mod events;
mod holder_row;
mod recorder;
mod runs;
mod transfers;

pub use batch::{Backend, Batch, End, Ended, Run};
pub use events::{EvictionEvent, Evictions, FaultEnd, FaultEvent, LockHoldEvent, TransferEvent, WaitEvent};
pub use holder_row::HolderRow;
pub use recorder::{EventCapacity, Recorder, keep, touched};
pub use runs::for_runs;
pub use transfers::{Transfer, Transfers, WHEN_TOLD};
