//! Reading a file past the kernel's page cache.
//!
//! Long reads go around the page cache (`O_DIRECT`) where the file system can: nothing is copied, and the device is
//! asked for all at once. Others, in this order: a read that drops what it brought in (`RWF_DONTCACHE`, 6.14), one
//! around the page cache, one followed by advice to drop what it brought in. What a file system does not know is not
//! asked twice.

use freehold_linux::uncached_read::{DONT_CACHE, takes_dropping_reads};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Advice, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

const DROPPING: u8 = 0;
const DIRECT: u8 = 1;
const ADVISED: u8 = 2;

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Bytes that were read: fewer than wanted at the end of the file, or where `behind` says why.
    pub(crate) bytes: usize,
    /// The error that the next byte is behind. To its reader this is no end of the file.
    pub(crate) behind: Option<Errno>,
}

/// A file open for reading.
#[derive(Debug)]
pub(crate) struct Reader {
    file: OwnedFd,
    way: AtomicU8,
    direct: Option<OwnedFd>,
    /// It takes long reads around the page cache.
    goes_around: AtomicBool,
}

/// Bytes from which on a read is long.
const LONG: usize = 64 << 10;

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Reader {
    /// A reader of an open file. `again` opens it once more, with these flags beside.
    pub(crate) fn new(file: OwnedFd, again: impl FnOnce(OFlags) -> Result<OwnedFd, Errno>) -> Self {
        let way = if takes_dropping_reads(&file) { DROPPING } else { DIRECT };
        // Opened now: later it could break a lease.
        let direct = again(OFlags::DIRECT).ok();
        let way = if way == DIRECT && direct.is_none() {
            ADVISED
        } else {
            way
        };
        Self {
            file,
            way: AtomicU8::new(way),
            goes_around: AtomicBool::new(direct.is_some()),
            direct,
        }
    }

    /// Reads whole pages from `offset` on, a multiple of a page, into pieces of memory that are whole pages: the bytes
    /// that there were.
    pub(crate) fn read_pages(&self, mut to: &mut [IoSliceMut<'_>], offset: u64) -> Result<Found, Errno> {
        let way = self.way.load(Ordering::Relaxed);
        let length: usize = to.iter().map(|piece| piece.len()).sum();
        let wanted = way == DIRECT || (way == DROPPING && length >= LONG);
        match &self.direct {
            Some(file) if wanted && self.goes_around.load(Ordering::Relaxed) => {
                let found = read_all(file.as_fd(), &mut to, offset, ReadWriteFlags::empty());
                let done = match found {
                    Err(Errno::INVAL) => 0,
                    // Behind an end that is no multiple of a block, some file systems refuse to look.
                    Ok(found) if found.behind == Some(Errno::INVAL) => found.bytes,
                    outcome => return outcome,
                };
                if done == 0 {
                    self.goes_around.store(false, Ordering::Relaxed);
                }
                let rest = self.read_pieces(to, offset + done as u64)?;
                Ok(Found {
                    bytes: done + rest.bytes,
                    behind: rest.behind,
                })
            }
            _ => self.read_pieces(to, offset),
        }
    }

    /// Reads from `offset` on: the bytes that there were.
    pub(crate) fn read(&self, to: &mut [u8], offset: u64) -> Result<Found, Errno> {
        self.read_pieces(&mut [IoSliceMut::new(to)], offset)
    }

    fn read_pieces(&self, mut to: &mut [IoSliceMut<'_>], offset: u64) -> Result<Found, Errno> {
        let dropping = self.way.load(Ordering::Relaxed) == DROPPING;
        let flags = if dropping { DONT_CACHE } else { ReadWriteFlags::empty() };
        let found = read_all(self.file.as_fd(), &mut to, offset, flags)?;
        if !dropping && let Some(length) = NonZeroU64::new(found.bytes as u64) {
            // Advice: where it is not taken, pages stay until the kernel wants them.
            let _ = rustix::fs::fadvise(&self.file, offset, Some(length), Advice::DontNeed);
        }
        Ok(found)
    }

    /// Bytes of the file now.
    pub(crate) fn size(&self) -> Result<u64, Errno> {
        rustix::fs::seek(&self.file, SeekFrom::End(0))
    }
}

/// What is left of `to` is what was not read.
fn read_all(
    file: BorrowedFd<'_>,
    to: &mut &mut [IoSliceMut<'_>],
    offset: u64,
    flags: ReadWriteFlags,
) -> Result<Found, Errno> {
    let mut bytes = 0;
    let mut behind = None;
    // Empty pieces are none.
    IoSliceMut::advance_slices(to, 0);
    while !to.is_empty() {
        match rustix::io::preadv2(file, to, offset + bytes as u64, flags) {
            Ok(0) => break,
            Ok(read) => {
                bytes += read;
                IoSliceMut::advance_slices(to, read);
            }
            Err(Errno::INTR) => {}
            Err(error) if bytes == 0 => return Err(error),
            Err(error) => {
                behind = Some(error);
                break;
            }
        }
    }
    Ok(Found { bytes, behind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::PAGE;
    use freehold_linux::memory::{Slab, slab_pieces};
    use std::fs::File;

    fn reads_the_same(way: u8) {
        let path = std::env::temp_dir().join(format!("freehold-reader-{way}-{}", std::process::id()));
        let bytes: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&path, &bytes).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let again = |flags| rustix::fs::open(&path, OFlags::RDONLY | flags, rustix::fs::Mode::empty());
        let mut reader = Reader::new(File::open(&path).unwrap().into(), again);
        if way != DROPPING {
            reader.way = AtomicU8::new(way);
            reader.direct = again(OFlags::DIRECT).ok();
        }
        judge(&reader, &bytes);
        std::fs::remove_file(path).unwrap();
    }

    /// Into one piece, and into pieces that lie here and there.
    fn judge(reader: &Reader, bytes: &[u8]) {
        let whole = |bytes| Ok(Found { bytes, behind: None });
        assert_eq!(reader.size(), Ok(80_000));
        let slab = Slab::create(40).unwrap();
        for gaps in [0, 7] {
            let mut to = slab.take(21 + gaps).unwrap();
            (0..gaps).for_each(|gap| drop(to.remove(gap * 2 + 1)));
            assert_eq!(slab_pieces(&mut to).len(), gaps + 1);
            assert_eq!(reader.read_pages(&mut slab_pieces(&mut to), 0), whole(80_000));
            assert!(to.iter().flat_map(|page| page.iter()).take(80_000).eq(bytes));
            let last = reader.read_pages(&mut slab_pieces(&mut to[..1]), 19 * 4096);
            assert_eq!(last, whole(80_000 - 19 * PAGE));
        }
        let mut to = [0; 10];
        assert_eq!(reader.read(&mut to, 79_995), whole(5));
        assert_eq!(to[..5], bytes[79_995..]);
    }

    #[test]
    fn every_way_reads_the_same() {
        for way in [DROPPING, DIRECT, ADVISED] {
            reads_the_same(way);
        }
    }
}
