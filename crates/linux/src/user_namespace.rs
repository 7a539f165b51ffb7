//! Who owns the user name space of a process: one person may have thousands of users in such spaces.

use crate::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Numbers of `ioctl` for a descriptor of a process and for descriptors of name spaces.
const USER_NAMESPACE_OF_PROCESS: libc::Ioctl = 0xff09;
const PARENT: libc::Ioctl = 0xb702;
const OWNER: libc::Ioctl = 0xb704;
/// The kernel lets name spaces be nested in so many others.
const DEPTH: usize = 33;

/// The owner of the user name space that a process is in, as the caller's name space names users: of several in each
/// other, of the outermost. `None` where the process is in the caller's own, or where the caller may not know.
///
/// # Errors
/// `SRCH` where the process has ended; other refusals of the kernel.
pub fn owner_of(process: BorrowedFd<'_>, pid: u32) -> Result<Option<u32>, Errno> {
    let own = rustix::fs::open("/proc/self/ns/user", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut space = match of_process(process, pid) {
        Err(Errno::ACCESS | Errno::PERM) => return Ok(None),
        found => found?,
    };
    if is_same(&space, &own)? {
        return Ok(None);
    }
    for _ in 0..DEPTH {
        let parent = match descriptor(space.as_fd(), PARENT) {
            // It is not within the caller's.
            Err(Errno::PERM) => return Ok(None),
            parent => parent?,
        };
        if is_same(&parent, &own)? {
            return owner(&space).map(Some);
        }
        space = parent;
    }
    Err(Errno::LOOP)
}

fn of_process(process: BorrowedFd<'_>, pid: u32) -> Result<OwnedFd, Errno> {
    match descriptor(process, USER_NAMESPACE_OF_PROCESS) {
        // Older than Linux 6.11.
        Err(Errno::NOTTY | Errno::INVAL | Errno::OPNOTSUPP) => {}
        found => return found,
    }
    let path = format!("/proc/{pid}/ns/user");
    let space = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let space = space.map_err(|errno| if errno == Errno::NOENT { Errno::SRCH } else { errno })?;
    // The number was the process's as long as that has not ended.
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    match poll(&mut ended, Some(&Timespec::default()))? {
        0 => Ok(space),
        _ => Err(Errno::SRCH),
    }
}

fn descriptor(of: BorrowedFd<'_>, number: libc::Ioctl) -> Result<OwnedFd, Errno> {
    // SAFETY: these requests take no argument, and answer with a new descriptor.
    let raw = sys::check_int(unsafe { libc::ioctl(of.as_raw_fd(), number, 0) })?;
    let raw = i32::try_from(raw).map_err(|_| Errno::BADF)?;
    // SAFETY: the kernel has just made this descriptor for the caller, and nothing else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn owner(space: &OwnedFd) -> Result<u32, Errno> {
    let mut user: libc::uid_t = 0;
    // SAFETY: the kernel writes one user's number.
    sys::check_int(unsafe { libc::ioctl(space.as_raw_fd(), OWNER, &raw mut user) })?;
    Ok(user)
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> Result<bool, Errno> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

#[cfg(test)]
mod tests {
    use super::owner_of;
    use rustix::fd::AsFd;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_in_the_same_name_space_has_no_owner() {
        let own = rustix::process::getpid();
        let process = pidfd_open(own, PidfdFlags::empty()).unwrap();
        assert_eq!(owner_of(process.as_fd(), std::process::id()), Ok(None));
    }

    #[test]
    fn of_name_spaces_in_each_other_the_outermost_tells() {
        if !rustix::process::geteuid().is_root() {
            println!("not tested: only root can act as another user");
            return;
        }
        let nested = "unshare --user --map-root-user sh -c 'echo; exec sleep 100'";
        for inner in ["echo; exec sleep 100", nested] {
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "sh", "-c", inner]);
            let mut child = command.uid(12_345).gid(12_345).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap())
                .read_line(&mut line)
                .unwrap();
            let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
            let found = owner_of(process.as_fd(), child.id());
            child.kill().unwrap();
            child.wait().unwrap();
            if line.is_empty() {
                println!("not tested: other users may make no user name spaces");
                return;
            }
            assert_eq!(found, Ok(Some(12_345)), "{inner}");
            assert_eq!(owner_of(process.as_fd(), child.id()), Err(rustix::io::Errno::SRCH));
        }
    }
}
