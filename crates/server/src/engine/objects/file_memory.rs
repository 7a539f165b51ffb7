//! The memory of files' objects, and what `/proc/PID/maps` calls it.

use crate::engine::Engine;
use freehold_core::units::PageCount;
use freehold_linux::Errno;
use freehold_linux::memory::{PagedMemfd, PagedMemfdError, Tmpfs};
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

/// Makes the memory of files' objects.
#[derive(Debug)]
pub(super) struct FileMemory {
    /// Where it has the files' paths, or why it has none.
    tmpfs: Result<Arc<Tmpfs>, Errno>,
}

impl FileMemory {
    /// Finds out whether it can have paths.
    pub(super) fn new() -> Self {
        Self { tmpfs: Tmpfs::mount() }
    }

    /// Absent pages for the file that is called so where the server runs. Tools find the file by the path that the
    /// pages have, where they can have it; else they have a name with the last part of it.
    ///
    /// # Errors
    /// See [`PagedMemfdError`].
    pub(super) fn create(&self, path: &str, pages: PageCount) -> Result<PagedMemfd, PagedMemfdError> {
        let pages = pages.get() as usize;
        let with_path = self
            .tmpfs
            .as_ref()
            .ok()
            .and_then(|tmpfs| PagedMemfd::create_at(tmpfs, Path::new(path), pages).ok());
        match with_path {
            Some(memory) => Ok(memory),
            None => PagedMemfd::create(&name(path), pages, true),
        }
    }
}

impl Engine {
    /// Why tools do not find the text of libraries by its path, in words.
    pub(crate) fn without_paths(&self) -> Option<String> {
        let errno = self.objects.file_memory.tmpfs.as_ref().err()?;
        Some(format!(
            "profilers find no symbols of clients, whose managed text has no path in /proc/PID/maps ({errno}): start \
             the server with CAP_SYS_ADMIN"
        ))
    }
}

/// The last part of a path, without what would not look like a part of a path.
fn name(path: &str) -> CString {
    const MOST: usize = 128;
    let last = path.rsplit('/').next().unwrap_or_default();
    let shown = last.chars().filter(char::is_ascii_graphic).take(MOST);
    CString::new(format!("freehold-file:{}", shown.collect::<String>())).unwrap_or_default()
}
