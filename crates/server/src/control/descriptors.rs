//! What descriptors that clients send really are. A descriptor is a claim: it is looked at without asking the file
//! system behind it, whose owner may be the client and may not answer.

use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{FileType, OFlags};
use std::path::{Path, PathBuf};

/// File systems that answer when somebody else does: a server elsewhere, or a process that a user started.
const DEPENDENT: [&str; 14] = [
    "9p", "afs", "autofs", "ceph", "cifs", "coda", "fuse", "fuseblk", "lustre", "nfs", "nfs4", "smb3", "virtiofs",
    "orangefs",
];

/// Whether it is a userfaultfd.
pub(crate) fn is_userfaultfd(fd: impl AsFd) -> bool {
    link(&fd).is_some_and(|link| link == Path::new("anon_inode:[userfaultfd]"))
}

/// Checks that a descriptor is a regular file, open for reading, that nobody else can keep from answering. `trusted`:
/// the client may do everything here, and answers for its file systems itself.
///
/// # Errors
/// What it is instead.
pub(crate) fn check_file(fd: impl AsFd, trusted: bool) -> Result<(), String> {
    let flags = rustix::fs::fcntl_getfl(&fd).map_err(|errno| format!("the kernel does not describe it: {errno}"))?;
    if flags.contains(OFlags::PATH) || flags & OFlags::RWMODE == OFlags::WRONLY {
        return Err("it is not open for reading".to_owned());
    }
    if !trusted {
        check_file_system(&fd)?;
    }
    let stat = rustix::fs::fstat(&fd).map_err(|errno| format!("the kernel does not describe it: {errno}"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("it is not a regular file".to_owned());
    }
    Ok(())
}

fn check_file_system(fd: &impl AsFd) -> Result<(), String> {
    if link(fd).is_some_and(|link| link.as_os_str().as_encoded_bytes().starts_with(b"/memfd:")) {
        return Ok(());
    }
    let number = fd.as_fd().as_raw_fd();
    let unseen = || "it is not on a file system that the server sees mounted".to_owned();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).map_err(|_| unseen())?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").map_err(|_| unseen())?;
    let kind = file_system(&info, &mounts).ok_or_else(unseen)?;
    if DEPENDENT.contains(&kind) || kind.starts_with("fuse.") {
        return Err(format!("it is on a file system of type {kind}, which may not answer"));
    }
    Ok(())
}

/// The type of the file system that `/proc/PID/fdinfo/N` names, from `/proc/PID/mountinfo`.
fn file_system<'a>(info: &str, mounts: &'a str) -> Option<&'a str> {
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(mount))?;
    let (_, after) = line.split_once(" - ")?;
    after.split(' ').next()
}

/// What the file of a descriptor is called where the server runs; the file system is not asked.
pub(crate) fn path(fd: &impl AsFd) -> String {
    link(fd).map_or_else(|| "unknown".to_owned(), |path| path.to_string_lossy().into_owned())
}

/// What `/proc` says the descriptor is; the file system is not asked.
fn link(fd: &impl AsFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn only_regular_files_open_for_reading_pass() {
        let file = File::open("/proc/self/exe").unwrap();
        assert_eq!(check_file(&file, false), Ok(()));
        let memfd = rustix::fs::memfd_create(c"x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(check_file(&memfd, false), Ok(()));
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        assert!(check_file(&pipe, true).is_err());
        assert!(check_file(&pipe, false).is_err());
        assert!(check_file(File::open("/").unwrap(), false).is_err());
        assert!(check_file(File::open("/dev/zero").unwrap(), false).is_err());
        let path = std::env::temp_dir().join(format!("freehold-descriptor-test-{}", std::process::id()));
        let writing = File::create(&path).unwrap();
        assert_eq!(
            check_file(&writing, false),
            Err("it is not open for reading".to_owned())
        );
        std::fs::remove_file(&path).unwrap();
        for fd in [&file, &writing] {
            assert!(!is_userfaultfd(fd));
        }
    }

    #[test]
    fn file_systems_are_found_by_mount() {
        let mounts = "22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      40 22 0:33 / /mnt/x rw - fuse.sshfs host:/ rw\n4 22 0:9 / /n rw - nfs4 a:/ rw\n";
        assert_eq!(
            file_system("pos:\t0\nmnt_id:\t40\nino:\t7\n", mounts),
            Some("fuse.sshfs")
        );
        assert_eq!(file_system("pos:\t0\nmnt_id:\t22\n", mounts), Some("ext4"));
        assert_eq!(file_system("pos:\t0\nmnt_id:\t2\n", mounts), None);
        assert_eq!(file_system("pos:\t0\n", mounts), None);
    }
}
