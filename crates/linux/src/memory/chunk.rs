//! A part of device memory: a memory object of its own, so that whoever gets it gets nothing beside it.

use super::MemfdError;
use crate::{Errno, PAGE_SIZE, PageRange, sys};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use std::ffi::CStr;

/// Pages of 4 KiB in a huge page.
pub const HUGE_PAGES: usize = 512;
/// Nobody opens it again through `/proc/PID/fd` but its owner's own doing, and root.
const CLOSED: Mode = Mode::empty();
const OPEN: Mode = Mode::RUSR.union(Mode::WUSR);
const F_SETLEASE: libc::c_int = 1024;
const F_SETSIG: libc::c_int = 10;

/// A memory object whose size nobody can change, closed on exec.
///
/// Others get descriptors made by [`reopen`](Self::reopen), never this one: the kernel counts those, so that
/// [`is_held`](Self::is_held) can tell whether anybody still has one, or a mapping made with one.
#[derive(Debug)]
pub struct Chunk {
    fd: OwnedFd,
    pages: usize,
}

impl Chunk {
    /// An object of `pages` absent pages, on huge pages where `huge`: then a multiple of [`HUGE_PAGES`].
    ///
    /// # Errors
    /// See [`MemfdError`]: `System(INVAL)` where the number of pages does not suit huge ones.
    pub fn create(name: &CStr, pages: usize, huge: bool) -> Result<Self, MemfdError> {
        let length = pages
            .checked_mul(PAGE_SIZE)
            .and_then(|length| u64::try_from(length).ok());
        let length = length.ok_or(MemfdError::TooLong(pages))?;
        let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        if huge {
            flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        }
        let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            // Older than 6.3.
            Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
            result => result,
        };
        let fd = fd.map_err(MemfdError::System)?;
        rustix::fs::fchmod(&fd, CLOSED).map_err(MemfdError::System)?;
        rustix::fs::ftruncate(&fd, length).map_err(MemfdError::System)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals).map_err(MemfdError::System)?;
        Ok(Self { fd, pages })
    }

    /// Takes over a descriptor that somebody sent: a memory object whose size nobody can change, to be mapped.
    ///
    /// # Errors
    /// [`MemfdError::Unsuitable`] where it is something else.
    pub fn adopt(fd: OwnedFd) -> Result<Self, MemfdError> {
        let size = rustix::fs::fstat(&fd).map_err(MemfdError::System)?.st_size;
        let pages = usize::try_from(size).unwrap_or(0) / PAGE_SIZE;
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| MemfdError::Unsuitable(pages))?;
        if pages > 0 && seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            Ok(Self { fd, pages })
        } else {
            Err(MemfdError::Unsuitable(pages))
        }
    }

    /// Its length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// A descriptor of its own, for reading and writing, closed on exec: for somebody else.
    ///
    /// # Errors
    /// The kernel's refusal, such as too many open files.
    pub fn reopen(&self) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let open = || rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        match open() {
            // Its owner, without root's rights.
            Err(Errno::ACCESS) => {
                rustix::fs::fchmod(&self.fd, OPEN)?;
                let opened = open();
                rustix::fs::fchmod(&self.fd, CLOSED)?;
                opened
            }
            result => result,
        }
    }

    /// Whether a descriptor made by [`reopen`](Self::reopen) is still open anywhere, on its way to somebody, or mapped
    /// by any process. Pages that the kernel keeps for a device or a ring (pins) do not show.
    ///
    /// # Errors
    /// The kernel's refusal: `ACCES` without ownership and CAP_LEASE, or as [`reopen`](Self::reopen).
    pub fn is_held(&self) -> Result<bool, Errno> {
        let probe = self.reopen()?;
        // Who opens it just now breaks the lease. The signal of that, SIGIO, would end this process. This one is
        // ignored unless a program asks for it.
        // SAFETY: plain numbers; the descriptor is this function's.
        sys::check_int(unsafe { libc::fcntl(probe.as_raw_fd(), F_SETSIG, libc::SIGURG) })?;
        // SAFETY: plain numbers; the lease goes with the descriptor, which is this function's.
        let result = unsafe { libc::fcntl(probe.as_raw_fd(), F_SETLEASE, libc::F_WRLCK) };
        match sys::check_int(result) {
            Ok(_) => Ok(false),
            Err(Errno::AGAIN) => Ok(true),
            Err(errno) => Err(errno),
        }
    }

    /// Gives all its frames back to the kernel, whoever maps them.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn punch(&self) -> Result<(), Errno> {
        self.punch_part(PageRange::new(0, self.pages))
    }

    /// As [`punch`](Self::punch), of a part.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn punch_part(&self, range: PageRange) -> Result<(), Errno> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let bytes = |pages: usize| (pages * PAGE_SIZE) as u64;
        let (start, length) = (bytes(range.first()), bytes(range.count()));
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.fd, flags, start, length))
    }

    /// Pages that have frames, as the kernel counts them.
    ///
    /// # Errors
    /// The kernel's refusal, which nothing is known to cause.
    pub fn resident(&self) -> Result<usize, Errno> {
        const SECTOR: usize = 512;
        let sectors = rustix::fs::fstat(&self.fd)?.st_blocks;
        let sectors = usize::try_from(sectors).map_err(|_| Errno::OVERFLOW)?;
        Ok((sectors / (PAGE_SIZE / SECTOR)).min(self.pages))
    }
}

impl AsFd for Chunk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::Chunk;
    use crate::{Errno, PAGE_SIZE};
    use rustix::fd::OwnedFd;
    use rustix::fs::SealFlags;

    fn map(fd: &OwnedFd) -> *mut std::ffi::c_void {
        use rustix::mm::{MapFlags, ProtFlags};
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), PAGE_SIZE, access, MapFlags::SHARED, fd, 0) }.unwrap()
    }

    #[test]
    fn who_opens_it_while_another_looks_ends_nobody() {
        const ROUNDS: usize = 100_000;
        let chunk = Chunk::create(c"test", 1, false).unwrap();
        let opened = std::thread::scope(|scope| {
            let opener = scope.spawn(|| (0..ROUNDS).filter(|_| chunk.reopen().is_ok()).count());
            for _ in 0..ROUNDS {
                chunk.is_held().unwrap();
            }
            opener.join().unwrap()
        });
        assert_eq!(opened, ROUNDS);
    }

    #[test]
    fn descriptors_copies_and_mappings_of_others_show() {
        let chunk = Chunk::create(c"test", 4, false).unwrap();
        assert_eq!(chunk.is_held(), Ok(false));
        let own = chunk.reopen().unwrap();
        assert_eq!(chunk.is_held(), Ok(true));
        let copy = own.try_clone().unwrap();
        drop(own);
        assert_eq!(chunk.is_held(), Ok(true));
        let mapped = map(&copy);
        drop(copy);
        assert_eq!(chunk.is_held(), Ok(true));
        // SAFETY: this test's own mapping.
        unsafe { rustix::mm::munmap(mapped, PAGE_SIZE) }.unwrap();
        assert_eq!(chunk.is_held(), Ok(false));
    }

    #[test]
    fn others_change_neither_size_nor_seals() {
        let chunk = Chunk::create(c"test", 2, false).unwrap();
        let theirs = chunk.reopen().unwrap();
        assert_eq!(rustix::fs::ftruncate(&theirs, 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&theirs, 1 << 20), Err(Errno::PERM));
        assert_eq!(rustix::fs::fcntl_add_seals(&theirs, SealFlags::WRITE), Err(Errno::PERM));
        rustix::io::pwrite(&theirs, &[7; 9], 4096).unwrap();
        assert_eq!(chunk.resident(), Ok(1));
        chunk.punch().unwrap();
        assert_eq!(chunk.resident(), Ok(0));
    }
}
