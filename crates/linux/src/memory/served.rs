//! A mapping whose pages another process brings and takes.

use super::{MapError, SharedMapping};
use crate::fault::access::{self, Refused};
use crate::userfault::{Modes, RegisterError, Userfault};
use crate::{Errno, PAGE_SIZE, PageRange};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// A mapping could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// The mapping.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Its registration.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// A [`SharedMapping`] registered with a userfaultfd that somebody else reads: an access to an absent page waits until
/// that one has brought it, in every thread, and in system calls too if the userfaultfd's scope is full.
///
/// Whoever owns this keeps a duplicate of the userfaultfd open for longer than it: with the last one closed, absent
/// pages would read as zeros.
#[derive(Debug)]
pub struct ServedMapping {
    mapping: SharedMapping,
}

impl ServedMapping {
    /// Registers `mapping`. It must not have been touched: pages that are there already fault no more.
    ///
    /// # Errors
    /// See [`ServeError`]; the mapping is gone then.
    pub fn new(mapping: SharedMapping, userfault: &Userfault, modes: Modes) -> Result<Self, ServeError> {
        let addresses = mapping.addresses(mapping.whole()).ok_or(MapError::OutOfBounds)?;
        // SAFETY: the mapping is this value's own, and it gives out raw pointers and atomic accesses only.
        unsafe { userfault.register(addresses, modes) }?;
        Ok(Self { mapping })
    }

    /// The first byte. No Rust reference to what lies there may be made, unless to atomics.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// The length in pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.mapping.pages()
    }

    /// The length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.mapping.length()
    }

    /// The length in words of eight bytes.
    #[inline]
    #[must_use]
    pub fn words(&self) -> usize {
        self.mapping.length() / WORD
    }

    /// All words, to be read and written as any others; an access waits for its page. In a mapping for reading only a
    /// write ends the process, as it does everywhere.
    #[inline]
    #[must_use]
    pub fn as_words(&self) -> &[AtomicU64] {
        // SAFETY: a mapping begins at a page, it is `words` words long and lives as long as the borrow, and only
        // atomics ever refer to what lies there.
        unsafe { slice::from_raw_parts(self.base().cast::<AtomicU64>(), self.words()) }
    }

    /// Reads the `index`th word; waits for its page. `None` past the end.
    #[inline]
    #[must_use]
    pub fn read_word(&self, index: usize) -> Option<u64> {
        self.as_words().get(index).map(|word| word.load(Ordering::Relaxed))
    }

    /// Writes the `index`th word; waits for its page. `None` past the end. In a mapping for reading only it ends the
    /// process, as such a write does everywhere.
    #[inline]
    pub fn write_word(&self, index: usize, value: u64) -> Option<()> {
        self.as_words()
            .get(index)
            .map(|word| word.store(value, Ordering::Relaxed))
    }

    /// As [`read_word`](Self::read_word), or an error where the page cannot be had, if a handler is installed
    /// ([`crate::fault::install`]); another access asks for the page anew.
    ///
    /// # Errors
    /// [`Refused`]; also past the end.
    pub fn try_read_word(&self, index: usize) -> Result<u64, Refused> {
        let word = self.as_words().get(index).ok_or(Refused)?;
        // SAFETY: a word of the mapping, which is mapped for reading at the least.
        unsafe { access::load(word.as_ptr()) }.inspect_err(|_| self.forget(index))
    }

    /// As [`write_word`](Self::write_word), with the errors of [`try_read_word`](Self::try_read_word).
    ///
    /// # Errors
    /// [`Refused`]; also past the end.
    pub fn try_write_word(&self, index: usize, value: u64) -> Result<(), Refused> {
        let word = self.as_words().get(index).ok_or(Refused)?;
        // SAFETY: a word of the mapping; where that is for reading only, the write ends as every such write does.
        unsafe { access::store(word.as_ptr(), value) }.inspect_err(|_| self.forget(index))
    }

    /// What a refusal left of a word's page in the page table goes: it would refuse the next access, too.
    fn forget(&self, index: usize) {
        // Where that fails the next access is refused as well.
        let _ = self.zap(PageRange::single(index * WORD / PAGE_SIZE));
    }

    /// Drops this mapping's page-table entries of `range`; see [`SharedMapping::zap`].
    ///
    /// # Errors
    /// As [`SharedMapping::zap`].
    pub fn zap(&self, range: PageRange) -> Result<(), Errno> {
        self.mapping.zap(range)
    }
}
