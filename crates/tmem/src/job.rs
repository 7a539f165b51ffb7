//! For which job a thread works: its own, or that of the thread which called it, however many calls lie between. Waits
//! for units are counted for that job.

use std::cell::Cell;

/// No job.
pub const NONE: u32 = 0;
/// Jobs have numbers from 1 to this one; waits for others are counted for no job.
pub const MOST: usize = 64;

std::thread_local! {
    static CURRENT: Cell<u32> = const { Cell::new(NONE) };
}

/// The job that the calling thread works for.
#[must_use]
#[inline]
pub fn current() -> u32 {
    CURRENT.get()
}

/// Has the calling thread work for a job, or for [`NONE`]. A callee's thread is told by the call.
#[inline]
pub fn set(job: u32) {
    CURRENT.set(job);
}
