//! Mounting FUSE file systems, and taking mounted file systems off their mount points.

use crate::Errno;
use crate::sys::check_int;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::process::{getegid, geteuid};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `STATX_MNT_ID_UNIQUE` (Linux 6.8): the number of a mount, which no other ever gets.
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// How a file system is taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Only where nobody uses it.
    Unused,
    /// From its mount point at once; whoever uses it goes on until the last one stops.
    Detach,
}

/// A FUSE file system that is to be mounted.
#[derive(Clone, Copy, Debug)]
pub struct FuseMount<'a> {
    /// Its type in the table of mounts: `fuse.` and a name.
    pub kind: &'a CStr,
    /// What is mounted, in the table of mounts.
    pub source: &'a Path,
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Other users may use it too.
    pub allow_other: bool,
}

/// Mounts a FUSE file system at a directory, whose permissions the kernel checks, without set-user-id programs and
/// device files. Returns the connection to the kernel (fuse(4)); the file system is dead when the last descriptor of
/// it is closed, and stays mounted.
///
/// # Errors
/// `ENOENT`, `ENODEV`: no `/dev/fuse`, no FUSE. `EPERM`, `EACCES`: the process may not.
pub fn mount_fuse(place: &Path, mount: &FuseMount<'_>) -> Result<OwnedFd, Errno> {
    let device = rustix::fs::open(c"/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let terminated = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL);
    let (path, source) = (terminated(place)?, terminated(mount.source)?);
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions{}",
        device.as_raw_fd(),
        rustix::fs::stat(place)?.st_mode,
        geteuid().as_raw(),
        getegid().as_raw(),
        if mount.allow_other { ",allow_other" } else { "" },
    );
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let read_only = if mount.read_only { libc::MS_RDONLY } else { 0 };
    let flags = libc::MS_NOSUID | libc::MS_NODEV | read_only;
    // SAFETY: four texts that end with a zero byte and live during the call.
    check_int(unsafe {
        libc::mount(
            source.as_ptr(),
            path.as_ptr(),
            mount.kind.as_ptr(),
            flags,
            data.as_ptr().cast(),
        )
    })?;
    Ok(device)
}

/// The number of what is mounted topmost at `place`, as the kernel counts mounts. A file system that serves it is not
/// asked.
///
/// # Errors
/// The kernel's refusal to find `place`.
pub fn id(place: &Path) -> Result<u64, Errno> {
    // `AT_STATX_DONT_SYNC`.
    let at_rest = AtFlags::NO_AUTOMOUNT | AtFlags::from_bits_retain(0x4000);
    rustix::fs::statx(CWD, place, at_rest, StatxFlags::MNT_ID | UNIQUE).map(|found| found.stx_mnt_id)
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

#[cfg(test)]
mod tests {
    use super::id;
    use std::path::Path;

    #[test]
    fn file_systems_have_numbers_of_their_own() {
        let [root, processes] = ["/", "/proc"].map(|place| id(Path::new(place)).expect("it is there"));
        assert_ne!(root, processes);
        assert_eq!(id(Path::new("/proc/self")), Ok(processes));
        assert!(id(Path::new("/nothing")).is_err());
    }
}
