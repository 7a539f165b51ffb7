//! A side that gets.

use super::known::Known;
use super::{ByteRing, Corrupt, Producer};
use crate::sync::{ATTEMPTS, Ordering};

/// A side that gets. There may be several, in several processes: each byte goes to one of them.
#[derive(Debug)]
pub struct Consumer<'a>(Known<'a>);

impl<'a> Consumer<'a> {
    /// A consumer of a ring, from where others have stopped. It knows nothing yet but where that is said to be.
    #[must_use]
    pub fn new(ring: ByteRing<'a>) -> Self {
        let read = ring.indices.read.0.load(Ordering::Acquire);
        Self(Known {
            ring,
            written: read,
            read,
        })
    }

    /// Gets as much as is there and fits; returns how many bytes. 0 where nothing is there, or others have been faster
    /// again and again. What was got is said in the one order of all `SeqCst` operations. O(length).
    ///
    /// # Errors
    /// [`Corrupt`]; nothing was taken.
    #[inline]
    pub fn get(&mut self, into: &mut [u8]) -> Result<usize, Corrupt> {
        for _ in 0..ATTEMPTS {
            self.0.look_at_both()?;
            if let Some(count) = self.0.try_take(into) {
                return Ok(count);
            }
        }
        Ok(0)
    }

    /// Bytes that are there.
    ///
    /// # Errors
    /// [`Corrupt`] where more is said to be written than the ring holds, or less than before, or less to be read.
    #[inline]
    pub fn unread(&mut self) -> Result<u32, Corrupt> {
        self.0.look_at_both()?;
        Ok(self.0.unread())
    }

    /// Drops all that is there; returns how many bytes.
    ///
    /// # Errors
    /// As [`Consumer::unread`]; nothing was dropped.
    pub fn discard(&mut self) -> Result<u32, Corrupt> {
        for _ in 0..ATTEMPTS {
            let count = self.unread()?;
            if self.0.move_read(self.0.written) {
                return Ok(count);
            }
        }
        Ok(0)
    }

    /// Makes the ring empty, and valid again where it was [`Corrupt`], from what this side was last able to believe.
    /// For the one side that is believed; what a producer puts at the same time may be lost.
    pub fn restart(&mut self) {
        self.0.restart();
    }

    /// This side as the producer, which there must not be yet.
    #[must_use]
    pub fn to_producer(&self) -> Producer<'a> {
        Producer(self.0)
    }
}
