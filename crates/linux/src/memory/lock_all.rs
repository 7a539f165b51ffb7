//! Locking all memory of a process.

use super::LockError;
use crate::Errno;
use rustix::mm::MlockAllFlags;

/// Locks everything that is mapped now, absent pages filled first. Later mappings are not locked. This is what
/// real-time programs do without Freehold; do not mix the two (see [`super::SharedMapping::lock_on_fault`]).
///
/// # Errors
/// See [`LockError`]; the number of bytes is not known and given as 0.
pub fn lock_all_current() -> Result<(), LockError> {
    rustix::mm::mlockall(MlockAllFlags::CURRENT).map_err(|errno| match errno {
        Errno::NOMEM | Errno::PERM => LockError::Limit { wanted: 0 },
        other => LockError::System(other),
    })
}

/// Locks every page that is or comes to be in memory, now mapped or later, without filling absent ones: for a process
/// whose own memory must not be paged out, but whose mappings are larger than what it uses. Mappings that are
/// zapped must not exist in such a process before 5.18 (see [`super::SharedMapping::zap`]).
///
/// # Errors
/// See [`LockError`]; the number of bytes is not known and given as 0.
pub fn lock_all_on_fault() -> Result<(), LockError> {
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    rustix::mm::mlockall(flags).map_err(|errno| match errno {
        Errno::NOMEM | Errno::PERM => LockError::Limit { wanted: 0 },
        other => LockError::System(other),
    })
}
