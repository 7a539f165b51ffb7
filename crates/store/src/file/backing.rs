//! The file itself: nameless, of its full size from the start, past the page cache where that can be had.

use crate::description::Shortfall;
use crate::error::SetupError;
use crate::file::FileConfig;
use crate::slots::Slot;
use crate::{RECORD_SIZE, Record};
use freehold_linux::Errno;
use freehold_linux::memory::PageLease;
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::path::Path;

const TMPFS_MAGIC: i64 = 0x0102_1994;
/// How many names are tried where the file system has no nameless files.
const NAMES: u32 = 100;

/// What was made.
#[derive(Debug)]
pub(super) struct Backing {
    pub(super) file: OwnedFd,
    pub(super) direct: bool,
    pub(super) shortfalls: Vec<Shortfall>,
}

impl Backing {
    pub(super) fn new(config: &FileConfig) -> Result<Self, SetupError> {
        let mut shortfalls = Vec::new();
        let (file, mut direct) = open(&config.directory, config.direct, &mut shortfalls)?;
        if rustix::fs::fstatfs(&file).is_ok_and(|status| status.f_type == TMPFS_MAGIC) {
            shortfalls.push(Shortfall::OnTmpfs);
        }
        size(&file, config, &mut shortfalls)?;
        if direct && let Err(errno) = try_direct(&file) {
            let flags = rustix::fs::fcntl_getfl(&file).map_err(SetupError::File)?;
            rustix::fs::fcntl_setfl(&file, flags - OFlags::DIRECT).map_err(SetupError::File)?;
            shortfalls.push(Shortfall::Direct(errno));
            direct = false;
        }
        Ok(Self {
            file,
            direct,
            shortfalls,
        })
    }
}

/// Opens a nameless file; whether for direct input and output.
fn open(directory: &Path, direct: bool, shortfalls: &mut Vec<Shortfall>) -> Result<(OwnedFd, bool), SetupError> {
    if direct {
        match open_nameless(directory, OFlags::DIRECT) {
            Ok(file) => return Ok((file, true)),
            // The file system does not know the flag; whatever else is wrong shows again below.
            Err(Errno::INVAL) => shortfalls.push(Shortfall::Direct(Errno::INVAL)),
            Err(errno) => return Err(SetupError::Directory(errno)),
        }
    }
    let file = open_nameless(directory, OFlags::empty()).map_err(SetupError::Directory)?;
    Ok((file, false))
}

fn open_nameless(directory: &Path, extra: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | extra;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(directory, flags | OFlags::TMPFILE, mode) {
        // Without nameless files: a kernel says so in one of these ways.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => open_and_unlink(directory, flags, mode),
        result => result,
    }
}

fn open_and_unlink(directory: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let process = std::process::id();
    for number in 0..NAMES {
        let path = directory.join(format!(".freehold-store-{process}-{number}"));
        match rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(file) => {
                rustix::fs::unlink(&path)?;
                return Ok(file);
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

/// Gives the file its length, and room for all of it if that is wanted.
fn size(file: &OwnedFd, config: &FileConfig, shortfalls: &mut Vec<Shortfall>) -> Result<(), SetupError> {
    let bytes = u64::from(config.slots) * RECORD_SIZE as u64;
    if config.preallocate {
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)) {
            Ok(()) => return Ok(()),
            Err(errno @ (Errno::OPNOTSUPP | Errno::NOSYS)) => shortfalls.push(Shortfall::Preallocation(errno)),
            Err(errno) => return Err(SetupError::NoRoom { bytes, errno }),
        }
    }
    rustix::fs::ftruncate(file, bytes).map_err(|errno| SetupError::NoRoom { bytes, errno })
}

/// Some file systems take the flag and refuse the transfer.
fn try_direct(file: &OwnedFd) -> Result<(), Errno> {
    let mut page = PageLease::allocated();
    match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut page.bytes_mut()[..], 0))? {
        RECORD_SIZE => Ok(()),
        _ => Err(Errno::IO),
    }
}

/// Writes a record now, through a buffer as direct input and output need it.
pub(super) fn write_now(file: &OwnedFd, slot: Slot, record: &Record) -> Result<(), Errno> {
    let mut page = PageLease::allocated();
    page.bytes_mut().copy_from_slice(record);
    match rustix::io::retry_on_intr(|| rustix::io::pwrite(file, page.bytes(), offset(slot)))? {
        RECORD_SIZE => Ok(()),
        _ => Err(Errno::IO),
    }
}

/// Flips a bit of a record.
pub(super) fn damage_now(file: &OwnedFd, slot: Slot) -> Result<(), Errno> {
    let mut page = PageLease::allocated();
    rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut page.bytes_mut()[..], offset(slot)))?;
    page.bytes_mut()[RECORD_SIZE / 2] ^= 1;
    write_now(file, slot, page.bytes())
}

/// Where the record of a slot begins.
pub(super) fn offset(slot: Slot) -> u64 {
    u64::from(slot.get()) * RECORD_SIZE as u64
}
