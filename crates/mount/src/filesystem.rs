//! Requests of the kernel, each handed to whoever serves it.
//!
//! Names and attributes are asked for each time (their timeouts are zero): so a change made in SOURCE itself is seen.
//! readdirplus is left alone, since what it tells would be asked for again at once. Locks are the kernel's own: they
//! hold among all programs that use the mount.

use crate::attributes::{self, Changes};
use crate::files::{Files, count};
use crate::opening::Written;
use crate::recall::Fill;
use crate::replies::{NEVER, refusal, tell, tell_entry, tell_extended, tell_open};
use crate::tree::Creation;
use fuser::{
    BsdFileFlags, Errno as Refusal, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Bytes of a request's data at most.
const MOST_WRITTEN: u32 = 1 << 20;

/// The file system.
#[derive(Debug)]
pub(crate) struct Mounted(pub(crate) Arc<Files>);

fn creation(request: &Request, mode: u32, mask: u32) -> Creation {
    Creation {
        user: request.uid(),
        group: request.gid(),
        mode,
        mask,
    }
}

impl Mounted {
    fn tell_attributes(&self, number: u64, reply: ReplyAttr) {
        let found = self.0.tree.inodes.get(number).and_then(|inode| {
            let status = attributes::status_of(rustix::fd::AsFd::as_fd(&inode.place))?;
            self.0.note_size(&inode, status.size());
            Ok((inode, status.attributes(number)?))
        });
        match found {
            Ok((inode, attributes)) if self.0.may_pass_over(&inode, attributes.size) => {
                self.elsewhere(move |mounted| {
                    mounted.0.store_end(&inode, attributes.size);
                    reply.attr(&NEVER, &attributes);
                })
            }
            Ok((_, attributes)) => reply.attr(&NEVER, &attributes),
            Err(error) => reply.error(refusal(error)),
        }
    }

    /// Answers in a thread of its own; in this one where none can be had.
    fn elsewhere(&self, work: impl FnOnce(&Mounted) + Send + 'static) {
        let shared = Mounted(Arc::clone(&self.0));
        let work = std::sync::Mutex::new(Some(work));
        let work = Arc::new(work);
        let take = |work: &std::sync::Mutex<Option<_>>| work.lock().ok().and_then(|mut work| work.take());
        let theirs = Arc::clone(&work);
        let thread = std::thread::Builder::new().name("write-open".to_owned());
        let started = thread.spawn(move || {
            if let Some(work) = take(&theirs) {
                work(&shared);
            }
        });
        if started.is_err()
            && let Some(work) = take(&work)
        {
            work(self);
        }
    }

    fn set_size(
        &self,
        number: u64,
        handle: Option<u64>,
        size: u64,
        then: impl FnOnce(&Self, Result<(), Errno>) + Send + 'static,
    ) {
        let inode = match self.0.tree.inodes.get(number) {
            Ok(inode) => inode,
            Err(error) => return then(self, Err(error)),
        };
        if self.0.begin_writing(&inode) {
            let outcome = self.0.set_size(&inode, handle, size);
            return then(self, outcome);
        }
        self.elsewhere(move |mounted| {
            let outcome = mounted.0.set_size(&inode, handle, size);
            then(mounted, outcome);
        });
    }

    fn change(&self, number: u64, changes: &Changes, reply: ReplyAttr) {
        let inode = self.0.tree.inodes.get(number);
        match inode.and_then(|inode| changes.apply(&inode)) {
            Ok(()) => self.tell_attributes(number, reply),
            Err(error) => reply.error(refusal(error)),
        }
    }
}

impl Filesystem for Mounted {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Older kernels lack some of these: shared mappings are refused there, masks are the kernel's to apply.
        for wanted in [
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DONT_MASK | InitFlags::FUSE_POSIX_ACL,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(MOST_WRITTEN);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let entry = self.0.tree.lookup(parent.0, name);
        if let Ok((inode, status)) = &entry {
            self.0.note_size(inode, status.size());
        }
        // One that finds nothing is followed by what makes an inode.
        self.0.note_lookup();
        tell_entry(reply, entry);
    }

    fn forget(&self, _request: &Request, number: INodeNo, times: u64) {
        self.0.forget(number.0, times);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.tell_attributes(number.0, reply);
    }

    fn setattr(
        &self,
        _request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _change: Option<SystemTime>,
        _backup: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes {
            mode,
            user,
            group,
            accessed,
            modified,
        };
        match size {
            None => self.change(number.0, &changes, reply),
            Some(size) => {
                let handle = handle.map(|handle| handle.0);
                self.set_size(number.0, handle, size, move |mounted, outcome| match outcome {
                    Ok(()) => mounted.change(number.0, &changes, reply),
                    Err(error) => reply.error(refusal(error)),
                });
            }
        }
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        match self.0.tree.read_link(number.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(refusal(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let device = attributes::device_of(device);
        let made = self
            .0
            .tree
            .make(parent.0, name, creation(request, mode, mask), Some(device));
        tell_entry(reply, made);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, mask: u32, reply: ReplyEntry) {
        tell_entry(
            reply,
            self.0.tree.make(parent.0, name, creation(request, mode, mask), None),
        );
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        tell(reply, self.0.tree.remove(parent.0, name, false));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        tell(reply, self.0.tree.remove(parent.0, name, true));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.0.tree.symlink(parent.0, name, target, creation(request, 0, 0));
        tell_entry(reply, made);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        tell(
            reply,
            self.0
                .tree
                .rename((parent.0, name), (new_parent.0, new_name), flags.bits()),
        );
    }

    fn link(&self, _request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        tell_entry(reply, self.0.tree.link(number.0, parent.0, name));
    }

    fn open(&self, _request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let inode = match self.0.tree.inodes.get(number.0) {
            Ok(inode) if inode.kind == FileType::RegularFile => inode,
            Ok(_) => return reply.error(Refusal::EINVAL),
            Err(error) => return reply.error(refusal(error)),
        };
        if flags.acc_mode() == OpenAccMode::O_RDONLY {
            return tell_open(reply, self.0.open_to_read(&inode, flags.0));
        }
        if self.0.begin_writing(&inode) {
            return tell_open(reply, self.0.open_to_write(&inode, flags.0));
        }
        self.elsewhere(move |mounted| tell_open(reply, mounted.0.open_to_write(&inode, flags.0)));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        mask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created = self.0.create(parent.0, name, creation(request, mode, mask), flags);
        let told = created
            .and_then(|((inode, status), handle, answer)| Ok((status.attributes(inode.number)?, handle, answer)));
        match told {
            Ok((attributes, handle, answer)) => {
                reply.created(&NEVER, &attributes, Generation(0), FileHandle(handle), answer);
            }
            Err(error) => reply.error(refusal(error)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        count(&self.0.counters.reads, 1);
        let file = match self.0.handles.file(handle.0) {
            Ok(file) => file,
            Err(error) => return reply.error(refusal(error)),
        };
        if owner.is_none() {
            // For a mapping: the kernel keeps these pages.
            return self.0.fill(Fill {
                inode: Arc::clone(&file.inode),
                offset,
                size,
                reply,
            });
        }
        if let Err(error) = self.0.lease(&file.inode, false) {
            return reply.error(refusal(error));
        }
        let state = file.inode.content.read();
        match self.0.read(&file.inode, &state, (offset, size), &file.sequence) {
            // An error behind these bytes is told to the read that begins there.
            Ok(served) => reply.data(&served.bytes),
            Err(error) => reply.error(refusal(error)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // What a mapping has changed goes where it is mapped, by whichever descriptor the kernel takes.
        let mapped = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let written = Written {
            offset,
            bytes: data,
            strips: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
            appended: !mapped && OFlags::from_bits_retain(flags.0.cast_unsigned()).contains(OFlags::APPEND),
        };
        match self.0.write(handle.0, written) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(refusal(error)),
        }
    }

    fn flush(&self, _request: &Request, _number: INodeNo, handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        tell(reply, self.0.flush(handle.0));
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.close(handle.0);
        reply.ok();
    }

    fn fsync(&self, _request: &Request, _number: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        tell(reply, self.0.synchronize(handle.0, data_only));
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.0.open_directory(number.0);
        tell_open(reply, opened.map(|handle| (handle, FopenFlags::empty())));
    }

    fn readdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.0.list(handle.0, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(refusal(error)),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.0.handles.remove_directory(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, _number: INodeNo, handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        let directory = self.0.handles.directory(handle.0);
        let synchronized = directory.and_then(|directory| {
            let directory = directory.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            rustix::fs::fsync(&*directory)
        });
        tell(reply, synchronized);
    }

    fn statfs(&self, _request: &Request, number: INodeNo, reply: ReplyStatfs) {
        let inode = self.0.tree.inodes.get(number.0);
        match inode.and_then(|inode| attributes::figures(&inode)) {
            Ok(found) => {
                let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
                let (block, fragment, name) = (small(found.f_bsize), small(found.f_frsize), small(found.f_namemax));
                reply.statfs(
                    found.f_blocks,
                    found.f_bfree,
                    found.f_bavail,
                    found.f_files,
                    found.f_ffree,
                    block,
                    name,
                    fragment,
                );
            }
            Err(error) => reply.error(refusal(error)),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let inode = self.0.tree.inodes.get(number.0);
        tell(
            reply,
            inode.and_then(|inode| attributes::set_extended(&inode, name, value, flags)),
        );
    }

    fn getxattr(&self, _request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let inode = self.0.tree.inodes.get(number.0);
        tell_extended(
            reply,
            inode.and_then(|inode| attributes::get_extended(&inode, name, size)),
        );
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let inode = self.0.tree.inodes.get(number.0);
        let root = request.uid() == 0;
        tell_extended(
            reply,
            inode.and_then(|inode| attributes::list_extended(&inode, root, size)),
        );
    }

    fn removexattr(&self, _request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let inode = self.0.tree.inodes.get(number.0);
        tell(reply, inode.and_then(|inode| attributes::remove_extended(&inode, name)));
    }

    fn fallocate(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        tell(reply, self.0.allocate(handle.0, offset, length, mode));
    }

    fn lseek(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let inode = self.0.tree.inodes.get(number.0);
        match inode.and_then(|inode| self.0.seek(&inode, offset, whence)) {
            Ok(found) => reply.offset(found),
            Err(error) => reply.error(refusal(error)),
        }
    }
}
