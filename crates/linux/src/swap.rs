//! Swap files of the kernel's own, for comparing with it.

use crate::{Errno, PAGE_SIZE, sys};
use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Why there is no swap file.
#[derive(Debug, thiserror::Error)]
pub enum SwapError {
    /// The caller's mistake: fewer pages than a header and one more, or more than a header can say.
    #[error("a swap file of {0} pages is not possible")]
    Size(usize),
    /// The file cannot be made or written.
    #[error("the swap file could not be made: {0}")]
    File(#[from] io::Error),
    /// The right is missing.
    #[error("swap files need CAP_SYS_ADMIN")]
    NotPermitted,
    /// The file system takes no swap files, as tmpfs and some overlays.
    #[error("the file system of {} takes no swap files: name a directory on a disk with TMPDIR", .0.display())]
    Unsuitable(PathBuf),
    /// Some other refusal.
    #[error("the swap file could not be used: {0}")]
    System(Errno),
}

/// A swap file in use, of the whole system: other processes' pages may go there too. Dropping it ends its use, which
/// reads all of them back, and removes the file.
#[derive(Debug)]
pub struct SwapFile {
    path: PathBuf,
    name: CString,
    in_use: bool,
}

impl SwapFile {
    /// Makes a file of `pages` pages at `path`, where there is none, and swaps to it.
    ///
    /// # Errors
    /// See [`SwapError`]; nothing is left behind.
    pub fn create(path: &Path, pages: usize) -> Result<Self, SwapError> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| SwapError::File(error.into()))?;
        let header = header(pages).ok_or(SwapError::Size(pages))?;
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        // From here on dropping it cleans up.
        let mut swap = Self {
            path: path.to_owned(),
            name,
            in_use: false,
        };
        file.write_all(&header)?;
        // Written in full: a swap file has no holes.
        let zeros = [0; PAGE_SIZE];
        (1..pages).try_for_each(|_| file.write_all(&zeros))?;
        file.sync_all()?;
        begin_use(&swap.name, false).map_err(|errno| match errno {
            Errno::PERM => SwapError::NotPermitted,
            Errno::INVAL => SwapError::Unsuitable(path.to_owned()),
            other => SwapError::System(other),
        })?;
        swap.in_use = true;
        Ok(swap)
    }
}

/// Has the system swap to a file or device, `first` before all others.
pub(crate) fn begin_use(name: &CStr, first: bool) -> Result<(), Errno> {
    /// `SWAP_FLAG_PREFER`, and the highest priority.
    const BEFORE_ALL: libc::c_int = 0x8000 | 0x7fff;
    let flags = if first { BEFORE_ALL } else { 0 };
    // SAFETY: the name is a live C string; the call reads nothing else of this process.
    sys::check_int(unsafe { libc::swapon(name.as_ptr(), flags) }).map(drop)
}

/// Ends the use of a swap file that is not this process's own, which reads all of its pages back. One that is not in
/// use is as well.
///
/// # Errors
/// The kernel's refusal: the right is missing, or there is no room for the pages.
pub fn end_use(file: &CStr) -> Result<(), Errno> {
    // SAFETY: as for `swapon`.
    match sys::check_int(unsafe { libc::swapoff(file.as_ptr()) }) {
        Ok(_) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        if self.in_use {
            // SAFETY: as for `swapon`.
            let ended = sys::check_int(unsafe { libc::swapoff(self.name.as_ptr()) });
            if let Err(errno) = ended {
                // The file must stay then: the kernel still uses it.
                let _ = writeln!(
                    io::stderr(),
                    "freehold: swap file {} is still in use ({errno}): run swapoff, then remove it",
                    self.path.display()
                );
                return;
            }
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The first page, as mkswap writes it: version 1, the number of the last page, no bad pages, and the signature.
pub(crate) fn header(pages: usize) -> Option<[u8; PAGE_SIZE]> {
    const INFO: usize = 1024;
    const SIGNATURE: &[u8] = b"SWAPSPACE2";
    let last = u32::try_from(pages).ok()?.checked_sub(1).filter(|last| *last > 0)?;
    let mut page = [0; PAGE_SIZE];
    page[INFO..INFO + 4].copy_from_slice(&1_u32.to_ne_bytes());
    page[INFO + 4..INFO + 8].copy_from_slice(&last.to_ne_bytes());
    page[PAGE_SIZE - SIGNATURE.len()..].copy_from_slice(SIGNATURE);
    Some(page)
}

#[cfg(test)]
mod tests {
    use super::{SwapError, SwapFile, header};

    #[test]
    fn a_header_says_how_long_the_file_is() {
        let page = header(256).unwrap();
        assert_eq!(page[1028..1032], 255_u32.to_ne_bytes());
        assert_eq!(&page[4086..], b"SWAPSPACE2");
        assert!(header(0).is_none() && header(1).is_none());
    }

    #[test]
    fn an_existing_file_is_left_alone() {
        let path = std::env::temp_dir().join(format!("freehold-swap-test-{}", std::process::id()));
        std::fs::write(&path, "mine").unwrap();
        assert!(matches!(SwapFile::create(&path, 16), Err(SwapError::File(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        std::fs::remove_file(&path).unwrap();
    }
}
