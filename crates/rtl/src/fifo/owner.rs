//! The real-time side of a FIFO. It never waits for a process, and believes nothing that a process can write.

use std::io;
use std::sync::atomic::{Ordering, fence};

use freehold_linux::futex;

use super::{COUNT, DATA, FifoView, Header, Index, LARGEST, MAGIC, Peer, Ring, Side};
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

/// The real-time side of one FIFO. Its own copies of the indices are what counts.
#[derive(Debug)]
pub struct Owner {
    ring: Ring,
    written: u64,
    read: u64,
    puts: u64,
    refused: u64,
    corrupt: u64,
    writes: Option<Side>,
}

impl Owner {
    /// A new, empty FIFO of `size` bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for an impossible number or size; otherwise no memory.
    pub fn create(number: u32, size: usize) -> io::Result<Self> {
        let possible = (1..=LARGEST).contains(&size) && usize::try_from(number).is_ok_and(|number| number < COUNT);
        if !possible {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let buffer = size.next_power_of_two();
        let area = Area::create(c"freehold-rtl-fifo", DATA + buffer)?;
        let ring = Ring {
            area,
            buffer,
            size: u64::try_from(size).unwrap_or(u64::MAX),
        };
        let header = ring.header();
        header.number.store(number, Ordering::Relaxed);
        header.size.store(ring.size, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(Self {
            ring,
            written: 0,
            read: 0,
            puts: 0,
            refused: 0,
            corrupt: 0,
            writes: None,
        })
    }

    /// The shared memory, to be published.
    #[must_use]
    pub fn area(&self) -> &Area {
        &self.ring.area
    }

    /// Writes all of `bytes` or nothing.
    ///
    /// # Errors
    /// See [`OwnerError`].
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), OwnerError> {
        if self.writes != Some(Side::RealTime) {
            self.begin_writing()?;
        }
        self.look_at_reader();
        let room = self.ring.size - (self.written - self.read);
        let count = bytes.len() as u64;
        if count > room {
            self.refused += 1;
            self.ring.header().counts.refused.store(self.refused, Ordering::Relaxed);
            return Err(OwnerError::NoSpace);
        }
        self.ring.copy_in(self.written, bytes);
        self.written += count;
        self.puts += 1;
        let header = self.ring.header();
        header.written.0.store(self.written, Ordering::Release);
        header.counts.puts.store(self.puts, Ordering::Relaxed);
        ring_if_armed(&header.peer);
        Ok(())
    }

    /// Takes out what is there, at most as much as fits; 0 where nothing is there.
    #[inline]
    pub fn get(&mut self, to: &mut [u8]) -> usize {
        self.look_at_writer();
        // A process may read the same FIFO. It can make this fail, and not for ever.
        for _ in 0..4 {
            self.look_at_reader();
            let there = usize::try_from(self.written - self.read).unwrap_or(usize::MAX);
            let count = there.min(to.len());
            self.ring.copy_out(self.read, &mut to[..count]);
            let next = self.read + count as u64;
            let header = self.ring.header();
            let index = &header.read.0;
            if index
                .compare_exchange(self.read, next, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                self.read = next;
                if count > 0 {
                    ring_if_armed(&header.peer);
                }
                return count;
            }
        }
        0
    }

    /// Forgets what is in it.
    pub fn flush(&mut self) {
        self.look_at_writer();
        self.empty();
    }

    /// Bytes in it.
    pub fn used(&mut self) -> u64 {
        self.look_at_writer();
        self.look_at_reader();
        self.written - self.read
    }

    /// How many claims of the other side were impossible.
    #[must_use]
    pub fn corrupt_claims(&self) -> u64 {
        self.corrupt
    }

    /// The process that serves an opener, as it says.
    #[must_use]
    pub fn opened_by(&self) -> Option<u32> {
        let process = self.ring.header().peer.opened_by.load(Ordering::Relaxed);
        (process != 0).then_some(process)
    }

    /// Says whose it is: by the descriptor of a module's page of status in this process.
    pub fn set_status(&self, descriptor: u32) {
        self.ring.header().status.store(descriptor, Ordering::Relaxed);
    }

    /// Has what processes write to this FIFO go to another.
    pub fn set_pair(&self, other: u32) {
        self.ring.header().peer.pair.store(other + 1, Ordering::Relaxed);
    }

    /// What others see of it.
    pub fn view(&mut self) -> FifoView {
        FifoView {
            number: self.ring.header().number.load(Ordering::Relaxed),
            size: self.ring.size,
            used: self.used(),
            puts: self.puts,
            refused: self.refused,
            corrupt_claims: self.corrupt,
        }
    }

    #[cold]
    fn begin_writing(&mut self) -> Result<(), OwnerError> {
        if self.writes == Some(Side::Process) {
            return Err(OwnerError::OtherDirection);
        }
        let writer = &self.ring.header().peer.writer;
        let mine = Side::RealTime as u32;
        match writer.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed) {
            Err(other) if other == Side::Process as u32 => {
                self.writes = Some(Side::Process);
                Err(OwnerError::OtherDirection)
            }
            _ => {
                self.writes = Some(Side::RealTime);
                Ok(())
            }
        }
    }

    /// Takes over how far the other side has read, if that can be.
    #[inline]
    fn look_at_reader(&mut self) {
        let Index(index) = &self.ring.header().read;
        let claim = index.load(Ordering::Acquire);
        if (self.read..=self.written).contains(&claim) {
            self.read = claim;
        } else {
            self.refuse_claim();
        }
    }

    /// Takes over how far processes have written, if that can be. Where this side writes, nothing is to be taken over.
    #[inline]
    fn look_at_writer(&mut self) {
        let claim = self.ring.header().written.0.load(Ordering::Acquire);
        if self.writes == Some(Side::RealTime) || claim == self.written {
            return;
        }
        self.look_at_reader();
        if (self.written..=self.read.saturating_add(self.ring.size)).contains(&claim) {
            self.written = claim;
        } else {
            self.refuse_claim();
        }
    }

    /// A claim that cannot be: the FIFO is emptied, for nobody knows what in it has been read.
    #[cold]
    fn refuse_claim(&mut self) {
        self.corrupt += 1;
        self.empty();
        let Header { written, counts, .. } = self.ring.header();
        written.0.store(self.written, Ordering::Release);
        counts.corrupt_claims.store(self.corrupt, Ordering::Relaxed);
    }

    fn empty(&mut self) {
        self.read = self.written;
        self.ring.header().read.0.store(self.read, Ordering::Release);
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
    peer.bell.fetch_add(1, Ordering::Release);
    futex::wake_shared(&peer.bell, u32::MAX);
}
