//! The C library's `errno` convention turned into [`Errno`].

use crate::Errno;

/// The calling thread's `errno`. Async-signal-safe.
pub(crate) fn errno() -> i32 {
    // SAFETY: __errno_location returns a valid pointer to the calling thread's errno for as long as the thread lives.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`. Async-signal-safe.
pub(crate) fn set_errno(value: i32) {
    // SAFETY: as in `errno`; only this thread accesses its own errno.
    unsafe { *libc::__errno_location() = value }
}

/// The result of a system call that returns -1 and sets `errno` on failure. Async-signal-safe.
pub(crate) fn check(result: libc::c_long) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(errno()))
}

/// As [`check`], for calls that return `int`.
pub(crate) fn check_int(result: libc::c_int) -> Result<usize, Errno> {
    check(libc::c_long::from(result))
}
