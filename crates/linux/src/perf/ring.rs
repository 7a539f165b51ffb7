//! The ring in which the kernel writes the records of events (`struct perf_event_mmap_page`, perf_event_open(2)).

use crate::{Errno, PAGE_SIZE, sys};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the kernel keeps the ends of the records in the first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// A record's kind, its flags and its length.
const HEADER: u64 = 8;

/// The ring of one event, and of those that write into it too. One reader at a time.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    /// Of the records, without the first page.
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and whichever thread has the value is its only reader.
unsafe impl Send for Ring {}

/// A record that lies in the ring.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    ring: &'a Ring,
    position: u64,
    /// Which kind (`PERF_RECORD_*`).
    pub(crate) kind: u32,
    /// Its flags (`PERF_RECORD_MISC_*`).
    pub(crate) flags: u16,
    /// Bytes, the header with them.
    pub(crate) length: u64,
}

impl Ring {
    /// Maps the ring of an event, with `pages` for records: a power of two, which counts as locked memory.
    ///
    /// # Errors
    /// `PERM` where the limit on locked memory is too low; the kernel's refusal.
    pub(crate) fn map(event: &OwnedFd, pages: usize) -> Result<Self, Errno> {
        let bytes = pages * PAGE_SIZE;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let length = bytes + PAGE_SIZE;
        // SAFETY: a new mapping at a place that the kernel chooses; nothing else refers to it.
        let base = unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, event, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { base, bytes })
    }

    /// Calls `each` for every record that has come, and gives their room back.
    pub(crate) fn read(&self, mut each: impl FnMut(&Entry<'_>)) {
        let head = self.position(HEAD).load(Ordering::Acquire);
        let mut tail = self.position(TAIL).load(Ordering::Relaxed);
        while tail < head {
            // kind: u32, flags: u16, length: u16.
            let header = self.word(tail);
            let length = header >> 48;
            if length < HEADER {
                // Nothing that the kernel writes.
                tail = head;
                break;
            }
            each(&Entry {
                ring: self,
                position: tail,
                kind: u32::try_from(header & 0xffff_ffff).unwrap_or(0),
                flags: u16::try_from(header >> 32 & 0xffff).unwrap_or(0),
                length,
            });
            tail += length;
        }
        self.position(TAIL).store(tail, Ordering::Release);
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both positions are aligned words in the mapped first page, which the kernel too accesses whole.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// The word at a position; records are made of whole words.
    fn word(&self, position: u64) -> u64 {
        let offset = (usize::try_from(position).unwrap_or(0) % self.bytes) & !7;
        // SAFETY: an aligned word within the mapped records; the kernel does not write what lies between tail and head.
        unsafe { self.base.as_ptr().add(PAGE_SIZE + offset).cast::<u64>().read() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `map`, of this length, and nothing refers to it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes + PAGE_SIZE) };
    }
}

impl Entry<'_> {
    /// The word at an offset of whole words from the record's begin; zero past its end.
    pub(crate) fn word(&self, offset: u64) -> u64 {
        if offset + 8 <= self.length {
            self.ring.word(self.position + offset)
        } else {
            0
        }
    }

    /// Appends the bytes from an offset of whole words on to `bytes`, as many as `count` says and the record has.
    pub(crate) fn copy(&self, offset: u64, count: u64, bytes: &mut Vec<u8>) {
        let end = offset.saturating_add(count).min(self.length);
        for at in (offset..end).step_by(8) {
            let word = self.word(at & !7).to_ne_bytes();
            let left = usize::try_from(end - at).unwrap_or(8).min(8);
            bytes.extend_from_slice(&word[..left]);
        }
    }
}

/// Has `event` write into the ring of `leader`; the identifier that its records have.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn join(event: &OwnedFd, leader: &OwnedFd) -> Result<u64, Errno> {
    const SET_OUTPUT: libc::c_ulong = 0x2405;
    // SAFETY: this request takes a descriptor by value.
    sys::check_int(unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, leader.as_fd().as_raw_fd()) })?;
    identifier(event)
}

/// The identifier that an event's records have.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn identifier(event: &OwnedFd) -> Result<u64, Errno> {
    const IDENTIFIER: libc::c_ulong = 0x8008_2407;
    let mut id = 0_u64;
    // SAFETY: the kernel writes one word to `id`.
    sys::check_int(unsafe { libc::ioctl(event.as_raw_fd(), IDENTIFIER, &raw mut id) })?;
    Ok(id)
}

/// Has an event be counted from now on.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn start(event: &OwnedFd) -> Result<(), Errno> {
    const ENABLE: libc::c_ulong = 0x2400;
    // SAFETY: this request takes no memory.
    sys::check_int(unsafe { libc::ioctl(event.as_raw_fd(), ENABLE, 0) }).map(|_| ())
}
