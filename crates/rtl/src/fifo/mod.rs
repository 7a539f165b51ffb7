//! FIFOs between real-time threads and processes: a ring of bytes in shared memory.
//!
//! The ring is one of `freehold_shm`, so an index of the other side is a claim: one that cannot be is counted, the
//! FIFO is emptied, and that is said. The real-time side ([`owner`]) is the one that is believed. Neither side waits
//! for the other; a process that wants to sleep ([`peer`]) arms a word, and the owner rings it.

pub mod owner;
pub mod peer;
pub mod reader;

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64};

use freehold_shm::byte_ring::{self, ByteRing};

use crate::area::{Area, Shared};

/// FIFOs that exist: their numbers are below this.
pub const COUNT: usize = 64;

/// The most bytes a FIFO can hold.
pub const LARGEST: usize = byte_ring::MOST_CAPACITY as usize;

const MAGIC: u32 = 0x5254_4632;

/// Where the ring begins: its indices end the first page, so that its bytes begin the second one.
const RING: usize = freehold_linux::PAGE_SIZE - byte_ring::HEAD;

/// The page in front of the bytes, up to the ring's indices.
#[repr(C)]
#[derive(Debug)]
struct Header {
    magic: AtomicU32,
    number: AtomicU32,
    /// Bytes it can hold.
    size: AtomicU32,
    /// The descriptor of its module's page of status, in the owner's process.
    status: AtomicU32,
    peer: Peer,
    counts: Counts,
}

const _: () = assert!(size_of::<Header>() <= RING);

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
    /// Incremented by the owner when it is armed.
    doorbell: AtomicU32,
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

/// The memory of a FIFO that can hold `size` bytes.
fn memory_for(size: u32) -> io::Result<usize> {
    let ring = byte_ring::size_for(size).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(RING + ring)
}

/// A mapping with a header and a ring.
#[derive(Debug)]
struct Mapping {
    /// Within `area`, so it is not to leave this module's types, which drop it before the mapping.
    ring: ByteRing<'static>,
    area: Area,
}

impl Mapping {
    /// # Errors
    /// The memory is not that of a FIFO of `size` bytes.
    fn of(area: Area, size: u32) -> io::Result<Self> {
        if area.bytes() != memory_for(size)? {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let length = area.bytes() - RING;
        // SAFETY: inside the mapping, whose length was seen, and which `Mapping` keeps for as long as the ring. This
        // process reaches it through rings only.
        let ring = unsafe { ByteRing::at(area.start().add(RING), length, size) };
        let ring = ring.map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Self { ring, area })
    }

    fn header(&self) -> &Header {
        // SAFETY: `of` has seen that the mapping is longer than the header; mappings begin at pages; the header
        // consists of atomics.
        unsafe { self.area.start().cast().as_ref() }
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
