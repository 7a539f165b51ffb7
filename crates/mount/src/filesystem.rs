//! Requests of the kernel, each handed to whoever serves it.
//!
//! Names and attributes are asked for each time (their timeouts are zero): so a change made in SOURCE itself is seen.
//! readdirplus is left alone, since what it tells would be asked for again at once. Locks are the kernel's own: they
//! hold among all programs that use the mount.

use crate::answering::Mounted;
use crate::attributes::{self, Changes};
use crate::files::count;
use crate::mixed::Allocation;
use crate::opening::{Written, Wrote};
use crate::recall::Fill;
use crate::replies::{refusal, tell, tell_created, tell_entry, tell_extended, tell_open, tell_written};
use crate::set_id::Changer;
use crate::tree::Creation;
use fuser::{
    BsdFileFlags, Errno as Refusal, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FileType, OFlags};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Bytes of a request's data at most.
const MOST_WRITTEN: u32 = 1 << 20;

fn creation(request: &Request, mode: u32, mask: u32) -> Creation {
    Creation {
        user: request.uid(),
        group: request.gid(),
        mode,
        mask,
    }
}

impl Filesystem for Mounted {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Older kernels lack some of these: shared mappings are refused there, masks are the kernel's to apply.
        for wanted in [
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_PARALLEL_DIROPS,
            // Without it the kernel does not tell io_uring how far a read has come, which goes on from its beginning.
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DONT_MASK | InitFlags::FUSE_POSIX_ACL,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(MOST_WRITTEN);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.0.tree.lookup_known(parent.0, name).transpose() {
            Some(known) => self.tell_found(known, reply),
            None => {
                let name = name.to_owned();
                self.with_room(Some(parent), move |mounted| {
                    mounted.tell_found(mounted.0.tree.lookup(parent.0, &name), reply);
                });
            }
        }
    }

    fn forget(&self, _request: &Request, number: INodeNo, times: u64) {
        self.0.forget(number.0, times);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.tell_attributes(number.0, reply);
    }

    fn setattr(
        &self,
        request: &Request,
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
        let changer = Changer::of(request);
        match size {
            None => {
                let changer = (user.is_some() || group.is_some()).then_some(changer);
                self.change(number.0, &changes, changer, reply);
            }
            Some(size) => {
                let handle = handle.map(|handle| handle.0);
                self.set_size(number.0, handle, size, move |mounted, outcome| match outcome {
                    Ok(()) => mounted.change(number.0, &changes, Some(changer), reply),
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
        let (creation, device) = (creation(request, mode, mask), attributes::device_of(device));
        let name = name.to_owned();
        self.with_room(Some(parent), move |mounted| {
            tell_entry(reply, mounted.0.tree.make(parent.0, &name, creation, Some(device)));
        });
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, mask: u32, reply: ReplyEntry) {
        let (creation, name) = (creation(request, mode, mask), name.to_owned());
        self.with_room(Some(parent), move |mounted| {
            tell_entry(reply, mounted.0.tree.make(parent.0, &name, creation, None));
        });
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        tell(reply, self.0.tree.remove(parent.0, name, false));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        tell(reply, self.0.tree.remove(parent.0, name, true));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (creation, name, target) = (creation(request, 0, 0), name.to_owned(), target.to_owned());
        self.with_room(Some(parent), move |mounted| {
            tell_entry(reply, mounted.0.tree.symlink(parent.0, &name, &target, creation));
        });
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
        if flags.acc_mode() == OpenAccMode::O_RDONLY && inode.content.read().reader.is_some() {
            // That takes no descriptor.
            return self.open_file(&inode, flags, reply);
        }
        self.with_room(None, move |mounted| mounted.open_file(&inode, flags, reply));
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
        let (creation, name) = (creation(request, mode, mask), name.to_owned());
        self.with_room(Some(parent), move |mounted| {
            tell_created(reply, mounted.0.create(parent.0, &name, creation, flags));
        });
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
        request: &Request,
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
            mapped,
            strips: write_flags
                .contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID)
                .then(|| Changer::of(request)),
            appended: !mapped && OFlags::from_bits_retain(flags.0.cast_unsigned()).contains(OFlags::APPEND),
        };
        match self.0.write(handle.0, written) {
            Ok(Wrote::Done(done)) => tell_written(reply, Ok(done)),
            Ok(Wrote::Mixed(mixing)) => self.mix(move |mounted| tell_written(reply, mounted.0.mix(&mixing))),
            Err(error) => tell_written(reply, Err(error)),
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
        self.with_room(None, move |mounted| {
            let opened = mounted.0.open_directory(number.0);
            tell_open(reply, opened.map(|handle| (handle, FopenFlags::empty())));
        });
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
        self.0.tree.crowd.note_vain(false);
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
        request: &Request,
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
            inode.and_then(|inode| {
                attributes::set_extended(&inode, name, value, flags)?;
                Changer::of(request).strip_listed(&inode, name)
            }),
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
        request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocation = Allocation { offset, length, mode };
        match self.0.allocate(handle.0, allocation, Changer::of(request)) {
            Ok(None) => reply.ok(),
            Ok(Some((file, allocation))) => self.mix(move |mounted| {
                tell(reply, mounted.0.mix_zeros(&file, allocation));
            }),
            Err(error) => reply.error(refusal(error)),
        }
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
