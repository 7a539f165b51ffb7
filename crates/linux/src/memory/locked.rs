//! A memory object with a locked mapping of all of it, as all have it who keep pages in frames.

use super::{Access, LockError, MapError, Memfd, MemfdError, SharedMapping, Tmpfs};
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

/// Locked memory could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockedError {
    /// The object.
    #[error(transparent)]
    Memory(#[from] MemfdError),
    /// Its mapping.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The lock of its mapping.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// An object of `pages` absent pages, and a mapping in which each is locked once it has a frame. `name` shows in
/// `/proc/PID/maps`.
///
/// # Errors
/// See [`LockedError`].
pub fn locked_memfd(name: &CStr, pages: usize) -> Result<(SharedMapping, Memfd), LockedError> {
    lock(Memfd::create(name, pages)?)
}

/// The same, whose size nobody can change. `executable` where others may map it for execution.
///
/// # Errors
/// See [`LockedError`].
pub(super) fn sealed_locked_memfd(
    name: &CStr,
    pages: usize,
    executable: bool,
) -> Result<(SharedMapping, Memfd), LockedError> {
    lock(Memfd::create_sealed(name, pages, executable)?)
}

/// One with a path, which only its maker writes.
///
/// # Errors
/// See [`LockedError`]; as [`Tmpfs::create`].
pub(super) fn locked_file(
    tmpfs: &Arc<Tmpfs>,
    path: &Path,
    pages: usize,
) -> Result<(SharedMapping, Memfd), LockedError> {
    lock(Memfd::create_at(tmpfs, path, pages)?)
}

fn lock(memfd: Memfd) -> Result<(SharedMapping, Memfd), LockedError> {
    let mut mapping = SharedMapping::of_whole(&memfd, Access::ReadWrite)?;
    mapping.lock_on_fault()?;
    Ok((mapping, memfd))
}
