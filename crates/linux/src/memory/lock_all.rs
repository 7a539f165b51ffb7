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
