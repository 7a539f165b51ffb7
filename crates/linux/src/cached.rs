//! How much of a file the kernel's page cache holds (`cachestat`, 6.5).

use crate::{Errno, sys};
use rustix::fd::{AsFd, AsRawFd};

const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// `struct cachestat`
#[repr(C)]
#[derive(Default)]
struct Reply {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of `file` that the kernel holds, of `length` bytes from `offset` on; length 0 means to the end.
///
/// # Errors
/// `NOSYS` where the kernel lacks it, `PERM` where the file is another user's.
pub fn cached_pages(file: impl AsFd, offset: u64, length: u64) -> Result<u64, Errno> {
    let request = Range { offset, length };
    let mut reply = Reply::default();
    // SAFETY: both structures are laid out as the kernel's and live through the call; only `reply` is written.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_fd().as_raw_fd(),
            &raw const request,
            &raw mut reply,
            0_u32,
        )
    };
    sys::check(result)?;
    Ok(reply.cached)
}
