//! Documents: bytes in a memory object that nobody can change any more, to be passed to another process.

use crate::Errno;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, SealFlags};
use std::ffi::CStr;

/// What makes a document: it neither changes nor shrinks under its reader.
const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::WRITE)
    .union(SealFlags::SEAL);

/// A document could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The sender's fault: it could still change, or is no memory object.
    #[error("the descriptor is not a sealed memory object")]
    Unsealed,
    /// The sender's fault: it is not as long as was said, or longer than the reader takes.
    #[error("the document's length is wrong")]
    Length,
    /// The kernel's refusal.
    #[error("the document could not be read: {0}")]
    System(Errno),
}

/// Makes a sealed memory object that holds `bytes`. Closed on exec.
///
/// # Errors
/// The kernel's refusal: too many open files, no memory.
pub fn seal_document(name: &CStr, bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::fchmod(&fd, Mode::RUSR)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&fd, rest))?;
        rest = rest.get(written..).unwrap_or_default();
    }
    rustix::fs::fcntl_add_seals(&fd, SEALS)?;
    Ok(fd)
}

/// Whether `fd` is a memory object with a document's seals.
#[must_use]
pub fn is_sealed(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SEALS))
}

/// Reads the document in `fd`, which must be sealed and `length` bytes long; at most `most` bytes are taken.
///
/// # Errors
/// See [`DocumentError`].
pub fn read_document(fd: impl AsFd, length: u64, most: usize) -> Result<Vec<u8>, DocumentError> {
    if !is_sealed(&fd) {
        return Err(DocumentError::Unsealed);
    }
    let size = rustix::fs::fstat(&fd).map_err(DocumentError::System)?.st_size;
    let wanted = usize::try_from(length).map_err(|_| DocumentError::Length)?;
    if u64::try_from(size) != Ok(length) || wanted > most {
        return Err(DocumentError::Length);
    }
    let mut bytes = vec![0; wanted];
    let mut done = 0;
    while done < wanted {
        let place = bytes.get_mut(done..).ok_or(DocumentError::Length)?;
        let read = || rustix::io::pread(&fd, &mut *place, done as u64);
        match retry(read).map_err(DocumentError::System)? {
            0 => return Err(DocumentError::Length),
            count => done += count,
        }
    }
    Ok(bytes)
}

fn retry(mut call: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_reads_back_and_does_not_change() {
        let text = vec![b'x'; 100_000];
        let fd = seal_document(c"test", &text).unwrap();
        assert_eq!(read_document(&fd, 100_000, 1 << 20).unwrap(), text);
        assert!(rustix::io::write(&fd, b"y").is_err());
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        assert_eq!(read_document(&fd, 99_999, 1 << 20), Err(DocumentError::Length));
        assert_eq!(read_document(&fd, 100_000, 10), Err(DocumentError::Length));
    }

    #[test]
    fn what_may_still_change_is_no_document() {
        let fd = rustix::fs::memfd_create(c"test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        assert_eq!(read_document(&fd, 0, 10), Err(DocumentError::Unsealed));
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        assert_eq!(read_document(&pipe, 0, 10), Err(DocumentError::Unsealed));
    }
}
