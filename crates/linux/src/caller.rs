//! Acting on files as another user, in one thread: for a file server that creates what its callers create.

use crate::Errno;
use rustix::fs::Mode;
use rustix::thread::{CapabilitySet, UnshareFlags};
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// Whether this thread has a file mode mask of its own.
    static OWN_MASK: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, the calling thread creates files as this user and group, with this mask. Where the user is not root
/// the thread has none of root's rights over files meanwhile. Groups beside the first stay those of the process.
#[derive(Debug)]
#[must_use]
pub struct Caller {
    user: libc::uid_t,
    group: libc::gid_t,
    stays: PhantomData<*const ()>,
}

impl Caller {
    /// Acts as this user and group.
    ///
    /// # Errors
    /// `EPERM`: the process may not act as others. Nothing has changed then.
    pub fn assume(user: u32, group: u32, mask: u32) -> Result<Self, Errno> {
        if !OWN_MASK.get() {
            // SAFETY: only the thread's own mask, root and working directory part from those of the other threads;
            // nothing here uses a relative path, and no descriptor is touched.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }?;
            OWN_MASK.set(true);
        }
        rustix::process::umask(Mode::from_raw_mode(mask));
        // SAFETY: these calls take integers, and return what was in force.
        let caller = unsafe {
            // The group first: with another user the right to change it is gone.
            let group_before = libc::setfsgid(group);
            let user_before = libc::setfsuid(user);
            Self {
                user: user_before.cast_unsigned(),
                group: group_before.cast_unsigned(),
                stays: PhantomData,
            }
        };
        // SAFETY: as above; a number that nobody has changes nothing.
        let now = unsafe { (libc::setfsuid(u32::MAX), libc::setfsgid(u32::MAX)) };
        if now == (user.cast_signed(), group.cast_signed()) {
            Ok(caller)
        } else {
            Err(Errno::PERM)
        }
    }

    /// From now on files' modes and lists permit this caller everything. For what somebody else has checked, who knows
    /// all groups of the caller.
    ///
    /// # Errors
    /// `EPERM`: the process has no such right itself.
    pub fn pass_permissions(&self) -> Result<(), Errno> {
        let mut sets = rustix::thread::capabilities(None)?;
        sets.effective |= CapabilitySet::DAC_OVERRIDE;
        rustix::thread::set_capabilities(None, sets)
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // SAFETY: these calls take integers. The user comes first: it brings the right to change the group.
        unsafe {
            libc::setfsuid(self.user);
            libc::setfsgid(self.group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn a_file_is_created_as_the_caller_and_later_ones_are_not() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not run: only root may act as others");
            return;
        }
        let folder = std::env::temp_dir().join(format!("freehold-caller-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
        let caller = Caller::assume(1234, 4321, 0o077).unwrap();
        std::fs::write(folder.join("theirs"), b"").unwrap();
        drop(caller);
        std::fs::write(folder.join("ours"), b"").unwrap();
        let theirs = std::fs::metadata(folder.join("theirs")).unwrap();
        assert_eq!((theirs.uid(), theirs.gid(), theirs.mode() & 0o777), (1234, 4321, 0o600));
        assert_eq!(std::fs::metadata(folder.join("ours")).unwrap().uid(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_the_callers_takes_files_only_where_permissions_are_passed_by() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not run: only root may act as others");
            return;
        }
        let folder = std::env::temp_dir().join(format!("freehold-passing-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        for round in 0..2 {
            let caller = Caller::assume(1234, 4321, 0o077).unwrap();
            let refused = std::fs::write(folder.join("refused"), b"").unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(13), "round {round}");
            caller.pass_permissions().unwrap();
            std::fs::write(folder.join("theirs"), b"").unwrap();
        }
        assert_eq!(std::fs::metadata(folder.join("theirs")).unwrap().uid(), 1234);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
