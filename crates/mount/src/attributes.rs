//! What an inode is like: statx(2) and what changes it, extended attributes, the file system's own figures.

use crate::inode::{Identity, Inode};
use crate::tree::Tree;
use fuser::{FileAttr, INodeNo, TimeOrNow};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Statx, StatxFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `UTIME_NOW` and `UTIME_OMIT` of utimensat(2).
const NOW: i64 = (1 << 30) - 1;
const OMIT: i64 = (1 << 30) - 2;
/// The largest value of an extended attribute and the largest list of names.
const MOST_BYTES: usize = 65_536;

/// An inode's status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) identity: Identity,
    pub(crate) kind: FileType,
    found: Statx,
}

/// What setattr(2)'s relatives may change beside the size.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
}

impl Status {
    fn new(found: Statx) -> Self {
        Self {
            identity: Identity {
                device: (found.stx_dev_major, found.stx_dev_minor),
                inode: found.stx_ino,
            },
            kind: FileType::from_raw_mode(u32::from(found.stx_mode)),
            found,
        }
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.found.stx_size
    }

    /// Permissions, and what stands beside them.
    pub(crate) fn mode(&self) -> Mode {
        Mode::from_raw_mode(u32::from(self.found.stx_mode) & 0o7777)
    }

    pub(crate) fn group(&self) -> u32 {
        self.found.stx_gid
    }

    /// Names.
    pub(crate) fn links(&self) -> u32 {
        self.found.stx_nlink
    }

    /// As FUSE has it, under the number that the kernel knows the inode by.
    pub(crate) fn attributes(&self, number: u64) -> Result<FileAttr, Errno> {
        let found = &self.found;
        Ok(FileAttr {
            ino: INodeNo(number),
            size: found.stx_size,
            blocks: found.stx_blocks,
            atime: time(found.stx_atime.tv_sec, found.stx_atime.tv_nsec),
            mtime: time(found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
            ctime: time(found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
            crtime: UNIX_EPOCH,
            kind: kind_of(self.kind)?,
            perm: found.stx_mode & 0o7777,
            nlink: found.stx_nlink,
            uid: found.stx_uid,
            gid: found.stx_gid,
            rdev: device_number(found.stx_rdev_major, found.stx_rdev_minor),
            blksize: found.stx_blksize,
            flags: 0,
        })
    }
}

/// The status of what a descriptor is open on.
pub(crate) fn status_of(file: BorrowedFd<'_>) -> Result<Status, Errno> {
    rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).map(Status::new)
}

/// The status of an entry of a directory, a symbolic link's own.
pub(crate) fn status_at(directory: BorrowedFd<'_>, name: &OsStr) -> Result<Status, Errno> {
    rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS).map(Status::new)
}

/// The size of a file, in bytes.
pub(crate) fn size_of(file: BorrowedFd<'_>) -> Result<u64, Errno> {
    rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::SIZE).map(|found| found.stx_size)
}

/// The kind of an entry.
pub(crate) fn kind_of(kind: FileType) -> Result<fuser::FileType, Errno> {
    Ok(match kind {
        FileType::RegularFile => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        _ => return Err(Errno::IO),
    })
}

/// As FUSE has device numbers: 12 bits of major, 20 of minor.
fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

fn time(seconds: i64, nanoseconds: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let start = if seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    start
        .and_then(|start| start.checked_add(Duration::from_nanos(u64::from(nanoseconds))))
        .unwrap_or(UNIX_EPOCH)
}

fn timespec(wanted: Option<TimeOrNow>) -> Timespec {
    let time = match wanted {
        None => {
            return Timespec {
                tv_sec: 0,
                tv_nsec: OMIT,
            };
        }
        Some(TimeOrNow::Now) => {
            return Timespec {
                tv_sec: 0,
                tv_nsec: NOW,
            };
        }
        Some(TimeOrNow::SpecificTime(time)) => time,
    };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timespec {
            tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(since.subsec_nanos()),
        },
        // The seconds and nanoseconds of a request, as fuser 0.18 puts them together: it counts both backwards.
        Err(before) => {
            let before = before.duration();
            Timespec {
                tv_sec: -i64::try_from(before.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(before.subsec_nanos()),
            }
        }
    }
}

impl Changes {
    /// Makes them.
    pub(crate) fn apply(&self, inode: &Inode) -> Result<(), Errno> {
        if self.user.is_some() || self.group.is_some() {
            let (user, group) = (self.user.map(Uid::from_raw), self.group.map(Gid::from_raw));
            rustix::fs::chownat(&inode.place, "", user, group, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = self.mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::chmodat(CWD, Tree::path_of(inode), mode, AtFlags::empty())?;
        }
        if self.accessed.is_some() || self.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(self.accessed),
                last_modification: timespec(self.modified),
            };
            rustix::fs::utimensat(CWD, Tree::path_of(inode), &times, AtFlags::empty())?;
        }
        Ok(())
    }
}

/// A value or a list of names that does not fit into `most` bytes is `ERANGE`; 0 asks for the length only.
pub(crate) enum Extended {
    Length(u32),
    Bytes(Vec<u8>),
}

fn fitting(bytes: Vec<u8>, most: u32) -> Result<Extended, Errno> {
    let length = u32::try_from(bytes.len()).map_err(|_| Errno::RANGE)?;
    match most {
        0 => Ok(Extended::Length(length)),
        most if length > most => Err(Errno::RANGE),
        _ => Ok(Extended::Bytes(bytes)),
    }
}

/// The value of an extended attribute.
pub(crate) fn get_extended(inode: &Inode, name: &OsStr, most: u32) -> Result<Extended, Errno> {
    let mut bytes = vec![0; MOST_BYTES];
    let length = rustix::fs::getxattr(Tree::path_of(inode), name, bytes.as_mut_slice())?;
    bytes.truncate(length);
    fitting(bytes, most)
}

/// The names of all extended attributes; those of `trusted` only root sees.
pub(crate) fn list_extended(inode: &Inode, root: bool, most: u32) -> Result<Extended, Errno> {
    let mut bytes = vec![0; MOST_BYTES];
    let length = rustix::fs::listxattr(Tree::path_of(inode), bytes.as_mut_slice())?;
    bytes.truncate(length);
    let seen = |name: &&[u8]| root || !name.starts_with(b"trusted.");
    let names: Vec<u8> = bytes
        .split_inclusive(|byte| *byte == 0)
        .filter(seen)
        .flatten()
        .copied()
        .collect();
    fitting(names, most)
}

/// Sets an extended attribute, with the flags of setxattr(2).
pub(crate) fn set_extended(inode: &Inode, name: &OsStr, value: &[u8], flags: i32) -> Result<(), Errno> {
    let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
    rustix::fs::setxattr(Tree::path_of(inode), name.as_bytes(), value, flags)
}

/// Removes an extended attribute.
pub(crate) fn remove_extended(inode: &Inode, name: &OsStr) -> Result<(), Errno> {
    rustix::fs::removexattr(Tree::path_of(inode), name.as_bytes())
}

/// Fields of statfs(2).
pub(crate) fn figures(inode: &Inode) -> Result<rustix::fs::StatVfs, Errno> {
    rustix::fs::fstatvfs(inode.place.as_fd())
}

/// FUSE's device number as the file system calls take it.
pub(crate) fn device_of(number: u32) -> u64 {
    let major = (number >> 8) & 0xfff;
    let minor = (number & 0xff) | ((number >> 12) & 0xf_ff00);
    rustix::fs::makedev(major, minor)
}
