//! What one side knows of a ring's indices, and how it takes over what the memory claims.

use super::{ByteRing, Corrupt};
use crate::sync::{ATTEMPTS, Ordering};

/// The indices as one side knows them. What is between them is never more than the capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) ring: ByteRing<'a>,
    pub(super) written: u64,
    pub(super) read: u64,
}

impl Known<'_> {
    /// Bytes between the indices.
    #[expect(clippy::cast_possible_truncation, reason = "at most the capacity")]
    #[inline]
    pub(super) fn unread(&self) -> u32 {
        self.written.wrapping_sub(self.read) as u32
    }

    /// Takes over how far the ring was read, for the side that knows itself how far it was written.
    #[inline]
    pub(super) fn look_at_read(&mut self) -> Result<(), Corrupt> {
        let read = self.ring.indices.read.0.load(Ordering::Acquire);
        if (self.read..=self.written).contains(&read) {
            self.read = read;
            Ok(())
        } else {
            Err(Corrupt)
        }
    }

    /// Takes over both indices, for a side that others may take from beside it. Where they move all the time, what was
    /// known stays: a take by it fails at worst.
    #[inline]
    pub(super) fn look_at_both(&mut self) -> Result<(), Corrupt> {
        let indices = self.ring.indices;
        for _ in 0..ATTEMPTS {
            let read = indices.read.0.load(Ordering::Acquire);
            let written = indices.written.0.load(Ordering::Acquire);
            // Only indices of one time say something of each other.
            if indices.read.0.load(Ordering::Relaxed) == read {
                return self.take_over(written, read);
            }
        }
        Ok(())
    }

    #[inline]
    fn take_over(&mut self, written: u64, read: u64) -> Result<(), Corrupt> {
        let goes_on = self.read <= read && self.written <= written;
        let fits = read <= written && written - read <= u64::from(self.ring.capacity);
        if !(goes_on && fits) {
            return Err(Corrupt);
        }
        (self.written, self.read) = (written, read);
        Ok(())
    }

    /// Copies what is there and fits, and claims it for this side; None where another has taken some of it meanwhile.
    #[inline]
    pub(super) fn try_take(&mut self, into: &mut [u8]) -> Option<usize> {
        let count = into.len().min(self.unread() as usize);
        if count == 0 {
            return Some(0);
        }
        self.ring.read(self.read, &mut into[..count]);
        self.move_read(self.read.wrapping_add(count as u64)).then_some(count)
    }

    /// Says that everything up to `next` is read, unless another has taken some of it meanwhile.
    #[inline]
    pub(super) fn move_read(&mut self, next: u64) -> bool {
        let index = &self.ring.indices.read.0;
        // The release keeps the copying before it, the acquire what is written over it later behind it. Who looks after
        // it whether the other side sleeps needs no fence, if that look is in the one order too.
        let moved = index.compare_exchange(self.read, next, Ordering::SeqCst, Ordering::Relaxed);
        if moved.is_ok() {
            self.read = next;
        }
        moved.is_ok()
    }

    /// Makes the ring empty and both indices what this side knows of the written one.
    pub(super) fn restart(&mut self) {
        let indices = self.ring.indices;
        self.read = self.written;
        // An exchange, for a take that it overtakes is to end before anything is written over what that copies.
        indices.read.0.swap(self.read, Ordering::AcqRel);
        indices.written.0.store(self.written, Ordering::Release);
    }
}
