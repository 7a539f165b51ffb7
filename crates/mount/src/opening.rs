//! Opening, writing and changing the size of regular files.
//!
//! A file that is open for writing through the mount has no lease, so nothing of it is cached: writes go through to the
//! file. Where a lease has to be let go first, the request is answered by a thread of its own.

use crate::content::OpenFile;
use crate::files::{Files, count};
use crate::inode::Inode;
use crate::mixed::{Allocation, Mixing};
use crate::set_id::Changer;
use crate::tree::{Creation, Entry};
use fuser::FopenFlags;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};
use std::ffi::OsStr;
use std::io::IoSlice;
use std::sync::Arc;

/// What open(2) sets for execve(2).
const FOR_EXEC: i32 = 0x20;
/// Flags of a program's open(2) that its writes must obey. `O_APPEND` is not among them: each write says whether it
/// appends, and pages of a mapping are written where they belong whatever the descriptor says.
const KEPT: OFlags = OFlags::SYNC.union(OFlags::DSYNC);

/// Bytes that a program has written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written<'a> {
    pub(crate) offset: u64,
    pub(crate) bytes: &'a [u8],
    /// They are a mapping's, and go where they are mapped.
    pub(crate) mapped: bool,
    /// They go to the end of the file, wherever that is.
    pub(crate) appended: bool,
    /// The writer, where it is one whose writes take the set-user-ID and set-group-ID bits away.
    pub(crate) strips: Option<Changer>,
}

/// What has come of a write.
#[derive(Debug)]
pub(crate) enum Wrote {
    /// So many bytes were taken.
    Done(usize),
    /// The kernel has pages of the file, which are to know of it.
    Mixed(Mixing),
}

/// Writes bytes where they belong, or at the end of the file: how many were taken before an error.
pub(crate) fn put(file: &OwnedFd, offset: u64, bytes: &[u8], flags: ReadWriteFlags) -> Result<usize, Errno> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pwritev2(file, &[IoSlice::new(&bytes[done..])], offset + done as u64, flags) {
            Ok(0) => break,
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done)
}

impl Files {
    /// Opens a file for reading only.
    pub(crate) fn open_to_read(&self, inode: &Arc<Inode>, flags: i32) -> Result<(u64, FopenFlags), Errno> {
        self.lease(inode, true)?;
        let leased = inode.content.read().lease.is_some();
        let mut answer = FopenFlags::FOPEN_NOFLUSH;
        if leased {
            answer |= FopenFlags::FOPEN_KEEP_CACHE;
        }
        // A direct descriptor reads past the kernel's pages and its idea of the file's size, which can both be old for
        // a moment where the file changes. But it drops those pages at each mapping: so text is opened cached.
        let text = flags & FOR_EXEC != 0 || inode.content.is_text();
        if !leased || !text {
            answer |= FopenFlags::FOPEN_DIRECT_IO;
        }
        Ok((self.add_open(inode, None), answer))
    }

    /// Opens a file for writing. [`begin_writing`](Self::begin_writing) came before.
    pub(crate) fn open_to_write(&self, inode: &Arc<Inode>, flags: i32) -> Result<(u64, FopenFlags), Errno> {
        inode.content.end.settle();
        self.let_go(inode);
        let asked = OFlags::from_bits_retain(flags.cast_unsigned());
        let kept = asked & (KEPT | OFlags::RWMODE);
        let opened = match self.tree.open(inode, kept) {
            // A file that can only be appended to.
            Err(Errno::PERM) if asked.contains(OFlags::APPEND) => self.tree.open(inode, kept | OFlags::APPEND),
            outcome => outcome,
        };
        let opened = opened.and_then(|writer| {
            // Whoever cannot read for want of descriptors is told now.
            if asked & OFlags::RWMODE == OFlags::RDWR {
                self.add_reader(inode, &mut inode.content.write())?;
            }
            Ok(writer)
        });
        match opened {
            Ok(writer) => Ok((self.add_open(inode, Some(writer)), FopenFlags::FOPEN_DIRECT_IO)),
            Err(error) => {
                self.end_writing(inode);
                Err(error)
            }
        }
    }

    /// Creates a file and opens it.
    pub(crate) fn create(
        &self,
        parent: u64,
        name: &OsStr,
        creation: Creation,
        flags: i32,
    ) -> Result<(Entry, u64, FopenFlags), Errno> {
        let asked = OFlags::from_bits_retain(flags.cast_unsigned());
        let writes = asked & OFlags::RWMODE != OFlags::RDONLY;
        let kept = asked & (KEPT | OFlags::RWMODE | OFlags::EXCL);
        let (entry, file) = self.tree.create(parent, name, creation, kept)?;
        let inode = &entry.0;
        let handle = if writes {
            self.begin_writing(inode);
            self.add_open(inode, Some(file))
        } else {
            self.lease(inode, true)?;
            self.add_open(inode, None)
        };
        Ok((entry, handle, FopenFlags::FOPEN_DIRECT_IO))
    }

    fn add_open(&self, inode: &Arc<Inode>, writer: Option<OwnedFd>) -> u64 {
        self.handles.add_file(OpenFile {
            inode: Arc::clone(inode),
            writer,
            sequence: std::sync::Mutex::default(),
        })
    }

    /// A program has closed a file for good.
    pub(crate) fn close(&self, handle: u64) {
        let Some(file) = self.handles.remove_file(handle) else {
            return;
        };
        let inode = Arc::clone(&file.inode);
        let writes = file.writer.is_some();
        // The descriptor goes first: the kernel refuses a lease as long as it is there.
        drop(file);
        self.tree.crowd.note_vain(false);
        if writes {
            self.end_writing(&inode);
        }
    }

    /// Writes; how many bytes were taken, or what is to be written by a thread that may wait.
    pub(crate) fn write(&self, handle: u64, written: Written<'_>) -> Result<Wrote, Errno> {
        let Written {
            offset,
            bytes,
            mapped,
            appended,
            strips,
        } = written;
        let file = self.handles.file(handle)?;
        let writer = file.writer.as_ref().ok_or(Errno::BADF)?;
        if let Some(changer) = strips {
            changer.strip(&file.inode)?;
        }
        count(&self.counters.writes, 1);
        if mapped {
            return self.write_back(&file, offset, bytes).map(Wrote::Done);
        }
        if let Some(mixing) = self.mixing(&file, (offset, bytes), appended, None) {
            return Ok(Wrote::Mixed(mixing));
        }
        let flags = if appended {
            ReadWriteFlags::APPEND
        } else {
            ReadWriteFlags::empty()
        };
        let done = put(writer, offset, bytes, flags)?;
        // The kernel may have asked for a page meanwhile.
        let mixing = self.mixing(&file, (offset, bytes), appended, Some(done));
        Ok(mixing.map_or(Wrote::Done(done), Wrote::Mixed))
    }

    /// Sets the size of a file. [`begin_writing`](Self::begin_writing) came before, and has ended after.
    pub(crate) fn set_size(&self, inode: &Arc<Inode>, handle: Option<u64>, size: u64) -> Result<(), Errno> {
        inode.content.end.settle();
        self.let_go(inode);
        let open = handle.and_then(|handle| self.handles.file(handle).ok());
        let outcome = match open.as_ref().and_then(|open| open.writer.as_ref()) {
            Some(writer) => rustix::fs::ftruncate(writer, size),
            None => self
                .tree
                .open(inode, OFlags::WRONLY)
                .and_then(|file| rustix::fs::ftruncate(file, size)),
        };
        self.end_writing(inode);
        outcome
    }

    /// fallocate(2), through a descriptor that is open for writing; what is to be done by a thread that may wait, if
    /// the kernel has pages of the file that are to know of it.
    pub(crate) fn allocate(
        &self,
        handle: u64,
        allocation: Allocation,
        changer: Changer,
    ) -> Result<Option<(Arc<OpenFile>, Allocation)>, Errno> {
        let file = self.handles.file(handle)?;
        changer.strip(&file.inode)?;
        if !allocation.is_mixed(&file) {
            allocation.carry_out(file.writer.as_ref().ok_or(Errno::BADF)?)?;
        }
        // The kernel may have asked for a page meanwhile.
        Ok(allocation.is_mixed(&file).then_some((file, allocation)))
    }

    /// Has everything written reach the device.
    pub(crate) fn synchronize(&self, handle: u64, data_only: bool) -> Result<(), Errno> {
        let file = self.handles.file(handle)?;
        // Of its own, where it is open for reading: nobody who wants the file's state waits for the device.
        let copy = match &file.writer {
            Some(_) => None,
            None => {
                let state = file.inode.content.read();
                let reader = state.reader.as_ref().ok_or(Errno::BADF)?;
                Some(rustix::io::fcntl_dupfd_cloexec(reader, 0)?)
            }
        };
        let open = file.writer.as_ref().or(copy.as_ref()).ok_or(Errno::BADF)?;
        if data_only {
            rustix::fs::fdatasync(open)
        } else {
            rustix::fs::fsync(open)
        }
    }

    /// What close(2) reports: errors of writes that were put off.
    pub(crate) fn flush(&self, handle: u64) -> Result<(), Errno> {
        let file = self.handles.file(handle)?;
        match &file.writer {
            // Some file systems report them when a descriptor is closed, to nobody but its closer.
            Some(writer) => match rustix::io::dup(writer) {
                // Without one more descriptor errors are told to who waits for the writes.
                Err(Errno::MFILE) => rustix::fs::fdatasync(writer),
                duplicate => duplicate.map(drop),
            },
            None => Ok(()),
        }
    }
}
