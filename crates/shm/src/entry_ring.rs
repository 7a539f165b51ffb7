//! A ring of entries in shared memory, between two sides that do not trust each other.

pub use crate::sync::ENTRIES;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
// What nobody reads or writes here is no part of the model.
use core::sync::atomic::AtomicU32 as Filling;

/// What can be in a ring: three words.
pub trait Word3: Sized {
    /// Itself as words.
    fn to_words(self) -> [u64; 3];
    /// What the words mean; `None` for words that mean nothing.
    fn from_words(words: [u64; 3]) -> Option<Self>;
}

/// The other side has written what cannot be: more entries than the ring has, or one that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// A ring of [`ENTRIES`] entries with one writer and one reader, neither of which trusts the other: each keeps its own
/// position to itself ([`Position`]) and only publishes it here.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct EntryRing {
    pub(crate) written: AtomicU32,
    _apart: [Filling; 15],
    pub(crate) read: AtomicU32,
    _apart_again: [Filling; 15],
    pub(crate) entries: [[AtomicU64; 3]; ENTRIES],
}

/// Where one side of a ring is; kept outside the shared memory.
#[derive(Debug, Default)]
pub struct Position(pub(crate) u32);

impl Position {
    /// Where a side is that has passed so many entries, modulo 2³².
    #[must_use]
    pub const fn after(count: u32) -> Self {
        Self(count)
    }

    /// How many entries were passed, modulo 2³².
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.0
    }

    /// Whether it was passed before so many entries had been written, by [`EntryRing::written`] of the same ring.
    #[must_use]
    pub const fn is_before(&self, written: u32) -> bool {
        is_before(self.0, written)
    }
}

/// Whether the first of two counts that are less than 2³¹ apart, both modulo 2³², is the smaller one.
#[must_use]
pub const fn is_before(count: u32, other: u32) -> bool {
    other.wrapping_sub(count).cast_signed() > 0
}

impl Default for EntryRing {
    fn default() -> Self {
        Self {
            written: AtomicU32::new(0),
            _apart: core::array::from_fn(|_| Filling::new(0)),
            read: AtomicU32::new(0),
            _apart_again: core::array::from_fn(|_| Filling::new(0)),
            entries: core::array::from_fn(|_| core::array::from_fn(|_| AtomicU64::new(0))),
        }
    }
}

impl EntryRing {
    /// Whether nothing is to be read; wrong claims of the writer count as something.
    #[must_use]
    pub fn is_empty(&self, position: &Position) -> bool {
        self.written.load(Ordering::Acquire) == position.0
    }

    /// How many entries have been written, modulo 2³², if the writer is to be believed.
    #[must_use]
    pub fn written(&self) -> u32 {
        self.written.load(Ordering::Acquire)
    }

    /// Appends an entry; `false` where the ring is full, or the reader claims to have read what was never written.
    pub fn push(&self, position: &mut Position, entry: impl Word3) -> bool {
        let unread = position.0.wrapping_sub(self.read.load(Ordering::Acquire));
        if unread as usize >= ENTRIES {
            return false;
        }
        let place = &self.entries[position.0 as usize % ENTRIES];
        for (cell, word) in place.iter().zip(entry.to_words()) {
            cell.store(word, Ordering::Relaxed);
        }
        position.0 = position.0.wrapping_add(1);
        self.written.store(position.0, Ordering::Release);
        true
    }

    /// Takes the oldest entry; `None` where there is none.
    ///
    /// # Errors
    /// [`Broken`]: the writer does not keep to the protocol.
    pub fn pop<T: Word3>(&self, position: &mut Position) -> Result<Option<T>, Broken> {
        let unread = self.written.load(Ordering::Acquire).wrapping_sub(position.0);
        if unread == 0 {
            return Ok(None);
        }
        if unread as usize > ENTRIES {
            return Err(Broken);
        }
        let place = &self.entries[position.0 as usize % ENTRIES];
        let words = [0, 1, 2].map(|word: usize| place[word].load(Ordering::Relaxed));
        position.0 = position.0.wrapping_add(1);
        self.read.store(position.0, Ordering::Release);
        T::from_words(words).ok_or(Broken).map(Some)
    }
}
