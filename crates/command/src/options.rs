//! What options of several subcommands mean.

use freehold_core::ReadAhead;
use freehold_core::units::FrameCount;
use freehold_linux::available::{memory_available, memory_available_at_rest};

use crate::exit_status::Failure;

/// Bytes of a frame.
pub const PAGE: u64 = 4096;

/// A number of pages that are read back together.
///
/// # Errors
/// What is wrong with the text: no number, or no power of two from 1 to 64.
pub fn read_ahead(text: &str) -> Result<ReadAhead, String> {
    let pages = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    ReadAhead::of(pages).ok_or_else(|| format!("{pages} is no power of two from 1 to 64"))
}

/// A pool that the machine, or the cgroup, does not have would end others sooner than be refused. `option` is what its
/// size was said by. Memory that programs which have just ended give back is waited for.
///
/// # Errors
/// There is not so much.
pub fn refuse_what_is_not_there(option: &str, pool: FrameCount) -> Result<(), Failure> {
    let bytes = u64::from(pool.get()) * PAGE;
    if memory_available().is_none_or(|(available, _)| bytes <= available) {
        return Ok(());
    }
    match memory_available_at_rest() {
        Some((available, limit)) if bytes > available => Err(Failure::Input(format!(
            "{option}: a pool of {} MiB is needed, {} MiB are available {limit}: ask for less",
            bytes >> 20,
            available >> 20
        ))),
        _ => Ok(()),
    }
}
