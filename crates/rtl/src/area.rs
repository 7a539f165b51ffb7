//! Memory that several processes map: a memfd that cannot shrink, so that nobody can take pages away from under a
//! real-time thread.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::NonNull;

/// One mapping of shared memory, held by a descriptor of its own. Every page is present and locked, as far as the
/// process may lock memory.
#[derive(Debug)]
pub struct Area {
    start: NonNull<u8>,
    bytes: usize,
    descriptor: OwnedFd,
}

// SAFETY: the mapping belongs to the process, not to a thread; what is in it is reached through atomics or as bytes
// that others may change at any time.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// New memory of zeros; `name` is what `/proc` shows.
    ///
    /// # Errors
    /// The kernel's refusal: no memory, or no descriptors.
    pub fn create(name: &CStr, bytes: usize) -> io::Result<Self> {
        // SAFETY: the name is a string that ends; the descriptor is new and owned by nobody else.
        let descriptor = unsafe {
            let raw = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            if raw < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(raw)
        };
        let file = File::from(descriptor);
        file.set_len(u64::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: the descriptor is open; adding seals touches no memory.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Self::map(file, bytes)
    }

    /// Memory that somebody published at `path`. Only what can never shrink is taken.
    ///
    /// # Errors
    /// Nothing is there any more, or it is not such memory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        // SAFETY: the descriptor is open; reading seals touches no memory.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not memory that was shared"));
        }
        let bytes = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::InvalidData)?;
        Self::map(file, bytes)
    }

    fn map(file: File, bytes: usize) -> io::Result<Self> {
        if bytes == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at a place of the kernel's choice, of a file as long as it.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_raw_fd(), 0) };
        let start = NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED);
        let start = start.ok_or_else(io::Error::last_os_error)?;
        // A process that locks all it has, locks this too; others only ask for it.
        // SAFETY: the range was mapped just now.
        let _ = unsafe { libc::mlock(start.as_ptr().cast(), bytes) };
        Ok(Self {
            start,
            bytes,
            descriptor: file.into(),
        })
    }

    /// The first byte. The mapping lives as long as this.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes are mapped.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The descriptor that holds the memory.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Copies `from` to the bytes from `at` on; None where they do not fit, and nothing is copied. Others may read and
    /// write there meanwhile: then it is mixed.
    #[inline]
    pub fn copy_in(&self, at: usize, from: &[u8]) -> Option<()> {
        let end = at.checked_add(from.len())?;
        if end > self.bytes {
            return None;
        }
        // SAFETY: inside the mapping, which does not overlap `from`, memory of this process. What others do there
        // meanwhile changes bytes, and any bytes are valid.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.start.as_ptr().add(at), from.len()) };
        Some(())
    }

    /// What lies at `offset`; None where it does not fit. `T` may consist of atomics only: others write there.
    #[must_use]
    pub(crate) fn at<T: Shared>(&self, offset: usize) -> Option<&T> {
        let end = offset.checked_add(size_of::<T>())?;
        if end > self.bytes || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: in the mapping, aligned (mappings begin at pages), and any bytes are a value of a `Shared` type.
        Some(unsafe { self.start.add(offset).cast().as_ref() })
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and references into it cannot outlive this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A type made of atomics and nothing else: any bytes are a value of it, and others may change it.
///
/// # Safety
/// The type is `repr(C)` and has atomics, and arrays and structures of atomics, only.
pub(crate) unsafe trait Shared {}
