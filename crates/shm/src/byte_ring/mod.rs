//! A ring of bytes with one producer, neither side of which trusts the other.
//!
//! A message is put whole or not at all; a get returns what is there. Bytes may be taken by several: each take moves
//! the index of what was read by a compare-and-exchange, so each byte goes to one of them. A producer takes too, what
//! it has put itself ([`Producer::take`]).
//!
//! Each side keeps what it knows of the indices to itself; what the memory says is a claim, refused as [`Corrupt`]
//! where it cannot be or goes back. So a side that writes random numbers into the shared memory can spoil the content,
//! but never stall another side, nor lead it out of bounds. After a refusal a side that is believed makes the ring
//! empty and valid again: [`Producer::restart`], [`Consumer::restart`].

mod consumer;
mod known;
mod producer;

pub use consumer::Consumer;
pub use producer::Producer;

use crate::bytes::Bytes;
use crate::sync::{AtomicU64, Ordering};

/// The largest capacity, in bytes.
pub const MOST_CAPACITY: u32 = 1 << 30;

/// The other side's index is one that it cannot have: it does not keep to the protocol, or somebody overwrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// Why a message was not put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutError {
    /// It is longer than what is free; nothing was written. The number of bytes that are free.
    Full(u32),
    /// See [`Corrupt`]; nothing was written.
    Corrupt,
}

/// The memory that was given cannot hold the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The capacity is 0 or above [`MOST_CAPACITY`].
    Capacity,
    /// The memory is shorter than [`size_for`], or not aligned to 64 bytes.
    Memory,
}

/// An index, on a cache line of its own. It counts bytes since the ring was new: 64 bits do not come round.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Index(AtomicU64);

/// The two indices.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Indices {
    written: Index,
    read: Index,
}

/// Bytes in front of a ring's content, for its indices.
pub const HEAD: usize = size_of::<Indices>();

/// Bytes of memory that a ring of `capacity` bytes needs: two cache lines of indices, and the bytes, rounded up to a
/// power of two. `None` where the capacity is 0 or above [`MOST_CAPACITY`].
#[must_use]
pub const fn size_for(capacity: u32) -> Option<usize> {
    if capacity == 0 || capacity > MOST_CAPACITY {
        return None;
    }
    Some(HEAD + capacity.next_power_of_two() as usize)
}

/// A ring in somebody's memory, which holds no more than its capacity. Both sides name the same memory and capacity;
/// memory of zeros is an empty ring.
#[derive(Clone, Copy, Debug)]
pub struct ByteRing<'a> {
    pub(crate) indices: &'a Indices,
    pub(crate) bytes: Bytes<'a>,
    pub(crate) capacity: u32,
}

impl<'a> ByteRing<'a> {
    /// The ring in `length` bytes from `start` on.
    ///
    /// # Safety
    /// The memory is mapped readable and writable for as long as `'a`, and this process reaches it through values of
    /// this type only. Others may write into it whatever they like.
    ///
    /// # Errors
    /// See [`LayoutError`].
    pub unsafe fn at(start: core::ptr::NonNull<u8>, length: usize, capacity: u32) -> Result<Self, LayoutError> {
        let needed = size_for(capacity).ok_or(LayoutError::Capacity)?;
        if length < needed || !start.cast::<Indices>().is_aligned() {
            return Err(LayoutError::Memory);
        }
        // SAFETY: aligned and within the caller's memory; atomics may be changed by anybody, and have no invalid value.
        let indices = unsafe { start.cast::<Indices>().as_ref() };
        // SAFETY: the caller's memory behind the indices, as long as was checked.
        let bytes = unsafe { Bytes::new(start.add(HEAD), needed - HEAD) };
        Ok(Self {
            indices,
            bytes,
            capacity,
        })
    }

    /// The number of bytes that it holds at most.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Makes it empty, for sides that start anew. No side may be in use.
    pub fn reset(&self) {
        self.indices.written.0.store(0, Ordering::Relaxed);
        self.indices.read.0.store(0, Ordering::Release);
    }

    /// Overwrites how far the consumers claim to have read, as somebody does who does not keep to the protocol.
    pub fn forge_read(&self, index: u64) {
        self.indices.read.0.store(index, Ordering::Release);
    }

    /// Overwrites how far the producer claims to have written; see [`ByteRing::forge_read`].
    pub fn forge_written(&self, index: u64) {
        self.indices.written.0.store(index, Ordering::Release);
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "masked to the length, which is in memory"
    )]
    fn place(&self, index: u64) -> usize {
        index as usize & (self.bytes.len() - 1)
    }

    #[inline]
    fn write(&self, index: u64, message: &[u8]) {
        let at = self.place(index);
        let (first, rest) = message.split_at(message.len().min(self.bytes.len() - at));
        self.bytes.copy_in(at, first);
        self.bytes.copy_in(0, rest);
    }

    #[inline]
    fn read(&self, index: u64, into: &mut [u8]) {
        let at = self.place(index);
        let (first, rest) = into.split_at_mut(into.len().min(self.bytes.len() - at));
        self.bytes.copy_out(at, first);
        self.bytes.copy_out(0, rest);
    }
}
