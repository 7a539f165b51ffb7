//! A memory object that one process fills and empties for others, through a locked mapping of its own.

use crate::memory::locked::{locked_file, sealed_locked_memfd};
use crate::memory::racing::{copy_in, copy_out};
use crate::memory::{
    Filler, LockedError, Memfd, MemfdError, Residency, ResidencyError, ServeError, SharedMapping, Tmpfs,
};
use crate::sys::check;
use crate::{Errno, PAGE_SIZE, PageRange};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::ReadWriteFlags;
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

/// A backed object could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagedMemfdError {
    /// The object, or its locked mapping.
    #[error(transparent)]
    Memory(#[from] LockedError),
    /// Its registration with a [`Filler`].
    #[error(transparent)]
    Filler(#[from] ServeError),
}

/// A memory object and this process's locked mapping of it, the *alias*: pages are filled, copied out and dropped
/// through it. Others map the object by its descriptor and cannot change its size: it is sealed, or, where it has a
/// path, what they get is open for reading only.
///
/// What is copied in or out may be written by others at the same time, whose business it is then: nothing here makes a
/// reference into the memory, or reads it but by such copies.
#[derive(Debug)]
pub struct PagedMemfd {
    alias: SharedMapping,
    memfd: Memfd,
    filler: Option<Filler>,
}

impl PagedMemfd {
    /// An object of `pages` absent pages. `executable` where others may map it for execution, as text of a library.
    ///
    /// # Errors
    /// See [`PagedMemfdError`].
    pub fn create(name: &CStr, pages: usize, executable: bool) -> Result<Self, PagedMemfdError> {
        let (alias, memfd) = sealed_locked_memfd(name, pages, executable)?;
        Ok(Self::of((alias, memfd)))
    }

    /// An object of `pages` absent pages for a file's content, with the file's path in `/proc/PID/maps`. Others may map
    /// it for execution.
    ///
    /// # Errors
    /// See [`PagedMemfdError`]: `INVAL`, `ISDIR`, `NOTDIR` where no file can have the path, or not beside those that
    /// are there.
    pub fn create_at(tmpfs: &Arc<Tmpfs>, path: &Path, pages: usize) -> Result<Self, PagedMemfdError> {
        Ok(Self::of(locked_file(tmpfs, path, pages)?))
    }

    fn of((alias, memfd): (SharedMapping, Memfd)) -> Self {
        Self {
            alias,
            memfd,
            filler: None,
        }
    }

    /// Has [`fill`](Self::fill) bring pages through `filler` from now on.
    ///
    /// # Errors
    /// [`PagedMemfdError::Filler`]; the object is as it was.
    pub fn fill_through(&mut self, filler: &Filler) -> Result<(), PagedMemfdError> {
        filler.register(&self.alias)?;
        self.filler = Some(filler.clone());
        Ok(())
    }

    /// Its length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.memfd.pages()
    }

    /// The alias.
    #[must_use]
    pub fn alias(&self) -> &SharedMapping {
        &self.alias
    }

    /// Gives the absent pages of `range` locked frames of zeros.
    ///
    /// # Errors
    /// As [`SharedMapping::populate`].
    pub fn populate(&self, range: PageRange) -> Result<(), Errno> {
        self.alias.populate(range)
    }

    /// Copies a page in that is believed to be in no frame, which is faster than [`write`](Self::write) then; where it
    /// is in one, it is written all the same.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn fill(&self, page: usize, content: &[u8; PAGE_SIZE]) -> Result<(), Errno> {
        let filled = self
            .filler
            .as_ref()
            .map(|filler| filler.fill(&self.alias, page, content));
        match filled {
            Some(Ok(())) => Ok(()),
            Some(Err(Errno::NOMEM)) => Err(Errno::NOMEM),
            _ => self.write(page, content),
        }
    }

    /// Copies a page in; it gets a frame if it has none.
    ///
    /// # Errors
    /// `INVAL` if there is no such page; as [`SharedMapping::populate`].
    pub fn write(&self, page: usize, content: &[u8; PAGE_SIZE]) -> Result<(), Errno> {
        let start = self.alias.page(page).ok_or(Errno::INVAL)?;
        self.alias.populate(PageRange::single(page))?;
        // SAFETY: the page is mapped writable as long as `self` lives and has a frame; `content` is no part of the
        // mapping, into which no reference is ever made.
        unsafe { copy_in(content, start) };
        Ok(())
    }

    /// Reads a part of a file into `range`, whose pages get frames if they have none, as far as the page cache has it
    /// one after the other (preadv2(2), `RWF_NOWAIT` and `flags`): how many bytes. What lies behind them is undefined.
    ///
    /// # Errors
    /// `INVAL` if the range is empty or there is no such page; `AGAIN` if the page cache has nothing of it; the file
    /// system's.
    pub fn read_cached(
        &self,
        range: PageRange,
        file: impl AsFd,
        offset: u64,
        flags: ReadWriteFlags,
    ) -> Result<usize, Errno> {
        let start = self.alias.page(range.first()).ok_or(Errno::INVAL)?;
        if range.count() == 0 || !range.fits(self.pages()) {
            return Err(Errno::INVAL);
        }
        let part = libc::iovec {
            iov_base: start.cast(),
            iov_len: range.count() * PAGE_SIZE,
        };
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::INVAL)?;
        let file = file.as_fd().as_raw_fd();
        let flags = libc::RWF_NOWAIT | flags.bits().cast_signed();
        // SAFETY: the range is mapped writable as long as `self` lives, and no reference into it is ever made; the
        // kernel reads the one part that is there.
        check(unsafe { libc::preadv2(file, &raw const part, 1, offset, flags) } as libc::c_long)
    }

    /// Copies a page out. An absent page gets a frame by it: ask only for those that are there.
    ///
    /// # Errors
    /// `INVAL` if there is no such page; as [`SharedMapping::populate`].
    pub fn read(&self, page: usize, content: &mut [u8; PAGE_SIZE]) -> Result<(), Errno> {
        self.alias.populate(PageRange::single(page))?;
        self.read_populated(page, content)
    }

    /// As [`read`](Self::read), of a page that [`populate`](Self::populate) has just brought: for many at once.
    ///
    /// # Errors
    /// `INVAL` if there is no such page.
    pub fn read_populated(&self, page: usize, content: &mut [u8; PAGE_SIZE]) -> Result<(), Errno> {
        let start = self.alias.page(page).ok_or(Errno::INVAL)?;
        // SAFETY: as in `write`, in the other direction.
        unsafe { copy_out(start, content) };
        Ok(())
    }

    /// Gives back the frames of `range`, for every mapper.
    ///
    /// # Errors
    /// As [`Memfd::punch_hole`].
    pub fn punch(&self, range: PageRange) -> Result<(), Errno> {
        self.memfd.punch_hole(range)
    }

    /// Counts its pages in frames, as the kernel sees it.
    ///
    /// # Errors
    /// See [`ResidencyError`].
    pub fn resident(&self) -> Result<Residency, ResidencyError> {
        self.memfd.resident(self.alias.whole())
    }

    /// The same object once more, so that its pages can be counted by who does not hold this.
    ///
    /// # Errors
    /// As [`Memfd::adopt`].
    pub fn handle(&self) -> Result<Memfd, MemfdError> {
        let descriptor = self.descriptor().map_err(MemfdError::System)?;
        Memfd::adopt(descriptor, self.alias.pages())
    }

    /// A descriptor to read and write, for others.
    ///
    /// # Errors
    /// The kernel's refusal: too many open files.
    pub fn descriptor(&self) -> Result<OwnedFd, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.memfd, 0)
    }

    /// A descriptor that can only be read, for others. Other users than this process's cannot open it again for
    /// writing.
    ///
    /// # Errors
    /// The kernel's refusal: too many open files, or no `/proc`.
    pub fn read_only_descriptor(&self) -> Result<OwnedFd, Errno> {
        crate::memory::reopen_read_only(&self.memfd)
    }
}

impl AsFd for PagedMemfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Filler, PagedMemfd};
    use crate::{Errno, PAGE_SIZE, PageRange};
    use rustix::io::ReadWriteFlags;

    #[test]
    fn pages_come_and_go_through_the_alias_and_the_size_stays() {
        let object = PagedMemfd::create(c"backed", 3, true).unwrap();
        assert_eq!(object.resident().unwrap().pages, 0);
        object.write(1, &[5; PAGE_SIZE]).unwrap();
        object.populate(PageRange::single(2)).unwrap();
        let mut content = [1; PAGE_SIZE];
        object.read(1, &mut content).unwrap();
        assert_eq!(content, [5; PAGE_SIZE]);
        object.read(2, &mut content).unwrap();
        assert_eq!(content, [0; PAGE_SIZE]);
        assert_eq!(object.resident().unwrap().pages, 2);
        object.punch(PageRange::new(0, 3)).unwrap();
        assert_eq!(object.resident().unwrap().pages, 0);
        assert!(object.write(3, &[0; PAGE_SIZE]).is_err());
        let other = object.descriptor().unwrap();
        assert!(rustix::fs::ftruncate(&other, 0).is_err());
    }

    #[test]
    fn pages_are_filled_locked_whether_they_were_absent_or_not() {
        let mut object = PagedMemfd::create(c"backed", 20, false).unwrap();
        fill_and_look(&object);
        object.punch(PageRange::new(0, 20)).unwrap();
        object.fill_through(&Filler::new().unwrap()).unwrap();
        fill_and_look(&object);
    }

    fn fill_and_look(object: &PagedMemfd) {
        object.fill(3, &[3; PAGE_SIZE]).unwrap();
        assert_eq!(object.resident().unwrap().pages, 1);
        // It has a frame, of this mapping and of another's making.
        object.fill(3, &[4; PAGE_SIZE]).unwrap();
        let other = object.descriptor().unwrap();
        rustix::io::pwrite(&other, &[9; PAGE_SIZE], 5 * PAGE_SIZE as u64).unwrap();
        object.fill(5, &[5; PAGE_SIZE]).unwrap();
        // It is gone, and comes again.
        object.punch(PageRange::single(3)).unwrap();
        object.fill(3, &[6; PAGE_SIZE]).unwrap();
        // Absent pages that nobody fills come as ever.
        object.populate(PageRange::single(7)).unwrap();
        let mut content = [1; PAGE_SIZE];
        for (page, byte) in [(3, 6), (5, 5), (7, 0), (8, 0)] {
            object.read(page, &mut content).unwrap();
            assert_eq!(content, [byte; PAGE_SIZE], "page {page}");
        }
        assert_eq!(object.fill(20, &[0; PAGE_SIZE]), Err(Errno::INVAL));
        assert_eq!(locked_kib(object.alias().base().addr()), Some(16));
    }

    /// How much of the mapping that begins there is locked.
    fn locked_kib(start: usize) -> Option<u64> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mapping = maps.split_once(&format!("{start:x}-"))?.1;
        let line = mapping.lines().find_map(|line| line.strip_prefix("Locked:"))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    }

    #[test]
    fn pages_of_a_file_come_as_far_as_it_goes() {
        let object = PagedMemfd::create(c"backed", 4, true).unwrap();
        let path = std::env::temp_dir().join(format!("freehold-backed-{}", std::process::id()));
        std::fs::write(&path, [[7; PAGE_SIZE], [8; PAGE_SIZE]].concat()).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let read = |first, count, offset| {
            object.read_cached(PageRange::new(first, count), &file, offset, ReadWriteFlags::empty())
        };
        if read(1, 3, 0) == Err(Errno::OPNOTSUPP) {
            return println!(
                "not tested: the file system of the temporary directory cannot say what is in the page cache"
            );
        }
        assert_eq!(read(1, 3, 0), Ok(2 * PAGE_SIZE));
        let mut content = [1; PAGE_SIZE];
        for (page, byte) in [(1, 7), (2, 8), (3, 0)] {
            object.read(page, &mut content).unwrap();
            assert_eq!(content, [byte; PAGE_SIZE], "page {page}");
        }
        assert_eq!(read(0, 1, 2 * PAGE_SIZE as u64), Ok(0));
        assert!(read(0, 0, 0).is_err() && read(3, 2, 0).is_err() && read(4, 1, 0).is_err());
        assert!(read(0, 1, u64::MAX).is_err());
    }

    #[test]
    fn a_read_only_descriptor_cannot_write() {
        let object = PagedMemfd::create(c"backed", 1, false).unwrap();
        let reader = object.read_only_descriptor().unwrap();
        assert!(rustix::io::pwrite(&reader, b"x", 0).is_err());
        assert_eq!(rustix::io::pread(&reader, &mut [0; 1], 0).unwrap(), 1);
    }
}
