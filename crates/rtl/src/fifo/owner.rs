//! The real-time side of a FIFO. It never waits for a process, and believes nothing that a process can write.

use std::io;
use std::sync::atomic::{Ordering, fence};

use freehold_linux::futex;
use freehold_shm::byte_ring::{Consumer, Corrupt, Producer};

use super::{COUNT, FifoView, MAGIC, Mapping, Peer, Side, memory_for};
use crate::area::Area;

/// Why nothing was written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// Less room than bytes to write; nothing was written.
    #[error("the FIFO has not enough room")]
    NoSpace,
    /// Processes write into this FIFO: the real-time side reads only.
    #[error("processes write into this FIFO; use another for the other direction")]
    OtherDirection,
}

/// The real-time side of one FIFO. What its end of the ring knows of the indices is what counts.
#[derive(Debug)]
pub struct Owner {
    // Before the mapping that it points into.
    end: End,
    mapping: Mapping,
    puts: u64,
    refused: u64,
    corrupt: u64,
}

/// The real-time side's end of the ring.
#[derive(Debug)]
enum End {
    /// It writes, and may take back what it has written.
    Writes(Producer<'static>),
    /// It reads, as long as it has not written first.
    Reads(Consumer<'static>),
}

impl Owner {
    /// A new, empty FIFO of `size` bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for an impossible number or size; otherwise no memory.
    pub fn create(number: u32, size: usize) -> io::Result<Self> {
        let size = u32::try_from(size).map_err(|_| io::ErrorKind::InvalidInput)?;
        if usize::try_from(number).is_ok_and(|number| number >= COUNT) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let area = Area::create(c"freehold-rtl-fifo", memory_for(size)?)?;
        let mapping = Mapping::of(area, size)?;
        let header = mapping.header();
        header.number.store(number, Ordering::Relaxed);
        header.size.store(size, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(Self {
            end: End::Reads(Consumer::new(mapping.ring)),
            mapping,
            puts: 0,
            refused: 0,
            corrupt: 0,
        })
    }

    /// The shared memory, to be published.
    #[must_use]
    pub fn area(&self) -> &Area {
        &self.mapping.area
    }

    /// Writes all of `bytes` or nothing.
    ///
    /// # Errors
    /// See [`OwnerError`].
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), OwnerError> {
        if let End::Reads(_) = self.end {
            self.begin_writing()?;
        }
        // Each put notices a claim that cannot be, also where the room that is known would do.
        self.used();
        let End::Writes(producer) = &mut self.end else {
            return Err(OwnerError::OtherDirection);
        };
        let header = self.mapping.header();
        if producer.put(bytes).is_err() {
            self.refused += 1;
            header.counts.refused.store(self.refused, Ordering::Relaxed);
            return Err(OwnerError::NoSpace);
        }
        self.puts += 1;
        header.counts.puts.store(self.puts, Ordering::Relaxed);
        ring_if_armed(&header.peer);
        Ok(())
    }

    /// Takes out what is there, at most as much as fits; 0 where nothing is there. A process that reads the same FIFO
    /// can make this fail, and not for ever.
    #[inline]
    pub fn get(&mut self, to: &mut [u8]) -> usize {
        let taken = match &mut self.end {
            End::Writes(producer) => producer.take(to),
            End::Reads(consumer) => consumer.get(to),
        };
        let count = self.believe(taken);
        let peer = &self.mapping.header().peer;
        // The ring says by a `SeqCst` exchange what was taken. The process arms, makes a fence and looks at the ring:
        // either it sees that exchange, or this look, which comes after it in the one order, sees that it is armed.
        if count > 0 && peer.armed.load(Ordering::SeqCst) != 0 {
            ring(peer);
        }
        count
    }

    /// Forgets what is in it.
    pub fn flush(&mut self) {
        let dropped = match &mut self.end {
            End::Writes(producer) => producer.discard(),
            End::Reads(consumer) => consumer.discard(),
        };
        self.believe(dropped);
    }

    /// Bytes in it.
    #[inline]
    pub fn used(&mut self) -> u64 {
        let unread = match &mut self.end {
            End::Writes(producer) => producer.unread(),
            End::Reads(consumer) => consumer.unread(),
        };
        u64::from(self.believe(unread))
    }

    /// How many claims of the other side were impossible.
    #[must_use]
    pub fn corrupt_claims(&self) -> u64 {
        self.corrupt
    }

    /// The process that serves an opener, as it says.
    #[must_use]
    pub fn opened_by(&self) -> Option<u32> {
        let process = self.mapping.header().peer.opened_by.load(Ordering::Relaxed);
        (process != 0).then_some(process)
    }

    /// Says whose it is: by the descriptor of a module's page of status in this process.
    pub fn set_status(&self, descriptor: u32) {
        self.mapping.header().status.store(descriptor, Ordering::Relaxed);
    }

    /// Has what processes write to this FIFO go to another.
    pub fn set_pair(&self, other: u32) {
        self.mapping.header().peer.pair.store(other + 1, Ordering::Relaxed);
    }

    /// What others see of it.
    pub fn view(&mut self) -> FifoView {
        FifoView {
            number: self.mapping.header().number.load(Ordering::Relaxed),
            size: u64::from(self.mapping.ring.capacity()),
            used: self.used(),
            puts: self.puts,
            refused: self.refused,
            corrupt_claims: self.corrupt,
        }
    }

    #[cold]
    fn begin_writing(&mut self) -> Result<(), OwnerError> {
        let writer = &self.mapping.header().peer.writer;
        let mine = Side::RealTime as u32;
        let before = writer.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed);
        if before == Err(Side::Process as u32) {
            return Err(OwnerError::OtherDirection);
        }
        if let End::Reads(consumer) = &self.end {
            self.end = End::Writes(consumer.to_producer());
        }
        Ok(())
    }

    /// What an end of the ring has found; nothing where it was a claim that cannot be. Then the FIFO is emptied, for
    /// nobody knows what in it has been read.
    #[inline]
    fn believe<T: Default>(&mut self, found: Result<T, Corrupt>) -> T {
        found.unwrap_or_else(|Corrupt| {
            self.refuse_claim();
            T::default()
        })
    }

    #[cold]
    fn refuse_claim(&mut self) {
        self.corrupt += 1;
        match &mut self.end {
            End::Writes(producer) => producer.restart(),
            End::Reads(consumer) => consumer.restart(),
        }
        let counts = &self.mapping.header().counts;
        counts.corrupt_claims.store(self.corrupt, Ordering::Relaxed);
    }
}

/// Wakes the process that sleeps until something changes. Either it sees the index that was stored before, or this sees
/// that it is armed.
#[inline]
fn ring_if_armed(peer: &Peer) {
    fence(Ordering::SeqCst);
    if peer.armed.load(Ordering::Relaxed) != 0 {
        ring(peer);
    }
}

#[cold]
fn ring(peer: &Peer) {
    peer.armed.store(0, Ordering::Relaxed);
    peer.doorbell.fetch_add(1, Ordering::Release);
    futex::wake_shared(&peer.doorbell, u32::MAX);
}
