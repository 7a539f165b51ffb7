//! A ring of bytes between one producer and one consumer, neither of which trusts the other.
//!
//! A message is put whole or not at all; a get returns what is there. Each side keeps its own index to itself and only
//! publishes it; the other side's index is a claim, refused as [`Corrupt`] where it cannot be. So a side that writes
//! random numbers into the shared memory can spoil the content, but never stall the other side, nor lead it out of
//! bounds.
//!
//! With a batch a side publishes its index only each so many bytes, which spares the other side's cache; what is
//! unpublished is invisible to it until [`Producer::publish`] or [`Consumer::publish`].

use crate::bytes::Bytes;
use crate::sync::{AtomicU32, Ordering};
// What nobody reads or writes here is no part of the model.
use core::sync::atomic::AtomicU32 as Filling;

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

/// The two indices, each on a cache line of its own. They count bytes modulo 2³².
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Indices {
    pub(crate) written: AtomicU32,
    apart: [Filling; 15],
    pub(crate) read: AtomicU32,
    apart_again: [Filling; 15],
}

impl Default for Indices {
    fn default() -> Self {
        Self {
            written: AtomicU32::new(0),
            apart: core::array::from_fn(|_| Filling::new(0)),
            read: AtomicU32::new(0),
            apart_again: core::array::from_fn(|_| Filling::new(0)),
        }
    }
}

/// Bytes of memory that a ring of `capacity` bytes needs: two cache lines of indices, and the bytes, rounded up to a
/// power of two. `None` where the capacity is 0 or above [`MOST_CAPACITY`].
#[must_use]
pub const fn size_for(capacity: u32) -> Option<usize> {
    if capacity == 0 || capacity > MOST_CAPACITY {
        return None;
    }
    Some(size_of::<Indices>() + capacity.next_power_of_two() as usize)
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
        let head = size_of::<Indices>();
        // SAFETY: aligned and within the caller's memory; atomics may be changed by anybody, and have no invalid value.
        let indices = unsafe { start.cast::<Indices>().as_ref() };
        // SAFETY: the caller's memory behind the indices, as long as was checked.
        let bytes = unsafe { Bytes::new(start.add(head), needed - head) };
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

    /// Makes it empty, for a pair of sides that start anew. Neither side may be in use.
    pub fn reset(&self) {
        self.indices.written.store(0, Ordering::Relaxed);
        self.indices.read.store(0, Ordering::Release);
    }

    fn distance(&self, ahead: u32, behind: u32) -> Result<u32, Corrupt> {
        let distance = ahead.wrapping_sub(behind);
        if distance <= self.capacity {
            Ok(distance)
        } else {
            Err(Corrupt)
        }
    }

    fn place(&self, index: u32) -> usize {
        index as usize & (self.bytes.len() - 1)
    }

    fn write(&self, index: u32, message: &[u8]) {
        let at = self.place(index);
        let (first, rest) = message.split_at(message.len().min(self.bytes.len() - at));
        self.bytes.copy_in(at, first);
        self.bytes.copy_in(0, rest);
    }

    fn read(&self, index: u32, into: &mut [u8]) {
        let at = self.place(index);
        let (first, rest) = into.split_at_mut(into.len().min(self.bytes.len() - at));
        self.bytes.copy_out(at, first);
        self.bytes.copy_out(0, rest);
    }
}

/// The side that puts. There is to be one at a time.
#[derive(Debug)]
pub struct Producer<'a> {
    ring: ByteRing<'a>,
    written: u32,
    published: u32,
    /// As much as the consumer was last seen to have read: looked up again only where the room seems too small.
    read: u32,
    batch: u32,
}

impl<'a> Producer<'a> {
    /// The producer of a ring, after whatever an earlier producer has put.
    ///
    /// # Errors
    /// [`Corrupt`] where the indices that are found cannot be.
    pub fn new(ring: ByteRing<'a>) -> Result<Self, Corrupt> {
        let written = ring.indices.written.load(Ordering::Relaxed);
        let read = ring.indices.read.load(Ordering::Acquire);
        ring.distance(written, read)?;
        Ok(Self {
            ring,
            written,
            published: written,
            read,
            batch: 0,
        })
    }

    /// Publishes only each so many bytes; see [`Producer::publish`]. 0, the default: each message.
    #[must_use]
    pub fn with_batch(mut self, bytes: u32) -> Self {
        self.batch = bytes;
        self
    }

    /// Puts a message, whole. O(length).
    ///
    /// # Errors
    /// See [`PutError`]; nothing was written.
    pub fn put(&mut self, message: &[u8]) -> Result<(), PutError> {
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        if length > self.ring.capacity - self.written.wrapping_sub(self.read) {
            let room = self.room().map_err(|Corrupt| PutError::Corrupt)?;
            if length > room {
                self.publish();
                return Err(PutError::Full(room));
            }
        }
        self.ring.write(self.written, message);
        self.written = self.written.wrapping_add(length);
        if self.written.wrapping_sub(self.published) >= self.batch {
            self.publish();
        }
        Ok(())
    }

    /// Bytes that are free.
    ///
    /// # Errors
    /// [`Corrupt`] where the consumer claims to have read what was never written, or lost what it had read.
    pub fn room(&mut self) -> Result<u32, Corrupt> {
        let read = self.ring.indices.read.load(Ordering::Acquire);
        let unread = self.ring.distance(self.written, read)?;
        self.read = read;
        Ok(self.ring.capacity - unread)
    }

    /// Shows the consumer all that was put.
    pub fn publish(&mut self) {
        if self.published != self.written {
            self.ring.indices.written.store(self.written, Ordering::Release);
            self.published = self.written;
        }
    }
}

/// The side that gets. There is to be one at a time.
#[derive(Debug)]
pub struct Consumer<'a> {
    ring: ByteRing<'a>,
    read: u32,
    published: u32,
    /// As much as the producer was last seen to have written.
    written: u32,
    batch: u32,
}

impl<'a> Consumer<'a> {
    /// The consumer of a ring, from where an earlier consumer stopped.
    ///
    /// # Errors
    /// [`Corrupt`] where the indices that are found cannot be.
    pub fn new(ring: ByteRing<'a>) -> Result<Self, Corrupt> {
        let read = ring.indices.read.load(Ordering::Relaxed);
        let written = ring.indices.written.load(Ordering::Acquire);
        ring.distance(written, read)?;
        Ok(Self {
            ring,
            read,
            published: read,
            written,
            batch: 0,
        })
    }

    /// Gives room back only each so many bytes, and whenever all was read. 0, the default: after each get.
    #[must_use]
    pub fn with_batch(mut self, bytes: u32) -> Self {
        self.batch = bytes;
        self
    }

    /// Gets as much as is there and fits; returns how many bytes, 0 where nothing is there. O(length).
    ///
    /// # Errors
    /// [`Corrupt`]; nothing was read.
    pub fn get(&mut self, into: &mut [u8]) -> Result<usize, Corrupt> {
        let wanted = u32::try_from(into.len()).unwrap_or(u32::MAX);
        let mut there = self.written.wrapping_sub(self.read);
        if there < wanted {
            there = self.unread()?;
        }
        let count = there.min(wanted);
        self.ring.read(self.read, &mut into[..count as usize]);
        self.read = self.read.wrapping_add(count);
        let all = self.read == self.written;
        if all || self.read.wrapping_sub(self.published) >= self.batch {
            self.publish();
        }
        Ok(count as usize)
    }

    /// Bytes that are there.
    ///
    /// # Errors
    /// [`Corrupt`] where the producer claims to have written more than the ring holds, or less than was read.
    pub fn unread(&mut self) -> Result<u32, Corrupt> {
        let written = self.ring.indices.written.load(Ordering::Acquire);
        let unread = self.ring.distance(written, self.read)?;
        self.written = written;
        Ok(unread)
    }

    /// Drops all that is there; returns how many bytes.
    ///
    /// # Errors
    /// As [`Consumer::unread`].
    pub fn discard(&mut self) -> Result<u32, Corrupt> {
        let count = self.unread()?;
        self.read = self.written;
        self.publish();
        Ok(count)
    }

    /// Gives the producer all the room of what was read.
    pub fn publish(&mut self) {
        if self.published != self.read {
            self.ring.indices.read.store(self.read, Ordering::Release);
            self.published = self.read;
        }
    }
}
