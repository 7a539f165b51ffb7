//! Folders of one command's own: with a name that nobody can guess, that nobody else can enter, and locked, so that the
//! next command knows those whose command was killed and removes them.

use crate::Errno;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::retry_on_intr;
use std::ffi::CString;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The lock that the owner of a folder holds.
const LOCK: &str = "lock";
/// How files end that others who live in a folder lock: see [`PrivateFolder`].
const OTHER_LOCKS: &str = ".lck";
/// Bits of a mode by which others than the owner may write.
const OTHERS_WRITE: u32 = 0o022;
/// Others may write, but each only his own.
const STICKY: u32 = 0o1000;

/// A folder with mode 0700, removed when this value is dropped.
///
/// It counts as left behind when its lock and all files in it that end with `.lck` can be locked: a server that lives
/// in its command's folder, and may outlive the command, locks such a file.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    _lock: OwnedFd,
    kept: bool,
}

/// A folder whose owner is gone, locked until this is dropped.
#[derive(Debug)]
pub struct StaleFolder {
    path: PathBuf,
    _locks: Vec<OwnedFd>,
}

/// Where sockets and other things of running processes belong: `/run` for root, `$XDG_RUNTIME_DIR` for others, and the
/// system's folder for temporary files where those are not there or others may write to them.
#[must_use]
pub fn runtime_directory() -> PathBuf {
    let user = rustix::process::geteuid();
    let wanted = if user.is_root() {
        Some(PathBuf::from("/run"))
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
    };
    let wanted = wanted.filter(|path| path.is_absolute() && path.metadata().is_ok_and(|status| is_own(&status)));
    wanted
        .filter(|path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok())
        .unwrap_or_else(std::env::temp_dir)
}

/// Whether a folder is this user's, and nobody else may write to it.
fn is_own(status: &Metadata) -> bool {
    status.is_dir() && status.uid() == rustix::process::geteuid().as_raw() && status.mode() & OTHERS_WRITE == 0
}

/// Whether what this user makes in a folder can be moved away by nobody but root and this user.
///
/// # Errors
/// It cannot be looked at, or others may write to it.
pub fn must_be_safe(folder: &Path) -> io::Result<()> {
    let status = folder.metadata()?;
    let owner = status.uid();
    let owned = owner == 0 || owner == rustix::process::geteuid().as_raw();
    if status.is_dir() && owned && (status.mode() & OTHERS_WRITE == 0 || status.mode() & STICKY != 0) {
        return Ok(());
    }
    let text = format!(
        "others may change {}: name a folder of your own (TMPDIR, XDG_RUNTIME_DIR)",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

impl PrivateFolder {
    /// Makes a folder in `parent`. Its name is `prefix` and six random characters.
    ///
    /// # Errors
    /// The system's refusal, or a parent in which others may move this user's folders.
    pub fn new(parent: &Path, prefix: &str) -> io::Result<Self> {
        must_be_safe(parent)?;
        loop {
            let path = make(&parent.join(format!("{prefix}-XXXXXX")))?;
            let lock = lock(
                &path.join(LOCK),
                OFlags::CREATE | OFlags::RDWR,
                FlockOperation::LockExclusive,
            )?;
            // Somebody who looked for what was left behind may have been faster than the lock.
            if path.join(LOCK).exists() {
                let kept = false;
                return Ok(Self {
                    path,
                    _lock: lock,
                    kept,
                });
            }
        }
    }

    /// The same, and removes this user's folders of that prefix whose owner is gone.
    ///
    /// # Errors
    /// As [`PrivateFolder::new`].
    pub fn afresh(parent: &Path, prefix: &str) -> io::Result<Self> {
        left_behind(parent, prefix).into_iter().for_each(StaleFolder::remove);
        Self::new(parent, prefix)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it before its owner goes: who lives in it and sees the owner go knows by that that nothing is left.
    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }

    /// Leaves the folder to the processes that live in it.
    pub fn leave(mut self) {
        self.kept = true;
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        if !self.kept {
            self.remove();
        }
    }
}

impl StaleFolder {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it.
    pub fn remove(self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// This user's folders in `parent` whose names begin with `prefix` and whose owner is gone.
#[must_use]
pub fn left_behind(parent: &Path, prefix: &str) -> Vec<StaleFolder> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes()));
    named.filter_map(|entry| stale(&entry.path())).collect()
}

fn stale(path: &Path) -> Option<StaleFolder> {
    // Not followed: a link of another user's leads anywhere.
    if !path.symlink_metadata().is_ok_and(|status| is_own(&status)) {
        return None;
    }
    let mut locks = vec![try_lock(&path.join(LOCK)).ok()?];
    for entry in std::fs::read_dir(path).ok()?.flatten() {
        if entry.file_name().as_bytes().ends_with(OTHER_LOCKS.as_bytes()) {
            locks.push(try_lock(&entry.path()).ok()?);
        }
    }
    Some(StaleFolder {
        path: path.to_owned(),
        _locks: locks,
    })
}

fn try_lock(path: &Path) -> Result<OwnedFd, Errno> {
    lock(path, OFlags::RDWR, FlockOperation::NonBlockingLockExclusive)
}

fn lock(path: &Path, flags: OFlags, how: FlockOperation) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    retry_on_intr(|| rustix::fs::flock(&file, how))?;
    Ok(file)
}

/// Makes a folder with mode 0700 whose name is the template's with other letters for the last six.
fn make(template: &Path) -> io::Result<PathBuf> {
    let template = CString::new(template.as_os_str().as_bytes())?;
    let name = template.into_raw();
    // SAFETY: a C string of this function's own, whose length the call leaves as it is; it writes to the last six
    // bytes.
    let made = unsafe { libc::mkdtemp(name) };
    let failed = made.is_null().then(io::Error::last_os_error);
    // SAFETY: it came from `into_raw`, and its length is what it was.
    let name = unsafe { CString::from_raw(name) };
    match failed {
        Some(error) => Err(error),
        None => Ok(PathBuf::from(std::ffi::OsString::from_vec(name.into_bytes()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_its_owners_alone_and_goes_with_it() {
        let folder = PrivateFolder::new(&std::env::temp_dir(), "freehold-folder-test").unwrap();
        let other = PrivateFolder::new(&std::env::temp_dir(), "freehold-folder-test").unwrap();
        assert_ne!(folder.path(), other.path());
        assert_eq!(folder.path().metadata().unwrap().mode() & 0o7777, 0o700);
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists() && other.path().exists());
    }

    #[test]
    fn what_a_killed_owner_left_is_found_and_what_lives_is_not() {
        let parent = PrivateFolder::new(&std::env::temp_dir(), "freehold-folder-parent").unwrap();
        let living = PrivateFolder::new(parent.path(), "own").unwrap();
        let dead = PrivateFolder::new(parent.path(), "own").unwrap();
        let served = PrivateFolder::new(parent.path(), "own").unwrap();
        let (gone, still) = (dead.path().to_owned(), served.path().to_owned());
        let server = lock(
            &still.join("x.lck"),
            OFlags::CREATE | OFlags::RDWR,
            FlockOperation::LockExclusive,
        )
        .unwrap();
        dead.leave();
        served.leave();
        let found = left_behind(parent.path(), "own");
        assert_eq!(
            found.iter().map(StaleFolder::path).collect::<Vec<_>>(),
            [gone.as_path()]
        );
        found.into_iter().for_each(StaleFolder::remove);
        assert!(!gone.exists() && living.path().exists());
        drop(server);
        assert_eq!(left_behind(parent.path(), "own").len(), 1);
    }

    #[test]
    fn a_parent_that_others_may_change_is_refused() {
        let parent = PrivateFolder::new(&std::env::temp_dir(), "freehold-folder-open").unwrap();
        std::fs::set_permissions(parent.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(PrivateFolder::new(parent.path(), "own").is_err());
        std::fs::set_permissions(parent.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(PrivateFolder::new(parent.path(), "own").is_ok());
    }
}
