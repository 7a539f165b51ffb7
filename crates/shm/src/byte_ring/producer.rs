//! The side that puts.

use super::known::Known;
use super::{ByteRing, Corrupt, PutError};
use crate::sync::{ATTEMPTS, Ordering};

/// The side that puts. There is to be one at a time.
#[derive(Debug)]
pub struct Producer<'a>(pub(super) Known<'a>);

impl<'a> Producer<'a> {
    /// The producer of a ring, after whatever an earlier producer has put. It takes the ring for full until it has
    /// looked.
    #[must_use]
    pub fn new(ring: ByteRing<'a>) -> Self {
        let Self(mut known) = Self::anew(ring);
        known.read = known.written.saturating_sub(u64::from(ring.capacity));
        Self(known)
    }

    /// The producer of a ring that it takes for empty, whatever the consumers claim to have read.
    #[must_use]
    pub fn anew(ring: ByteRing<'a>) -> Self {
        let written = ring.indices.written.0.load(Ordering::Acquire);
        Self(Known {
            ring,
            written,
            read: written,
        })
    }

    /// Puts a message, whole. O(length). How far the consumers have read is looked up only where the room that is known
    /// is too small; [`Producer::room`] looks at once.
    ///
    /// # Errors
    /// See [`PutError`]; nothing was written.
    #[inline]
    pub fn put(&mut self, message: &[u8]) -> Result<(), PutError> {
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        if length > self.0.ring.capacity - self.0.unread() {
            let room = self.room().map_err(|Corrupt| PutError::Corrupt)?;
            if length > room {
                return Err(PutError::Full(room));
            }
        }
        let ring = self.0.ring;
        ring.write(self.0.written, message);
        self.0.written = self.0.written.wrapping_add(u64::from(length));
        ring.indices.written.0.store(self.0.written, Ordering::Release);
        Ok(())
    }

    /// Bytes that are free.
    ///
    /// # Errors
    /// [`Corrupt`] where the consumers claim to have read what was never written, or lost what they had read.
    pub fn room(&mut self) -> Result<u32, Corrupt> {
        Ok(self.0.ring.capacity - self.unread()?)
    }

    /// Bytes that were put and not read.
    ///
    /// # Errors
    /// As [`Producer::room`].
    #[inline]
    pub fn unread(&mut self) -> Result<u32, Corrupt> {
        self.0.look_at_read()?;
        Ok(self.0.unread())
    }

    /// Takes back what was put, as a consumer beside the others; see [`Consumer::get`](super::Consumer::get).
    ///
    /// # Errors
    /// As [`Producer::room`]; nothing was taken.
    #[inline]
    pub fn take(&mut self, into: &mut [u8]) -> Result<usize, Corrupt> {
        for _ in 0..ATTEMPTS {
            self.0.look_at_read()?;
            if let Some(count) = self.0.try_take(into) {
                return Ok(count);
            }
        }
        Ok(0)
    }

    /// Drops all that was put and not read; returns how many bytes it was, or a little more where a consumer took some
    /// at the same time.
    ///
    /// # Errors
    /// As [`Producer::room`]; nothing was dropped.
    pub fn discard(&mut self) -> Result<u32, Corrupt> {
        let count = self.unread()?;
        self.restart();
        Ok(count)
    }

    /// Makes the ring empty, and valid again where it was [`Corrupt`].
    pub fn restart(&mut self) {
        self.0.restart();
    }
}
