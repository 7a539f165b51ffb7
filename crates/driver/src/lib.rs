//! What every driver of the core keeps and does the same way: the simulator, the embedded pager and the server.
//!
//! The core decides and does nothing; a driver carries its effects out and tells it what has ended. Where the pages
//! are, how time passes and who waits differs between the drivers. What does not is here.
//!
//! # Absences
//! - No clock, no system call, no lock: who shares a structure between threads puts it behind a lock of its own.
//! - Nothing is allocated where a structure was made [bounded](Transfers::bounded).
#![forbid(unsafe_code)]

mod holder_row;
mod transfers;

pub use holder_row::HolderRow;
pub use transfers::{Transfer, Transfers, WHEN_TOLD};
