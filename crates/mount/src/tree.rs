//! Names: looking up, creating, linking, renaming and removing entries beneath SOURCE.
//!
//! Every name is one component, resolved beneath the descriptor of its directory; a symbolic link is never followed
//! here. The kernel has checked permissions (`default_permissions`) before it asks.

use crate::attributes::{Status, status_at, status_of};
use crate::crowd::Crowd;
use crate::inode::{Inode, Inodes};
use freehold_linux::caller::Caller;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Who asks for a new inode, and with what mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Creation {
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) mode: u32,
    pub(crate) mask: u32,
}

/// What is mounted: the inodes beneath SOURCE.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) inodes: Inodes,
    pub(crate) crowd: Crowd,
    device: (u32, u32),
    /// `/proc/self/fd`, by which an inode's descriptor is opened anew.
    descriptors: OwnedFd,
}

/// An inode and what the kernel is told of it.
pub(crate) type Entry = (Arc<Inode>, Status);

impl Tree {
    /// The tree beneath `source`, of a process that may have so many descriptors.
    pub(crate) fn new(source: &Path, descriptors: u64) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, source, flags, Mode::empty())?;
        let status = status_of(root.as_fd())?;
        let opened = rustix::fs::openat(CWD, "/proc/self/fd", flags, Mode::empty())?;
        Ok(Self {
            device: status.identity.device,
            inodes: Inodes::new(status.identity, root),
            crowd: Crowd::new(descriptors),
            descriptors: opened,
        })
    }

    /// The entry `name` of a directory, if its inode is known; the kernel is told of it once more.
    pub(crate) fn lookup_known(&self, parent: u64, name: &OsStr) -> Result<Option<Entry>, Errno> {
        let parent = self.inodes.get(parent)?;
        component(name)?;
        let status = status_at(parent.place.as_fd(), name)?;
        if status.identity.device != self.device {
            // What is mounted inside SOURCE is not part of it.
            return Err(Errno::XDEV);
        }
        let inode = self.inodes.find(status.identity);
        Ok(inode.map(|inode| {
            inode.note_name(parent.number, name);
            (inode, status)
        }))
    }

    /// The entry `name` of a directory; the kernel is told of it once more. It takes a descriptor where it is new.
    pub(crate) fn lookup(&self, parent: u64, name: &OsStr) -> Result<Entry, Errno> {
        if let Some(known) = self.lookup_known(parent, name)? {
            return Ok(known);
        }
        let parent = self.inodes.get(parent)?;
        let place = beneath(parent.place.as_fd(), name, OFlags::PATH, Mode::empty())?;
        self.enter(parent.number, name, place)
    }

    /// Enters the inode of an `O_PATH` descriptor, by a name in a folder.
    fn enter(&self, parent: u64, name: &OsStr, place: OwnedFd) -> Result<Entry, Errno> {
        let status = status_of(place.as_fd())?;
        let inode = self.inodes.enter(status.identity, status.kind, place);
        inode.note_name(parent, name);
        Ok((inode, status))
    }

    /// Opens an inode again. It must be a regular file or a directory: others can block.
    pub(crate) fn open(&self, inode: &Inode, flags: OFlags) -> Result<OwnedFd, Errno> {
        if !matches!(inode.kind, FileType::RegularFile | FileType::Directory) {
            return Err(Errno::INVAL);
        }
        self.reopen(inode.place.as_fd(), flags)
    }

    fn reopen(&self, file: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let name = descriptor_name(file);
        rustix::fs::openat(&self.descriptors, &name, flags, Mode::empty())
    }

    /// The path of an inode for calls that take no descriptor: it leads to the inode and no further.
    pub(crate) fn path_of(inode: &Inode) -> String {
        format!("/proc/self/fd/{}", descriptor_name(inode.place.as_fd()))
    }

    /// Creates a regular file and opens it.
    pub(crate) fn create(
        &self,
        parent: u64,
        name: &OsStr,
        creation: Creation,
        flags: OFlags,
    ) -> Result<(Entry, OwnedFd), Errno> {
        let parent = self.inodes.get(parent)?;
        component(name)?;
        let mode = Mode::from_raw_mode(creation.mode & 0o7777);
        let file = creation.act(|passing| {
            // Past permissions only what is new is opened: nobody has checked those of a file that came meanwhile.
            let new = if passing { OFlags::EXCL } else { OFlags::empty() };
            match beneath(parent.place.as_fd(), name, flags | OFlags::CREATE | new, mode) {
                Err(Errno::EXIST) if passing && !flags.contains(OFlags::EXCL) => Err(Errno::ACCESS),
                outcome => outcome,
            }
        })?;
        if !status_of(file.as_fd())?.kind.is_file() {
            return Err(Errno::EXIST);
        }
        let entry = self.enter(parent.number, name, self.reopen(file.as_fd(), OFlags::PATH)?)?;
        Ok((entry, file))
    }

    /// Creates a directory, or anything but one with `mknod`.
    pub(crate) fn make(
        &self,
        parent: u64,
        name: &OsStr,
        creation: Creation,
        device: Option<u64>,
    ) -> Result<Entry, Errno> {
        let directory = self.inodes.get(parent)?;
        component(name)?;
        let mode = Mode::from_raw_mode(creation.mode & 0o7777);
        let kind = FileType::from_raw_mode(creation.mode);
        creation.act(|_| match device {
            None => rustix::fs::mkdirat(&directory.place, name, mode),
            Some(device) => rustix::fs::mknodat(&directory.place, name, kind, mode, device),
        })?;
        self.lookup(parent, name)
    }

    /// Creates a symbolic link.
    pub(crate) fn symlink(&self, parent: u64, name: &OsStr, target: &Path, creation: Creation) -> Result<Entry, Errno> {
        let directory = self.inodes.get(parent)?;
        component(name)?;
        creation.act(|_| rustix::fs::symlinkat(target, &directory.place, name))?;
        self.lookup(parent, name)
    }

    /// Another name for an inode.
    pub(crate) fn link(&self, inode: u64, parent: u64, name: &OsStr) -> Result<Entry, Errno> {
        let inode = self.inodes.get(inode)?;
        let directory = self.inodes.get(parent)?;
        component(name)?;
        let path = Self::path_of(&inode);
        rustix::fs::linkat(CWD, path, &directory.place, name, AtFlags::SYMLINK_FOLLOW)?;
        self.lookup(parent, name)
    }

    /// Removes a name: a directory's, or another's.
    pub(crate) fn remove(&self, parent: u64, name: &OsStr, directory: bool) -> Result<(), Errno> {
        let parent = self.inodes.get(parent)?;
        component(name)?;
        let flags = if directory {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        rustix::fs::unlinkat(&parent.place, name, flags)
    }

    /// Renames, with the flags of renameat2(2).
    pub(crate) fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32) -> Result<(), Errno> {
        let (from_parent, to_parent) = (self.inodes.get(from.0)?, self.inodes.get(to.0)?);
        component(from.1)?;
        component(to.1)?;
        let flags = RenameFlags::from_bits_retain(flags);
        rustix::fs::renameat_with(&from_parent.place, from.1, &to_parent.place, to.1, flags)
    }

    /// Where a symbolic link leads.
    pub(crate) fn read_link(&self, inode: u64) -> Result<Vec<u8>, Errno> {
        let inode = self.inodes.get(inode)?;
        rustix::fs::readlinkat(&inode.place, "", Vec::new()).map(std::ffi::CString::into_bytes)
    }
}

impl Creation {
    /// Has something made as the caller: where that is refused, once more past permissions. The kernel has checked them
    /// with all groups of the caller, and tells only the first.
    fn act<T>(self, mut make: impl FnMut(bool) -> Result<T, Errno>) -> Result<T, Errno> {
        let caller = Caller::assume(self.user, self.group, self.mask)?;
        match make(false) {
            Err(Errno::ACCESS) => {
                caller.pass_permissions()?;
                make(true)
            }
            outcome => outcome,
        }
    }
}

/// Opens one component of a path, no link followed, nothing outside the directory reached, no mount crossed.
fn beneath(directory: BorrowedFd<'_>, name: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        match rustix::fs::openat2(directory, name, flags, mode, how) {
            // Something was renamed while the kernel looked.
            Err(Errno::AGAIN) => {}
            outcome => return outcome,
        }
    }
}

/// Refuses what is no name of an entry. The kernel sends none such.
fn component(name: &OsStr) -> Result<(), Errno> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') || bytes.contains(&0) {
        return Err(Errno::INVAL);
    }
    Ok(())
}

fn descriptor_name(file: BorrowedFd<'_>) -> String {
    use rustix::fd::AsRawFd;
    file.as_raw_fd().to_string()
}
