//! Taking mounted file systems off their mount points.

use crate::Errno;
use crate::sys::check_int;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How a file system is taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Only where nobody uses it.
    Unused,
    /// From its mount point at once; whoever uses it goes on until the last one stops.
    Detach,
}

/// Takes what is mounted topmost at `place` off. A symbolic link at `place` itself is not followed.
///
/// # Errors
/// `EBUSY`: it is in use. `EINVAL`: nothing is mounted there. `EPERM`: the process may not.
pub fn unmount(place: &Path, how: Unmount) -> Result<(), Errno> {
    let path = CString::new(place.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let flags = libc::UMOUNT_NOFOLLOW
        | match how {
            Unmount::Unused => 0,
            Unmount::Detach => libc::MNT_DETACH,
        };
    // SAFETY: the path ends with a zero byte and lives during the call.
    check_int(unsafe { libc::umount2(path.as_ptr(), flags) }).map(drop)
}
