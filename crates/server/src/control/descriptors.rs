//! What descriptors that clients send really are. A descriptor is a claim: it is looked at without asking the file
//! system behind it, whose owner may be the client and may not answer.

use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::MemfdFlags;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// File systems that answer when somebody else does: a server elsewhere, or a process that a user started.
const DEPENDENT: [&str; 14] = [
    "9p", "afs", "autofs", "ceph", "cifs", "coda", "fuse", "fuseblk", "lustre", "nfs", "nfs4", "smb3", "virtiofs",
    "orangefs",
];

/// Whether it is a userfaultfd.
pub(crate) fn is_userfaultfd(fd: impl AsFd) -> bool {
    link(&fd).is_some_and(|link| link == Path::new("anon_inode:[userfaultfd]"))
}

/// Checks that the file system of a file to be read answers by itself: that nobody but the machine's administrator can
/// keep it from answering. `trusted`: a peer of this number that may do everything here, and answers for its file
/// systems itself, though not for those of other users; elsewhere than the server's its own list of mounts says which
/// they are.
///
/// # Errors
/// What it is instead.
pub(crate) fn check_file_system(fd: impl AsFd, trusted: Option<u32>) -> Result<(), String> {
    let unseen = || "it is not on a file system that the server sees mounted".to_owned();
    let mount = mount(&fd).ok_or_else(unseen)?;
    if is_memory_object(&fd, &mount) {
        return Ok(());
    }
    let seers = [Some("self".to_owned()), trusted.map(|pid| pid.to_string())];
    for seer in seers.into_iter().flatten() {
        let mounts = std::fs::read_to_string(format!("/proc/{seer}/mountinfo")).map_err(|_| unseen())?;
        if let Some((kind, options)) = file_system(&mount, &mounts) {
            return judge(kind, options, trusted.is_some());
        }
    }
    Err(unseen())
}

fn judge(kind: &str, options: &str, trusted: bool) -> Result<(), String> {
    let users_own = kind.starts_with("fuse") && !options.split(',').any(|option| option == "user_id=0");
    let depends = DEPENDENT.contains(&kind) || kind.starts_with("fuse.");
    if users_own || (depends && !trusted) {
        return Err(format!("it is on a file system of type {kind}, which may not answer"));
    }
    Ok(())
}

/// Whether it is a memfd. All of them are on one mount of the kernel's own, and nothing else that can be opened is; a
/// name proves nothing, since a file system may call its files what it likes.
fn is_memory_object(fd: impl AsFd, its: &str) -> bool {
    static MOUNT: OnceLock<Option<String>> = OnceLock::new();
    let known = MOUNT.get_or_init(|| {
        let own = rustix::fs::memfd_create(c"freehold-compared", MemfdFlags::CLOEXEC).ok()?;
        mount(&own)
    });
    known.as_deref() == Some(its) && rustix::fs::fcntl_get_seals(fd).is_ok()
}

/// The number of the mount that the descriptor was opened on, as the kernel's own table of descriptors says.
fn mount(fd: impl AsFd) -> Option<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd())).ok()?;
    let number = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    Some(number.to_owned())
}

/// The type of the file system that is mounted as this number, and its own options, from `/proc/PID/mountinfo`.
fn file_system<'a>(mount: &str, mounts: &'a str) -> Option<(&'a str, &'a str)> {
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(mount))?;
    let (_, after) = line.split_once(" - ")?;
    let mut words = after.split(' ');
    Some((words.next()?, words.nth(1).unwrap_or_default()))
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
    fn file_systems_that_answer_by_themselves_pass() {
        let file = File::open("/proc/self/exe").unwrap();
        assert_eq!(check_file_system(&file, None), Ok(()));
        assert!(!is_userfaultfd(&file));
        let memfd = rustix::fs::memfd_create(c"x", MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(check_file_system(&memfd, None), Ok(()));
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        assert!(check_file_system(&pipe, None).is_err());
    }

    #[test]
    fn a_memory_object_is_known_by_its_mount_and_not_by_its_name() {
        let memfd = rustix::fs::memfd_create(c"x", MemfdFlags::CLOEXEC).unwrap();
        let its = mount(&memfd).unwrap();
        assert!(is_memory_object(&memfd, &its));
        let path = std::env::temp_dir().join(format!("memfd:freehold-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(!is_memory_object(&file, &mount(&file).unwrap()));
        assert!(!is_memory_object(&file, &its), "seals");
    }

    #[test]
    fn file_systems_are_found_by_mount() {
        let mounts = "22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      40 22 0:33 / /mnt/x rw - fuse.sshfs host:/ rw,user_id=7,group_id=7\n\
                      4 22 0:9 / /n rw - nfs4 a:/ rw\n";
        assert_eq!(
            file_system("40", mounts),
            Some(("fuse.sshfs", "rw,user_id=7,group_id=7"))
        );
        assert_eq!(file_system("22", mounts), Some(("ext4", "rw")));
        assert_eq!(file_system("2", mounts), None);
        let root_mounted = "rw,user_id=0,group_id=0";
        for (kind, options, trusted, passes) in [
            ("ext4", "rw", false, true),
            ("fuse.sshfs", root_mounted, false, false),
            ("fuse.sshfs", root_mounted, true, true),
            ("fuse", "rw,user_id=65534", true, false),
            ("nfs4", "rw", true, true),
            ("nfs4", "rw", false, false),
        ] {
            assert_eq!(
                judge(kind, options, trusted).is_ok(),
                passes,
                "{kind} {options} {trusted}"
            );
        }
    }
}
