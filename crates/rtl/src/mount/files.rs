//! The directory as the kernel sees it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    PollEvents, PollFlags, PollNotifier, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyOpen, ReplyPoll, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::opened::{Opened, Waiting};
use crate::directory::{Directory, Kind};
use crate::fifo::COUNT;
use crate::fifo::peer::ProcessSide;

/// The number of `rtf0` is one more than the directory's.
const FIRST: u64 = 2;

#[derive(Debug)]
pub(super) struct Files {
    directory: Directory,
    opened: Mutex<BTreeMap<u64, Arc<Opened>>>,
}

impl Files {
    pub(super) fn new(directory: Directory) -> Self {
        Self {
            directory,
            opened: Mutex::new(BTreeMap::new()),
        }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Opened>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, handle: FileHandle) -> Option<Arc<Opened>> {
        self.table().get(&handle.0).cloned()
    }

    fn side(&self, number: u64) -> Option<ProcessSide> {
        let area = self.directory.find(Kind::Fifo, &number.to_string()).ok()?;
        ProcessSide::of(area).ok()
    }

    fn attributes(&self, inode: u64, owner: &Request) -> FileAttr {
        let number = inode.checked_sub(FIRST);
        let size = number.and_then(|number| {
            let opened = self.table().get(&number).cloned();
            opened.map_or_else(
                || self.side(number).map(|side| side.used()),
                |opened| Some(opened.used()),
            )
        });
        let (kind, perm, nlink) = match number {
            Some(_) => (FileType::RegularFile, 0o600, 1),
            None => (FileType::Directory, 0o700, 2),
        };
        FileAttr {
            ino: INodeNo(inode),
            size: size.unwrap_or(0),
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink,
            uid: owner.uid(),
            gid: owner.gid(),
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }

    fn open_fifo(&self, number: u64) -> Result<Arc<Opened>, Errno> {
        let mut table = self.table();
        if table.contains_key(&number) {
            return Err(Errno::EACCES);
        }
        let side = self.side(number).ok_or(Errno::ENODEV)?;
        let pair = side.pair().and_then(|other| self.side(other.into()));
        let opened = Opened::begin(side, pair, self.directory.clone(), number).map_err(|_| Errno::ENOMEM)?;
        table.insert(number, Arc::clone(&opened));
        Ok(opened)
    }
}

fn number_of(name: &OsStr) -> Option<u64> {
    let number = name.to_str()?.strip_prefix("rtf")?;
    let parsed: u64 = number.parse().ok()?;
    (parsed < COUNT as u64 && parsed.to_string() == number).then_some(parsed)
}

impl Filesystem for Files {
    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match number_of(name).filter(|_| parent == INodeNo::ROOT) {
            Some(number) => {
                let attributes = self.attributes(number + FIRST, request);
                reply.entry(&Duration::ZERO, &attributes, Generation(0));
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::ZERO, &self.attributes(inode.0, request));
    }

    /// Truncation, as by `>` of a shell, means nothing to a FIFO.
    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<std::time::SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<std::time::SystemTime>,
        _chgtime: Option<std::time::SystemTime>,
        _bkuptime: Option<std::time::SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&Duration::ZERO, &self.attributes(inode.0, request));
    }

    fn readdir(&self, _request: &Request, inode: INodeNo, _handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if inode != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        for number in offset..COUNT as u64 {
            let name = format!("rtf{number}");
            if reply.add(INodeNo(number + FIRST), number + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let number = inode.0.wrapping_sub(FIRST);
        match self.open_fifo(number) {
            Ok(_) => reply.opened(
                FileHandle(number),
                FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NONSEEKABLE,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        if let Some(opened) = self.table().remove(&handle.0) {
            opened.end();
        }
        reply.ok();
    }

    fn flush(&self, _request: &Request, _inode: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn read(
        &self,
        request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _offset: u64,
        size: u32,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.of(handle) {
            Some(opened) => opened.submit(Waiting::read(reply, size, request.pid()), may_wait(flags)),
            None => reply.error(Errno::EBADF),
        }
    }

    fn write(
        &self,
        request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.of(handle) {
            Some(opened) => opened.submit(Waiting::write(reply, data, request.pid()), may_wait(flags)),
            None => reply.error(Errno::EBADF),
        }
    }

    fn ioctl(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: fuser::IoctlFlags,
        command: u32,
        _data: &[u8],
        _size: u32,
        reply: ReplyIoctl,
    ) {
        const FIONREAD: u32 = 0x541b;
        match self.of(handle) {
            Some(opened) if command == FIONREAD => {
                let used = u32::try_from(opened.used()).unwrap_or(u32::MAX);
                reply.ioctl(0, &used.to_ne_bytes());
            }
            _ => reply.error(Errno::ENOTTY),
        }
    }

    fn poll(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        notifier: PollNotifier,
        _events: PollEvents,
        flags: PollFlags,
        reply: ReplyPoll,
    ) {
        match self.of(handle) {
            Some(opened) => {
                if flags.contains(PollFlags::FUSE_POLL_SCHEDULE_NOTIFY) {
                    opened.notify_with(notifier);
                }
                reply.poll(opened.events());
            }
            None => reply.error(Errno::EBADF),
        }
    }
}

fn may_wait(flags: OpenFlags) -> bool {
    flags.0 & libc::O_NONBLOCK == 0
}
