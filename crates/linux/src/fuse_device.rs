//! The kernel's side of a FUSE file system, by the descriptor of `/dev/fuse` that its server has open.

use crate::Errno;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::fcntl_dupfd_cloexec;
use std::io::IoSlice;

/// `FUSE_NOTIFY_PRUNE` (Linux 6.18).
const PRUNE: i32 = 9;

/// A descriptor of one file system's connection.
#[derive(Debug)]
pub struct FuseDevice(OwnedFd);

impl FuseDevice {
    /// The device that a server has open, once more.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn of(device: BorrowedFd<'_>) -> Result<Self, Errno> {
        fcntl_dupfd_cloexec(device, 0).map(Self)
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
