//! Which frames of the machine lie behind addresses of this process (`/proc/self/pagemap`), and whether anybody still
//! has a frame (`/proc/kpageflags`). Both take CAP_SYS_ADMIN: without it nothing is known, and that is said.

use crate::{AddressRange, Errno, PAGE_SIZE};
use std::fs::File;
use std::os::unix::fs::FileExt;

const PRESENT: u64 = 1 << 63;
const NUMBER: u64 = (1 << 55) - 1;
/// Bytes of one entry in each of the files.
const ENTRY: u64 = 8;
/// Entries read at a time.
const BATCH: usize = 4096;
// Bits of an entry in kpageflags: filled (UPTODATE), of the page cache or of a memory object (LRU, SWAPBACKED), mapped,
// anonymous, dirty.
const FILLED: u64 = 1 << 3;
const DIRTY: u64 = 1 << 4;
const LRU: u64 = 1 << 5;
const MAPPED: u64 = 1 << 11;
const ANONYMOUS: u64 = 1 << 12;
const SWAPBACKED: u64 = 1 << 14;

/// The numbers of the machine's frames, of one page in every `step` of the range: `None` where the page is absent, or
/// the number is not told.
///
/// # Errors
/// The kernel's refusal to open or read.
pub fn frames(range: AddressRange, step: usize) -> Result<Vec<Option<u64>>, Errno> {
    let file = open("/proc/self/pagemap")?;
    let first = (range.start() / PAGE_SIZE) as u64;
    let count = range.length() / PAGE_SIZE;
    let step = step.max(1);
    let mut found = Vec::with_capacity(count / step + 1);
    if step > 1 {
        for page in (0..count).step_by(step) {
            found.push(number(entry(&file, first + page as u64)?));
        }
        return Ok(found);
    }
    let mut bytes = vec![0; BATCH.min(count) * 8];
    let mut page = 0;
    while page < count {
        let wanted = BATCH.min(count - page) * 8;
        let part = bytes.get_mut(..wanted).ok_or(Errno::INVAL)?;
        file.read_exact_at(part, (first + page as u64) * ENTRY).map_err(errno)?;
        let entries = part.as_chunks::<8>().0;
        found.extend(entries.iter().map(|entry| number(u64::from_ne_bytes(*entry))));
        page += entries.len();
    }
    Ok(found)
}

/// Whether frames that were cut off from their memory objects look as if something in the kernel still kept (pinned)
/// them: a ring's buffer, a transfer of a device.
///
/// The kernel tells neither who has a frame nor how often it is kept. A small frame that is kept looks as it did when
/// it was cut off, and a free one looks like nothing. But one that another object has got since may look as if it were
/// kept: [`FreedFrames`](crate::freed_frames::FreedFrames) tell that it was free between. What a transfer has written
/// to meanwhile does not show.
#[derive(Debug)]
pub struct Pins {
    flags: File,
}

impl Pins {
    /// Opens what the kernel says.
    ///
    /// # Errors
    /// `ACCES` or `PERM` without CAP_SYS_ADMIN; `NOENT` where the kernel does not offer it.
    pub fn open() -> Result<Self, Errno> {
        open("/proc/kpageflags").map(|flags| Self { flags })
    }

    /// Whether a small frame that has just been cut off looks kept. A CPU may be about to let go of it
    /// ([`settle`](Self::settle)).
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn is_cut_off(&self, frame: u64) -> Result<bool, Errno> {
        // A page of an object that is still there is dirty from its first write on; one that was cut off is clean.
        Ok(entry(&self.flags, frame)? & (SWAPBACKED | MAPPED | ANONYMOUS | DIRTY) == SWAPBACKED)
    }

    /// Whether a small frame that was cut off looks kept still.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn has(&self, frame: u64) -> Result<bool, Errno> {
        Ok(entry(&self.flags, frame)? & LRU != 0 && self.is_cut_off(frame)?)
    }

    /// Has all CPUs let go of frames that they keep for a moment to sort them, which look as if somebody had them. Does
    /// nothing where the kernel cannot move pages.
    pub fn settle() {
        let page = [0_u8; 1];
        let address = page.as_ptr().cast::<libc::c_void>();
        let (node, mut status) = (0_i32, 0_i32);
        // SAFETY: one page of this thread's stack, a node and a place for the result, all alive through the call. The
        // page is where it is to be, or is moved by the kernel without anybody's notice.
        unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                1_usize,
                &raw const address,
                &raw const node,
                &raw mut status,
                0,
            )
        };
    }

    /// Whether an object has got this huge frame since it was cut off, or a process maps it.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn is_used_again(&self, frame: u64) -> Result<bool, Errno> {
        Ok(entry(&self.flags, frame)? & (MAPPED | FILLED) != 0)
    }
}

fn open(path: &str) -> Result<File, Errno> {
    File::open(path).map_err(errno)
}

fn entry(file: &File, place: u64) -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, place * ENTRY).map_err(errno)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A frame's number; the kernel shows 0 to those who may not know.
fn number(entry: u64) -> Option<u64> {
    (entry & PRESENT != 0 && entry & NUMBER != 0).then_some(entry & NUMBER)
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn errno(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::frames;
    use crate::PageRange;
    use crate::memory::{Chunk, Window};

    #[test]
    fn present_pages_have_frames_where_one_may_know() {
        let window = Window::reserve(4).unwrap();
        let chunk = Chunk::create(c"test", 4, false).unwrap();
        window.place(0, &chunk).unwrap();
        window.populate(PageRange::new(0, 2)).unwrap();
        let range = window.addresses(PageRange::new(0, 4)).unwrap();
        let found = frames(range, 1).unwrap();
        assert_eq!((found.len(), found[2], found[3]), (4, None, None));
        if rustix::process::geteuid().is_root() {
            assert!(found[0].is_some() && found[1].is_some() && found[0] != found[1]);
        }
        assert_eq!(frames(range, 2).unwrap(), [found[0], None]);
    }
}
