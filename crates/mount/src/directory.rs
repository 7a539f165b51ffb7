//! Listing directories.

use crate::attributes::kind_of;
use crate::files::Files;
use fuser::{INodeNo, ReplyDirectory};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::sync::PoisonError;

/// Bytes of entries that are asked for at once.
const AT_ONCE: usize = 32 << 10;

impl Files {
    /// Opens a directory.
    pub(crate) fn open_directory(&self, inode: u64) -> Result<u64, Errno> {
        let inode = self.tree.inodes.get(inode)?;
        let directory: OwnedFd = self.tree.open(&inode, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(self.handles.add_directory(directory))
    }

    /// Adds entries from `offset` on, a position that an earlier entry told.
    pub(crate) fn list(&self, handle: u64, offset: u64, reply: &mut ReplyDirectory) -> Result<(), Errno> {
        let directory = self.handles.directory(handle)?;
        let directory = directory.lock().unwrap_or_else(PoisonError::into_inner);
        rustix::fs::seek(&*directory, SeekFrom::Start(offset))?;
        let mut memory = [MaybeUninit::uninit(); AT_ONCE];
        let mut entries = RawDir::new(&*directory, &mut memory);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let kind = kind_of(entry.file_type()).unwrap_or(fuser::FileType::RegularFile);
            if reply.add(INodeNo(entry.ino()), entry.next_entry_cookie(), kind, name) {
                break;
            }
        }
        Ok(())
    }
}
