//! A memory object: a memfd, or a file in memory that has a path, counted in pages.

use super::mapping::{Access, MapError, SharedMapping};
use super::tmpfs::{Tmpfs, TmpfsName};
use crate::{Errno, PAGE_SIZE, PageRange, sys};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

/// Whoever has a descriptor, a read-only one too, can open the object again through `/proc/self/fd`, with the rights
/// that the object's mode gives. Linux makes memory objects with all rights for everybody.
const READ_WRITE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Of objects that nobody but their maker's first descriptor writes. Their maker's user may change the mode again.
const READ_ONLY: Mode = Mode::RUSR;

/// A memory object could not be created or given its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemfdError {
    /// The caller's mistake: the length does not fit a file.
    #[error("{0} pages are more than a file can have")]
    TooLong(usize),
    /// The sender's mistake: the descriptor is not of a memory object of so many pages.
    #[error("the descriptor is not of a memory object of {0} pages")]
    Unsuitable(usize),
    /// The kernel's refusal, such as too many open files.
    #[error("a memfd could not be made: {0}{advice}", advice = advice(*.0))]
    System(Errno),
}

fn advice(errno: Errno) -> &'static str {
    if errno == Errno::FBIG {
        ": raise the limit on files (ulimit -f)"
    } else {
        ""
    }
}

/// Residency could not be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResidencyError {
    /// The caller's mistake: the range leaves the object.
    #[error("the range leaves the object")]
    OutOfBounds,
    /// cachestat is absent and the range could not be mapped for mincore.
    #[error("neither cachestat nor mincore can count: {0}")]
    Map(#[from] MapError),
    /// The kernel's refusal.
    #[error("resident pages could not be counted: {0}")]
    System(Errno),
}

/// How many pages of an object are in frames, and who said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Pages in frames; swapped-out pages and holes do not count.
    pub pages: usize,
    /// The mechanism used.
    pub source: ResidencySource,
}

/// The mechanism that counted resident pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResidencySource {
    /// `cachestat` (6.5).
    Cachestat,
    /// `mincore` on a temporary mapping: allocates one byte per page.
    Mincore,
}

/// A memory object, closed on exec.
#[derive(Debug)]
pub struct Memfd {
    /// Where the object has a path.
    name: Option<TmpfsName>,
    fd: OwnedFd,
    pages: usize,
}

impl Memfd {
    /// A new object of `pages` absent pages. `name` shows in `/proc/PID/maps`. No other user can open it again.
    ///
    /// # Errors
    /// See [`MemfdError`].
    pub fn create(name: &CStr, pages: usize) -> Result<Self, MemfdError> {
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).map_err(MemfdError::System)?;
        rustix::fs::fchmod(&fd, READ_WRITE).map_err(MemfdError::System)?;
        let mut memfd = Self::nameless(fd, 0);
        memfd.set_pages(pages)?;
        Ok(memfd)
    }

    /// As [`Memfd::create`], but nobody can change its length any more. `executable` where it may be mapped for
    /// execution: what others run, only this descriptor writes.
    ///
    /// # Errors
    /// See [`MemfdError`].
    pub fn create_sealed(name: &CStr, pages: usize, executable: bool) -> Result<Self, MemfdError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let kind = if executable {
            MemfdFlags::EXEC
        } else {
            MemfdFlags::NOEXEC_SEAL
        };
        let fd = match rustix::fs::memfd_create(name, flags | kind) {
            // Older than 6.3.
            Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
            result => result,
        };
        let fd = fd.map_err(MemfdError::System)?;
        let mode = if executable { READ_ONLY } else { READ_WRITE };
        rustix::fs::fchmod(&fd, mode).map_err(MemfdError::System)?;
        let mut memfd = Self::nameless(fd, 0);
        memfd.set_pages(pages)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memfd.fd, seals).map_err(MemfdError::System)?;
        Ok(memfd)
    }

    /// An object that has a path, `/proc/PID/maps` shows it, and which only this descriptor writes. It may be mapped
    /// for execution. Its length is not sealed: root could change it.
    ///
    /// # Errors
    /// See [`MemfdError`]; as [`Tmpfs::create`].
    pub(super) fn create_at(tmpfs: &Arc<Tmpfs>, path: &Path, pages: usize) -> Result<Self, MemfdError> {
        let (fd, name) = tmpfs.create(path).map_err(MemfdError::System)?;
        rustix::fs::fchmod(&fd, READ_ONLY).map_err(MemfdError::System)?;
        let mut memfd = Self::nameless(fd, 0);
        memfd.name = Some(name);
        memfd.set_pages(pages)?;
        Ok(memfd)
    }

    fn nameless(fd: OwnedFd, pages: usize) -> Self {
        Self { name: None, fd, pages }
    }

    /// Takes over a descriptor that somebody sent: a file object of at least `pages` pages.
    ///
    /// # Errors
    /// [`MemfdError::Unsuitable`] where it is something else, or shorter: pages past its end would raise SIGBUS.
    pub fn adopt(fd: OwnedFd, pages: usize) -> Result<Self, MemfdError> {
        let (_, length) = PageRange::new(0, pages).bytes().ok_or(MemfdError::TooLong(pages))?;
        let found = rustix::fs::fstat(&fd).map_err(MemfdError::System)?;
        let regular = rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::RegularFile;
        let long_enough = u64::try_from(found.st_size).is_ok_and(|size| size >= length);
        if regular && long_enough && pages > 0 {
            Ok(Self::nameless(fd, pages))
        } else {
            Err(MemfdError::Unsuitable(pages))
        }
    }

    /// Changes the length. Pages cut off are dropped for every mapper, whose next access there raises SIGBUS.
    ///
    /// # Errors
    /// See [`MemfdError`]; the length is unchanged.
    pub fn set_pages(&mut self, pages: usize) -> Result<(), MemfdError> {
        let (_, length) = PageRange::new(0, pages).bytes().ok_or(MemfdError::TooLong(pages))?;
        rustix::fs::ftruncate(&self.fd, length).map_err(MemfdError::System)?;
        self.pages = pages;
        Ok(())
    }

    /// The length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Gives back the frames of `range` and unmaps them in every process; the next access is to a missing page.
    ///
    /// Async-signal-safe.
    ///
    /// # Errors
    /// `INVAL` if the range is empty or leaves the object; `PERM` if a seal forbids it.
    pub fn punch_hole(&self, range: PageRange) -> Result<(), Errno> {
        let (offset, length) = self.bytes_within(range).ok_or(Errno::INVAL)?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.fd, flags, offset, length))
    }

    /// Counts the pages of `range` that are in frames, as the kernel sees it.
    ///
    /// # Errors
    /// See [`ResidencyError`].
    pub fn resident(&self, range: PageRange) -> Result<Residency, ResidencyError> {
        match self.cachestat(range) {
            Ok(pages) => Ok(Residency {
                pages,
                source: ResidencySource::Cachestat,
            }),
            Err(ResidencyError::System(Errno::NOSYS | Errno::PERM)) => self.mincore(range),
            Err(error) => Err(error),
        }
    }

    /// Counts with `cachestat` only (6.5).
    ///
    /// # Errors
    /// [`ResidencyError::System`] with `NOSYS` where the kernel lacks it.
    pub fn cachestat(&self, range: PageRange) -> Result<usize, ResidencyError> {
        let (offset, length) = self.bounds(range)?;
        if length == 0 {
            // To the kernel, length 0 means "to the end".
            return Ok(0);
        }
        let cached = crate::cached::cached_pages(&self.fd, offset, length).map_err(ResidencyError::System)?;
        usize::try_from(cached).map_err(|_| ResidencyError::System(Errno::OVERFLOW))
    }

    /// Counts with `mincore` on a temporary mapping only.
    ///
    /// # Errors
    /// See [`ResidencyError`].
    pub fn mincore(&self, range: PageRange) -> Result<Residency, ResidencyError> {
        self.bounds(range)?;
        let source = ResidencySource::Mincore;
        if range.count() == 0 {
            return Ok(Residency { pages: 0, source });
        }
        let mapping = SharedMapping::new(self, range, Access::Read)?;
        let mut resident = vec![0_u8; range.count()];
        // SAFETY: the mapping covers range.count() pages and `resident` has a byte for each; mincore writes only those.
        let result = unsafe { libc::mincore(mapping.base().cast(), mapping.length(), resident.as_mut_ptr()) };
        sys::check_int(result).map_err(ResidencyError::System)?;
        Ok(Residency {
            pages: resident.iter().filter(|byte| **byte & 1 == 1).count(),
            source,
        })
    }

    fn bounds(&self, range: PageRange) -> Result<(u64, u64), ResidencyError> {
        self.bytes_within(range).ok_or(ResidencyError::OutOfBounds)
    }

    fn bytes_within(&self, range: PageRange) -> Option<(u64, u64)> {
        if range.fits(self.pages) { range.bytes() } else { None }
    }
}

impl AsFd for Memfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens a memory object once more, for reading only; the object's mode keeps other users from opening it for more.
pub(super) fn reopen_read_only(memfd: &Memfd) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", memfd.fd.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

const _: () = assert!(PAGE_SIZE.is_power_of_two());
