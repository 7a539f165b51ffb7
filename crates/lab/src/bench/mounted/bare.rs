//! Mounts without books, in processes of their own: every read answered from one page, or by the kernel from the file
//! itself (pass-through).

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use clap::ValueEnum;
use fuser::{
    BackingId, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request, Session,
};

use super::scene::FILE;
use crate::bench::rounds::refused;
use freehold_command::exit_status::{Failure, Status};
use freehold_command::{output, signals};
use freehold_linux::mounts::{self, Unmount};

/// The file's inode; 1 is the root's.
const NUMBER: INodeNo = INodeNo(2);
/// As many threads as our mount has.
const THREADS: usize = 4;
/// The largest read that the kernel asks for.
const MOST: usize = 1 << 20;
/// How often it is looked whether the end has come.
const LOOK: Duration = Duration::from_millis(5);

/// What reads are answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Answers {
    /// The same page, whichever is asked for
    Page,
    /// The kernel reads the file itself
    Through,
}

impl Answers {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Through => "through",
        }
    }
}

/// Options of the hidden subcommand.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[arg(value_enum)]
    answers: Answers,
    source: PathBuf,
    at: PathBuf,
}

#[derive(Debug)]
struct Bare {
    answers: Answers,
    file: File,
    pages: Vec<u8>,
    opened: AtomicU64,
    // Held while any file is open through it.
    backing: std::sync::Mutex<Option<BackingId>>,
}

/// Serves until it is told to end.
pub(crate) fn perform(arguments: &Arguments) -> Result<Status, Failure> {
    let stop = signals::catch()?;
    let bare = Bare {
        answers: arguments.answers,
        file: File::open(arguments.source.join(FILE)).map_err(refused)?,
        pages: vec![1; MOST],
        opened: AtomicU64::new(0),
        backing: std::sync::Mutex::default(),
    };
    let mut configuration = Config::default();
    configuration.mount_options = vec![MountOption::FSName("bare".to_owned()), MountOption::RO];
    configuration.n_threads = Some(THREADS);
    let session = Session::new(bare, &arguments.at, &configuration).map_err(refused)?;
    let session = session.spawn().map_err(refused)?;
    output::print("mounted\n")?;
    while !stop.load(Ordering::Relaxed) && !session.guard.is_finished() {
        std::thread::sleep(LOOK);
    }
    // Whoever mounted it waits for its end only.
    let _ = mounts::unmount(&arguments.at, Unmount::Detach);
    Ok(Status::Done)
}

impl Bare {
    fn attributes(&self, number: INodeNo) -> std::io::Result<FileAttr> {
        let found = self.file.metadata()?;
        let root = number == INodeNo::ROOT;
        Ok(FileAttr {
            ino: number,
            size: if root { 0 } else { found.len() },
            blocks: if root { 0 } else { found.blocks() },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if root {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: 0o755,
            nlink: 1,
            uid: found.uid(),
            gid: found.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn open_through(&self, reply: ReplyOpen, handle: FileHandle) {
        let mut backing = self.backing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if backing.is_none() {
            match reply.open_backing(&self.file) {
                Ok(opened) => *backing = Some(opened),
                Err(_) => return reply.error(Errno::EOPNOTSUPP),
            }
        }
        match &*backing {
            Some(backing) => reply.opened_passthrough(handle, FopenFlags::empty(), backing),
            None => reply.error(Errno::EIO),
        }
    }
}

impl Filesystem for Bare {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        if self.answers == Answers::Through {
            let refused = |_| std::io::Error::from(std::io::ErrorKind::Unsupported);
            config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).map_err(refused)?;
            let _ = config.set_max_stack_depth(1);
        }
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent != INodeNo::ROOT || name != FILE {
            return reply.error(Errno::ENOENT);
        }
        match self.attributes(NUMBER) {
            Ok(attributes) => reply.entry(&Duration::ZERO, &attributes, Generation(0)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn getattr(&self, _request: &Request, number: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(number) {
            Ok(attributes) => reply.attr(&Duration::ZERO, &attributes),
            Err(error) => reply.error(error.into()),
        }
    }

    fn open(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let handle = FileHandle(self.opened.fetch_add(1, Ordering::Relaxed) + 1);
        match self.answers {
            Answers::Page => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
            Answers::Through => self.open_through(reply, handle),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(self.pages.get(..size as usize).unwrap_or(&self.pages));
    }
}
