//! Where the mount is: taken off its mount point once, and only where it is still what is mounted there.
//!
//! Who takes whatever is at a path off may take another file system: the one below, where this one has gone already, or
//! one that somebody has mounted over it or in its place meanwhile.

use freehold_linux::mounts::{self, FuseMount, Unmount};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// How it was taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenOff {
    /// Nobody used it.
    Unused,
    /// Programs use it still, and find it gone.
    InUse,
    /// It is not what is mounted there: somebody else has taken it off, or it lies below another file system.
    Elsewhere,
}

/// A mount at its mount point. One that is dropped is taken off.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// The kernel's number of the mount; none once it has been taken off.
    id: Option<u64>,
}

impl Place {
    /// Mounts; the descriptor is the connection to the kernel.
    ///
    /// # Errors
    /// As [`mounts::mount_fuse`].
    pub(crate) fn take(path: &Path, mount: &FuseMount<'_>) -> Result<(Self, OwnedFd), Errno> {
        let device = mounts::mount_fuse(path, mount)?;
        let id = mounts::id(path).inspect_err(|_| {
            // Nothing has been served yet, so nobody uses it.
            let _ = mounts::unmount(path, Unmount::Detach);
        })?;
        let place = Self {
            path: path.to_path_buf(),
            id: Some(id),
        };
        Ok((place, device))
    }

    /// The mount point.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the mount off.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(crate) fn give_up(mut self) -> Result<TakenOff, Errno> {
        let is_there = mounts::id(&self.path).ok() == self.id;
        self.id = None;
        if !is_there {
            return Ok(TakenOff::Elsewhere);
        }
        match mounts::unmount(&self.path, Unmount::Unused) {
            Ok(()) => Ok(TakenOff::Unused),
            Err(Errno::BUSY) => mounts::unmount(&self.path, Unmount::Detach).map(|()| TakenOff::InUse),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.id.is_some() && mounts::id(&self.path).ok() == self.id {
            // It can be refused only where it is gone.
            let _ = mounts::unmount(&self.path, Unmount::Detach);
        }
    }
}
