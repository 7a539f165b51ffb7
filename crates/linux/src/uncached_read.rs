//! Reads of files that leave nothing behind in the kernel's page cache.

use crate::Errno;
use rustix::fd::AsFd;
use rustix::fs::{Advice, fadvise, fstatfs};
use rustix::io::{ReadWriteFlags, preadv2};
use std::io::IoSliceMut;
use std::num::NonZeroU64;

/// `RWF_DONTCACHE` (6.14): what the read brings in is dropped when it has been copied.
pub const DONT_CACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// File systems on disks, as statfs(2) numbers them: ext2 to ext4, XFS, Btrfs, F2FS.
const ON_DISKS: [i64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];

/// How a file is read past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncached {
    /// By reads that drop what they brought in.
    Dropping,
    /// By plain reads, each followed by advice to drop what it brought in.
    Advised,
}

impl Uncached {
    /// How this file is; `None` where its file system is not one on disks. There a read costs no transfer that a cache
    /// would save, or the kernel notes no change time of what is written through a mapping.
    #[must_use]
    pub fn of(file: impl AsFd) -> Option<Self> {
        let kind = fstatfs(&file).ok()?.f_type;
        let way = if takes_dropping_reads(&file) {
            Self::Dropping
        } else {
            Self::Advised
        };
        ON_DISKS.contains(&kind).then_some(way)
    }

    /// Flags of its reads.
    #[must_use]
    pub fn flags(self) -> ReadWriteFlags {
        match self {
            Self::Dropping => DONT_CACHE,
            Self::Advised => ReadWriteFlags::empty(),
        }
    }

    /// Reads from `offset` on until `to` is full or the file ends: how many bytes. A file that is read so at random is
    /// best advised so once.
    ///
    /// # Errors
    /// The file system's; how much of `to` was read then is not told.
    pub fn read(self, file: impl AsFd, to: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let mut done = 0;
        while done < to.len() {
            let mut parts = [IoSliceMut::new(to.get_mut(done..).unwrap_or_default())];
            match preadv2(&file, &mut parts, offset + done as u64, self.flags()) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        if let (Self::Advised, Some(length)) = (self, NonZeroU64::new(done as u64)) {
            // Advice: where it is not taken, pages stay until the kernel wants them.
            let _ = fadvise(&file, offset, Some(length), Advice::DontNeed);
        }
        Ok(done)
    }
}

/// Whether the file system of a file knows reads that drop. Behind the largest end of a file there is nothing to be
/// read.
#[must_use]
pub fn takes_dropping_reads(file: impl AsFd) -> bool {
    let mut byte = [0];
    let nowhere = i64::MAX.cast_unsigned() - crate::PAGE_SIZE as u64;
    preadv2(file, &mut [IoSliceMut::new(&mut byte)], nowhere, DONT_CACHE) == Ok(0)
}

#[cfg(test)]
mod tests {
    use super::Uncached;
    use crate::PAGE_SIZE;
    use crate::cached::cached_pages;
    use rustix::fs::{Advice, MemfdFlags, fadvise, memfd_create};
    use std::fs::File;

    #[test]
    fn what_is_read_so_does_not_stay() {
        let path = std::env::temp_dir().join(format!("freehold-uncached-{}", std::process::id()));
        let bytes: Vec<u8> = (0..5_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::Random).unwrap();
        let Some(way) = Uncached::of(&file) else {
            return println!("not tested: the temporary directory is not on a disk");
        };
        for way in [way, Uncached::Advised] {
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            let mut to = [0; PAGE_SIZE];
            assert_eq!(way.read(&file, &mut to, 4096), Ok(PAGE_SIZE));
            assert_eq!(to, bytes[4096..8192]);
            assert_eq!(way.read(&file, &mut to, 4 * 4096), Ok(20_000 - 4 * 4096));
            assert_eq!(cached_pages(&file, 0, 0), Ok(0), "{way:?}");
        }
    }

    #[test]
    fn memory_is_not_read_past_a_cache() {
        let memory = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(Uncached::of(&memory), None);
    }
}
