//! FIFOs of this process, as modules use them, for callers in Rust: the same functions under the same lock.

use crate::runtime::fifos;

/// A number of `errno`.
pub type Errno = i32;

fn positive(errno: i32) -> Errno {
    -errno
}

/// `rtf_create`.
///
/// # Errors
/// ENODEV for no such number, EBUSY where it exists, ENOMEM for no size or without memory.
pub fn create(fifo: u32, size: i32) -> Result<(), Errno> {
    fifos::create(fifo, size).map_err(positive)
}

/// `rtf_put`: all of it or nothing.
///
/// # Errors
/// ENOSPC, ENODEV, EINVAL where it does not exist.
#[inline]
pub fn put(fifo: u32, bytes: &[u8]) -> Result<usize, Errno> {
    fifos::put(fifo, bytes).map_err(positive)
}

/// `rtf_get`: what is there.
///
/// # Errors
/// ENODEV, EINVAL where it does not exist.
#[inline]
pub fn get(fifo: u32, to: &mut [u8]) -> Result<usize, Errno> {
    fifos::get(fifo, to).map_err(positive)
}

/// `rtf_destroy`.
///
/// # Errors
/// ENODEV, EINVAL where it does not exist or a process has it open.
pub fn destroy(fifo: u32) -> Result<(), Errno> {
    fifos::destroy(fifo, false).map_err(positive)
}
