//! Writes to files that are mapped too.
//!
//! write(2) goes past the kernel's pages. A page that a mapping was given may be older than what is being written, in
//! three ways: it is read later, as it was; a store to another part of it has it written back, over what was written;
//! or that is on its way already. So where the kernel may have pages of a file, a write goes so:
//!
//! 1. Its bytes are noted. Pages that are written back leave them out from here on: a store to the same bytes that
//!    nobody has ordered after the write came before it.
//! 2. The file gets them. Pages that the kernel asks for from here on have them.
//! 3. They are stored in the kernel's pages. Those that the kernel was given before have them too.
//! 4. The kernel drops the pages, and so waits for those that are on their way back: they were copied before step 3.
//! 5. They are noted no more, and the program is answered.
//!
//! Bytes that fallocate(2) makes zeros of are written so, too.
//!
//! A page that the kernel cannot drop, because a thread is about to use it, is right as it is after step 3.

use crate::content::OpenFile;
use crate::files::Files;
use crate::inode::Inode;
use crate::opening::put;
use crate::own::PAGE;
use fuser::INodeNo;
use rustix::fd::OwnedFd;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// How often a write waits for frames for the pages that it stores, and how long each time. After that they are beside
/// the page cache for the moment until they are dropped.
const WAITS: usize = 100;
const WAIT: Duration = Duration::from_millis(1);

/// What fallocate(2) is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) mode: i32,
}

impl Allocation {
    /// Whether it makes zeros of bytes, and the kernel may have pages of the file.
    pub(crate) fn is_mixed(&self, file: &OpenFile) -> bool {
        let zeros = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        self.flags().intersects(zeros) && file.inode.content.mixed.is_filled()
    }

    pub(crate) fn carry_out(&self, writer: &OwnedFd) -> Result<(), Errno> {
        rustix::fs::fallocate(writer, self.flags(), self.offset, self.length)
    }

    fn flags(&self) -> FallocateFlags {
        FallocateFlags::from_bits_retain(self.mode.cast_unsigned())
    }

    /// What of its first and of its last page are to be zeros, where that is not the whole page: where, and how much.
    fn edges(&self) -> Vec<(u64, usize)> {
        let (page, start, end) = (PAGE as u64, self.offset, self.offset.saturating_add(self.length));
        let first = start..end.min(start.next_multiple_of(page));
        let last = first.end.max(end / page * page)..end;
        let parts = [first, last].into_iter().filter(|part| part.start < part.end);
        parts
            .map(|part| (part.start, usize::try_from(part.end - part.start).unwrap_or(PAGE)))
            .collect()
    }
}

/// What is known of an inode's pages in the kernel, which may be older than the file.
#[derive(Debug, Default)]
pub(crate) struct Mixed {
    /// The kernel was given pages of it.
    filled: AtomicBool,
    /// Bytes that are being written. Held by those who write pages back until the file has them.
    noted: RwLock<Vec<Range<u64>>>,
}

/// A write that the kernel's pages are to know of.
#[derive(Debug)]
pub(crate) struct Mixing {
    file: Arc<OpenFile>,
    offset: u64,
    bytes: Vec<u8>,
    appended: bool,
    /// So many bytes were appended before a page was asked for.
    done: Option<usize>,
}

impl Mixed {
    /// The kernel is about to be given a page, which is read from the file after this.
    pub(crate) fn note_filled(&self) {
        if !self.filled.load(Ordering::Relaxed) {
            self.filled.store(true, Ordering::SeqCst);
        }
    }

    fn is_filled(&self) -> bool {
        self.filled.load(Ordering::SeqCst)
    }

    fn note(&self, bytes: Range<u64>) {
        self.noted.write().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }

    fn forget(&self, bytes: &Range<u64>) {
        let mut noted = self.noted.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = noted.iter().position(|other| other == bytes) {
            noted.swap_remove(place);
        }
    }
}

/// The parts of a range that are in none of the others, in order.
fn outside(others: &[Range<u64>], range: Range<u64>) -> Vec<Range<u64>> {
    let cut = |parts: Vec<Range<u64>>, other: &Range<u64>| {
        let halves = |part: Range<u64>| {
            let low = part.start..part.end.min(other.start);
            let high = part.start.max(other.end)..part.end;
            // One that the other does not meet is not to come twice.
            let meets = other.start < part.end && part.start < other.end;
            if meets { [low, high] } else { [part, 0..0] }
        };
        let parts = parts.into_iter().flat_map(halves);
        parts.filter(|part| part.start < part.end).collect()
    };
    others.iter().fold(vec![range], cut)
}

impl Files {
    /// Writes what a mapping has changed, where it is mapped.
    pub(crate) fn write_back(&self, file: &OpenFile, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let writer = file.writer.as_ref().ok_or(Errno::BADF)?;
        let noted = &file.inode.content.mixed.noted;
        let noted = noted.read().unwrap_or_else(PoisonError::into_inner);
        for part in outside(&noted, offset..offset.saturating_add(bytes.len() as u64)) {
            let place = |at: u64| usize::try_from(at - offset).unwrap_or(bytes.len());
            let mut rest = bytes.get(place(part.start)..place(part.end)).unwrap_or_default();
            // The kernel asks no more for what is left of a page: all of it, or the error.
            while !rest.is_empty() {
                let done = put(writer, part.end - rest.len() as u64, rest, ReadWriteFlags::empty())?;
                rest = rest.get(done..).filter(|_| done > 0).ok_or(Errno::IO)?;
            }
        }
        Ok(bytes.len())
    }

    /// The write, if the kernel's pages are to know of it. `done`: so many of its bytes are written.
    pub(crate) fn mixing(
        &self,
        file: &Arc<OpenFile>,
        (offset, bytes): (u64, &[u8]),
        appended: bool,
        done: Option<usize>,
    ) -> Option<Mixing> {
        file.inode.content.mixed.is_filled().then(|| Mixing {
            file: Arc::clone(file),
            offset,
            bytes: bytes.to_vec(),
            appended,
            // Bytes with a place are written once more: a page may have been written back over them.
            done: done.filter(|_| appended),
        })
    }

    /// Writes, and has the kernel's pages know of it. Waits for pages that are on their way to the kernel or back: not
    /// for a thread that answers requests.
    pub(crate) fn mix(&self, mixing: &Mixing) -> Result<usize, Errno> {
        let Mixing {
            file,
            offset,
            bytes,
            appended,
            done,
        } = mixing;
        let inode = &file.inode;
        let writer = file.writer.as_ref().ok_or(Errno::BADF)?;
        let size = || rustix::fs::fstat(writer).map(|status| u64::try_from(status.st_size).unwrap_or(0));
        let start = if *appended && done.is_none() { size()? } else { *offset };
        let noted = start..start.saturating_add(bytes.len() as u64);
        inode.content.mixed.note(noted.clone());
        let flags = if *appended {
            ReadWriteFlags::APPEND
        } else {
            ReadWriteFlags::empty()
        };
        let outcome = done.map_or_else(|| put(writer, *offset, bytes, flags), Ok);
        if let Some(done) = outcome.ok().filter(|done| *done > 0) {
            // Others may have appended as well: where these bytes are is not known then.
            let known = !appended || size() == Ok(start + done as u64);
            if let Some(bytes) = bytes.get(..done).filter(|_| known) {
                self.store_written(inode, start, bytes);
            }
            self.drop_pages(inode.number, &pages(start, done));
        }
        inode.content.mixed.forget(&noted);
        outcome
    }

    /// Makes zeros of bytes. The kernel takes all that is zeros out of its pages when it is answered.
    pub(crate) fn mix_zeros(&self, file: &OpenFile, allocation: Allocation) -> Result<(), Errno> {
        let Allocation { offset, length, .. } = allocation;
        let inode = &file.inode;
        let writer = file.writer.as_ref().ok_or(Errno::BADF)?;
        let noted = offset..offset.saturating_add(length);
        inode.content.mixed.note(noted.clone());
        let outcome = allocation.carry_out(writer);
        if outcome.is_ok() {
            let size = rustix::fs::fstat(writer).map_or(0, |status| u64::try_from(status.st_size).unwrap_or(0));
            for (start, length) in allocation.edges() {
                let there = usize::try_from(size.saturating_sub(start)).unwrap_or(PAGE);
                if there > 0 {
                    self.store_written(inode, start, &[0; PAGE][..length.min(there)]);
                }
            }
            let page = PAGE as u64;
            self.drop_pages(inode.number, &(noted.start / page..noted.end.div_ceil(page)));
        }
        inode.content.mixed.forget(&noted);
        outcome
    }

    fn store_written(&self, inode: &Inode, start: u64, bytes: &[u8]) {
        let pages = pages(start, bytes.len());
        for _ in 0..WAITS {
            if self.count_stored(inode, &pages) {
                break;
            }
            self.wanted.notify_one();
            std::thread::sleep(WAIT);
        }
        if let Some(notifier) = self.notifier.get() {
            // At the end of the mount there are no pages any more.
            let _ = notifier.store(INodeNo(inode.number), start, bytes);
        }
    }
}

fn pages(start: u64, length: usize) -> Range<u64> {
    let page = PAGE as u64;
    start / page..start.saturating_add(length as u64).div_ceil(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_written_is_left_out() {
        let left = |others: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let others: Vec<Range<u64>> = others.iter().map(|(start, end)| *start..*end).collect();
            let left = outside(&others, 0..4096);
            left.iter().map(|part| (part.start, part.end)).collect()
        };
        assert_eq!(left(&[]), [(0, 4096)]);
        assert_eq!(left(&[(4096, 5000), (0, 0)]), [(0, 4096)]);
        assert_eq!(left(&[(100, 200)]), [(0, 100), (200, 4096)]);
        assert_eq!(left(&[(100, 200), (150, 300), (4000, 9000)]), [(0, 100), (300, 4000)]);
        assert_eq!(left(&[(0, 8192)]), []);
    }

    #[test]
    fn the_edges_of_what_becomes_zeros_are_parts_of_pages() {
        let edges = |offset, length| {
            Allocation {
                offset,
                length,
                mode: 0,
            }
            .edges()
        };
        assert_eq!(edges(10, 20), [(10, 20)]);
        assert_eq!(edges(4000, 200), [(4000, 96), (4096, 104)]);
        assert_eq!(edges(0, 4096), []);
        assert_eq!(edges(4096, 10_000), [(12_288, 1808)]);
        assert_eq!(edges(100, 8092), [(100, 3996)]);
    }

    #[test]
    fn bytes_are_noted_until_their_write_ends() {
        let mixed = Mixed::default();
        assert!(!mixed.is_filled());
        mixed.note_filled();
        assert!(mixed.is_filled());
        for bytes in [0..8, 8..16, 0..8] {
            mixed.note(bytes);
        }
        mixed.forget(&(0..8));
        mixed.forget(&(8..16));
        assert_eq!(mixed.noted.read().unwrap().len(), 1);
        mixed.forget(&(0..8));
        assert!(mixed.noted.read().unwrap().is_empty());
    }
}
