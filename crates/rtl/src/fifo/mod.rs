//! FIFOs between real-time threads and processes: a ring of bytes in shared memory.
//!
//! The real-time side ([`owner`]) keeps both indices in memory of its own. What the shared page says is a claim: an
//! index outside what the owner knows to be possible is counted, the FIFO is emptied, and that is said. Neither side
//! waits for the other; a process that wants to sleep ([`peer`]) arms a word, and the owner rings it.

pub mod owner;
pub mod peer;

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::area::{Area, Shared};

/// FIFOs that exist: their numbers are below this.
pub const COUNT: usize = 64;

/// The most bytes a FIFO can hold.
pub const LARGEST: usize = 1 << 30;

const MAGIC: u32 = 0x5254_4631;

/// Where the bytes begin.
const DATA: usize = freehold_linux::PAGE_SIZE;

/// An index, on a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
struct Index(AtomicU64);

/// The page in front of the bytes.
#[repr(C)]
#[derive(Debug)]
struct Header {
    magic: AtomicU32,
    number: AtomicU32,
    size: AtomicU64,
    /// The descriptor of its module's page of status, in the owner's process.
    status: AtomicU32,
    /// Bytes written so far.
    written: Index,
    /// Bytes taken out so far.
    read: Index,
    peer: Peer,
    counts: Counts,
}

/// What processes say.
#[repr(C, align(64))]
#[derive(Debug)]
struct Peer {
    /// The process that serves an opener; 0 when no process has the FIFO open.
    opened_by: AtomicU32,
    /// Reads and writes of processes so far: the owner's handler waits for it to change.
    operations: AtomicU32,
    /// Not 0 while a process wants to be woken.
    armed: AtomicU32,
    /// Rung by the owner when it is armed.
    bell: AtomicU32,
    /// Which side writes: [`Side`].
    writer: AtomicU32,
    /// One more than the FIFO that an opener's writes go to; 0 for this one.
    pair: AtomicU32,
}

/// What the owner has counted. It never reads these.
#[repr(C, align(64))]
#[derive(Debug)]
struct Counts {
    puts: AtomicU64,
    refused: AtomicU64,
    corrupt_claims: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Shared for Header {}

/// Who writes into a FIFO. The first writer decides; a ring has one writing side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Side {
    RealTime = 1,
    Process = 2,
}

/// Header and bytes of a mapping.
#[derive(Debug)]
struct Ring {
    area: Area,
    /// A power of two of bytes, at least the size.
    buffer: usize,
    size: u64,
}

impl Ring {
    fn header(&self) -> &Header {
        // SAFETY: every way to make a `Ring` has seen that the mapping is longer than the header; mappings begin at
        // pages; the header consists of atomics.
        unsafe { self.area.start().cast().as_ref() }
    }

    /// Copies `from`, at most the size, to the place of index `at`, in two parts where it wraps.
    #[inline]
    fn copy_in(&self, at: u64, from: &[u8]) {
        let (place, first) = self.parts(at, from.len());
        let (first, rest) = from.split_at(first);
        let copied = self
            .area
            .copy_in(DATA + place, first)
            .and(self.area.copy_in(DATA, rest));
        debug_assert!(copied.is_some());
    }

    /// Copies what lies at index `at` to `to`, at most the size.
    #[inline]
    fn copy_out(&self, at: u64, to: &mut [u8]) {
        let (place, first) = self.parts(at, to.len());
        let (first, rest) = to.split_at_mut(first);
        let copied = self
            .area
            .copy_out(DATA + place, first)
            .and(self.area.copy_out(DATA, rest));
        debug_assert!(copied.is_some());
    }

    /// Where index `at` lies, and how many of `count` bytes (at most the size) lie before the ring wraps.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "masked to the buffer, which is in memory"
    )]
    fn parts(&self, at: u64, count: usize) -> (usize, usize) {
        debug_assert!(count <= self.buffer);
        let place = at as usize & (self.buffer - 1);
        (place, count.min(self.buffer - place))
    }
}

/// What others see of a FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FifoView {
    /// Its number.
    pub number: u32,
    /// Bytes it can hold.
    pub size: u64,
    /// Bytes in it.
    pub used: u64,
    /// Messages the real-time side has put.
    pub puts: u64,
    /// Messages for which there was no room.
    pub refused: u64,
    /// Impossible indices that the real-time side has seen.
    pub corrupt_claims: u64,
}

#[cfg(test)]
mod tests;
