//! The kernel's side of a FUSE file system, by the descriptor of `/dev/fuse` that its server has open.

use crate::Errno;
use rustix::fd::{BorrowedFd, OwnedFd, RawFd};
use rustix::io::fcntl_dupfd_cloexec;
use std::collections::BTreeSet;
use std::fs;
use std::io::IoSlice;
use std::sync::{Mutex, PoisonError};

const PATH: &str = "/dev/fuse";
/// `FUSE_NOTIFY_PRUNE` (Linux 6.18).
const PRUNE: i32 = 9;
/// Held while a file system is mounted, so that nobody else's descriptor comes meanwhile.
static MOUNTING: Mutex<()> = Mutex::new(());

/// A descriptor of one file system's connection.
#[derive(Debug)]
pub struct FuseDevice(OwnedFd);

impl FuseDevice {
    /// Mounts a FUSE file system, and finds the device that was opened in this process for it. `None`: it is not found.
    ///
    /// # Errors
    /// That of `mount`.
    pub fn opened_by<T, E>(mount: impl FnOnce() -> Result<T, E>) -> Result<(T, Option<Self>), E> {
        let _one = MOUNTING.lock().unwrap_or_else(PoisonError::into_inner);
        let before = open_devices();
        let mounted = mount()?;
        let new = open_devices().difference(&before).next().copied();
        Ok((mounted, new.and_then(Self::again)))
    }

    fn again(number: RawFd) -> Option<Self> {
        // SAFETY: `mount` has opened it, and what it mounted has it for as long as it is there.
        let device = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl_dupfd_cloexec(device, 0).map(Self).ok()
    }

    /// Has the kernel forget inodes, by their numbers, where nobody uses them: no open file, no directory that a
    /// process is in or of which an entry is known. It tells the server of each that it forgets.
    ///
    /// # Errors
    /// `EINVAL`: the kernel does not know of this (before Linux 6.18).
    pub fn prune(&self, inodes: &[u64]) -> Result<(), Errno> {
        // `fuse_out_header`: length, code, no request; `fuse_notify_prune_out`: count, reserved.
        let numbers: Vec<u8> = inodes.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let mut head = [0_u8; 32];
        let length = u32::try_from(head.len() + numbers.len()).map_err(|_| Errno::INVAL)?;
        let count = u32::try_from(inodes.len()).map_err(|_| Errno::INVAL)?;
        head[..4].copy_from_slice(&length.to_ne_bytes());
        head[4..8].copy_from_slice(&PRUNE.to_ne_bytes());
        head[16..20].copy_from_slice(&count.to_ne_bytes());
        rustix::io::writev(&self.0, &[IoSlice::new(&head), IoSlice::new(&numbers)]).map(drop)
    }
}

/// The descriptors of `/dev/fuse` that this process has.
fn open_devices() -> BTreeSet<RawFd> {
    let Ok(all) = fs::read_dir("/proc/self/fd") else {
        return BTreeSet::new();
    };
    let is_device = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == PATH);
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    all.flatten().filter(is_device).filter_map(number).collect()
}
