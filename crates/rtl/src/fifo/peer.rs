//! A process's side of a FIFO. It believes the real-time side no more than that believes it: an impossible index makes
//! it begin anew, never read or write outside the ring.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use freehold_linux::{clock, futex};
use freehold_shm::byte_ring::{Consumer, Corrupt, Producer};

use super::{Counts, FifoView, Header, MAGIC, Mapping, Side};
use crate::area::Area;

/// A process's side of one FIFO.
#[derive(Debug)]
pub struct ProcessSide(Mapping);

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// No room at all.
    #[error("the FIFO is full")]
    Full,
    /// Real-time threads write into this FIFO.
    #[error("real-time threads write into this FIFO; processes only read it")]
    OtherDirection,
}

impl ProcessSide {
    /// Takes up what was published.
    ///
    /// # Errors
    /// It is no FIFO.
    pub fn of(area: Area) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not a FIFO of a real-time module");
        let header = area.at::<Header>(0).ok_or_else(wrong)?;
        let (magic, size) = (
            header.magic.load(Ordering::Acquire),
            header.size.load(Ordering::Relaxed),
        );
        if magic != MAGIC {
            return Err(wrong());
        }
        Mapping::of(area, size).map(Self).map_err(|_| wrong())
    }

    /// Bytes that can be read. Indices that cannot be are taken for an empty FIFO: the owner's next look puts them
    /// right, and until then there is nothing to read.
    #[must_use]
    pub fn used(&self) -> u64 {
        u64::from(Consumer::new(self.0.ring).unread().unwrap_or(0))
    }

    /// Bytes that can be written.
    #[must_use]
    pub fn room(&self) -> u64 {
        u64::from(self.0.ring.capacity()) - self.used()
    }

    /// Whether processes may write into it.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.0.header().peer.writer.load(Ordering::Relaxed) != Side::RealTime as u32
    }

    /// Takes out what is there, at most as much as fits; 0 where nothing is there, or other readers have been faster.
    pub fn read(&self, to: &mut [u8]) -> usize {
        Consumer::new(self.0.ring).get(to).unwrap_or(0)
    }

    /// Writes as much of `bytes` as there is room for; how much. One writer at a time.
    ///
    /// # Errors
    /// See [`WriteError`]: there is no room, or real-time threads write here.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, WriteError> {
        let header = self.0.header();
        let claim = header
            .peer
            .writer
            .compare_exchange(0, Side::Process as u32, Ordering::Relaxed, Ordering::Relaxed);
        if claim == Err(Side::RealTime as u32) {
            return Err(WriteError::OtherDirection);
        }
        let ring = self.0.ring;
        let mut producer = Producer::new(ring);
        let room = producer.room().unwrap_or_else(|Corrupt| {
            // The owner is to find new bytes: then it looks, and puts the indices right.
            producer = Producer::anew(ring);
            ring.capacity()
        });
        let count = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if count == 0 && !bytes.is_empty() {
            return Err(WriteError::Full);
        }
        producer.put(&bytes[..count]).map_err(|_| WriteError::Full)?;
        Ok(count)
    }

    /// The word that changes with each read and write of a process.
    #[must_use]
    pub fn operations(&self) -> &AtomicU32 {
        &self.0.header().peer.operations
    }

    /// Tells the real-time side's handler of a read or a write.
    pub fn tell_handler(&self) {
        let operations = &self.0.header().peer.operations;
        operations.fetch_add(1, Ordering::Release);
        futex::wake_shared(operations, u32::MAX);
    }

    /// Sleeps until the real-time side has read or written, or until `most` has passed. `wanted` is asked between
    /// arming and sleeping: true when there is no need to sleep.
    pub fn wait(&self, most: Duration, wanted: impl Fn(&Self) -> bool) {
        let peer = &self.0.header().peer;
        let seen = peer.doorbell.load(Ordering::Acquire);
        peer.armed.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !wanted(self) {
            let until = clock::now().saturating_add(most);
            // However it ends, the caller looks again.
            let _ = futex::wait_shared(&peer.doorbell, seen, Some(until));
        }
    }

    /// Says that this process has it open, for an opener of its own.
    pub fn set_opened(&self, opened: bool) {
        let process = if opened { std::process::id() } else { 0 };
        self.0.header().peer.opened_by.store(process, Ordering::Relaxed);
    }

    /// The descriptor of its module's page of status, in the owner's process.
    #[must_use]
    pub fn owner_status(&self) -> u32 {
        self.0.header().status.load(Ordering::Relaxed)
    }

    /// The FIFO that writes to this one are meant for, if it is another.
    #[must_use]
    pub fn pair(&self) -> Option<u32> {
        self.0.header().peer.pair.load(Ordering::Relaxed).checked_sub(1)
    }

    /// What others see of it.
    #[must_use]
    pub fn view(&self) -> FifoView {
        let header = self.0.header();
        let Counts {
            puts,
            refused,
            corrupt_claims,
        } = &header.counts;
        FifoView {
            number: header.number.load(Ordering::Relaxed),
            size: u64::from(self.0.ring.capacity()),
            used: self.used(),
            puts: puts.load(Ordering::Relaxed),
            refused: refused.load(Ordering::Relaxed),
            corrupt_claims: corrupt_claims.load(Ordering::Relaxed),
        }
    }

    /// Overwrites how far this side claims to have read, to see what the owner makes of it.
    pub fn corrupt_read_index(&self, value: u64) {
        self.0.ring.forge_read(value);
    }
}
