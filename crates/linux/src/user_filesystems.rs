//! File systems of user processes (FUSE): which of them owe the kernel an answer, and how to end them.
//!
//! A thread of any process can come to wait for such an answer, and is not killed while it waits. Only the end of the
//! file system ends the wait.

use crate::Errno;
use crate::sys::check;
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use std::ffi::{CStr, CString};

const CREATE: libc::c_uint = 6;
const CLOSE_ON_EXEC: libc::c_uint = 1;
/// More than the kernel writes for a number.
const NUMBER: usize = 32;

/// The kernel's list of these file systems. It is mounted nowhere.
#[derive(Debug)]
pub struct UserFilesystems(OwnedFd);

/// A file system that has not answered something yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    name: CString,
    owner: u32,
}

impl Unanswered {
    /// The user whose process serves it.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner
    }
}

impl UserFilesystems {
    /// Gets the list.
    ///
    /// # Errors
    /// `PERM` for all but root; `NODEV` where the kernel has no such file systems.
    pub fn list() -> Result<Self, Errno> {
        let kind = c"fusectl";
        // SAFETY: the name ends with a zero byte and lives during the call.
        let context = descriptor(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), CLOSE_ON_EXEC) })?;
        let nothing = std::ptr::null::<libc::c_char>();
        // SAFETY: this command has neither a key nor a value: the pointers are null.
        let created = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, nothing, nothing, 0) };
        check(created)?;
        // SAFETY: the call takes numbers only.
        descriptor(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOSE_ON_EXEC, 0) }).map(Self)
    }

    /// Those that owe an answer now. One that goes meanwhile may be left out.
    ///
    /// # Errors
    /// The kernel's refusal of a descriptor.
    pub fn unanswered(&self) -> Result<Vec<Unanswered>, Errno> {
        // The descriptor itself is of a path, and cannot be read.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&self.0, c".", flags, Mode::empty())?;
        let all = Dir::new(folder)?.collect::<Result<Vec<_>, Errno>>()?;
        let numbered = all
            .into_iter()
            .filter(|entry| entry.file_name().to_bytes().iter().all(u8::is_ascii_digit));
        Ok(numbered.filter_map(|entry| self.look(entry.file_name())).collect())
    }

    fn look(&self, name: &CStr) -> Option<Unanswered> {
        let file = self.open(name, c"waiting", OFlags::RDONLY).ok()?;
        let mut text = [0; NUMBER];
        let length = rustix::io::read(&file, &mut text).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        let waiting: u64 = text.trim().parse().ok()?;
        let found = rustix::fs::statat(&self.0, name, AtFlags::empty()).ok()?;
        (waiting > 0).then(|| Unanswered {
            name: name.to_owned(),
            owner: found.st_uid,
        })
    }

    /// Ends a file system: whoever waits for it gets an error, now and later.
    ///
    /// # Errors
    /// `NOENT` where it has ended meanwhile.
    pub fn end(&self, which: &Unanswered) -> Result<(), Errno> {
        let file = self.open(&which.name, c"abort", OFlags::WRONLY)?;
        rustix::io::write(&file, b"1").map(drop)
    }

    fn open(&self, folder: &CStr, file: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&self.0, folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        rustix::fs::openat(folder.as_fd(), file, flags, Mode::empty())
    }
}

fn descriptor(result: libc::c_long) -> Result<OwnedFd, Errno> {
    let raw = check(result).and_then(|raw| i32::try_from(raw).map_err(|_| Errno::BADF))?;
    // SAFETY: the kernel has just given this descriptor to us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

#[cfg(test)]
mod tests {
    use super::UserFilesystems;
    use crate::Errno;

    #[test]
    fn the_list_is_mounted_nowhere_and_can_be_read() {
        match UserFilesystems::list() {
            Ok(list) => {
                list.unanswered().unwrap();
                let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
                println!("{} mounts", mounts.lines().count());
            }
            Err(Errno::PERM | Errno::NODEV) => println!("not tested: only root has the list"),
            Err(errno) => panic!("{errno}"),
        }
    }
}
