//! An environment that is being written down, in memory of a slot.

use core::ffi::c_char;

use crate::programs::environment::{PRELOAD, preloaded};
use crate::programs::{Text, Texts, agent};

/// Bytes for texts; before them are the addresses.
const TEXTS: usize = 8192;

/// A list of addresses, and room for the one text that is new. What does not fit is `None`, and the environment stays.
pub(super) struct List {
    addresses: &'static mut [Text],
    count: usize,
    texts: &'static mut [u8],
    length: usize,
}

impl List {
    /// An empty one in `bytes` of memory at `address`, which are the caller's alone.
    pub(super) fn at(address: usize, bytes: usize) -> Self {
        let count = (bytes - TEXTS) / size_of::<Text>();
        let texts = core::ptr::with_exposed_provenance_mut(address + bytes - TEXTS);
        // SAFETY: the slot's own memory, whatever it holds; the two parts lie side by side.
        unsafe {
            Self {
                addresses: core::slice::from_raw_parts_mut(core::ptr::with_exposed_provenance_mut(address), count),
                count: 0,
                texts: core::slice::from_raw_parts_mut(texts, TEXTS),
                length: 0,
            }
        }
    }

    /// Adds a text.
    pub(super) fn push(&mut self, text: Text) -> Option<()> {
        *self.addresses.get_mut(self.count)? = text;
        self.count += 1;
        Some(())
    }

    /// Adds the list of libraries to be preloaded: `first`, and of `others` all that are not the agent.
    pub(super) fn preload(&mut self, first: Option<&[u8]>, others: &[u8]) -> Option<()> {
        let start = self.texts.get(self.length..)?.as_ptr();
        self.write(PRELOAD)?;
        let mut between: &[u8] = b"=";
        for path in first
            .into_iter()
            .chain(preloaded(others).filter(|path| *path != agent()))
        {
            self.write(between)?;
            self.write(path)?;
            between = b":";
        }
        self.write(b"\0")?;
        self.push(start.cast::<c_char>())
    }

    fn write(&mut self, bytes: &[u8]) -> Option<()> {
        let place = self.texts.get_mut(self.length..self.length + bytes.len())?;
        for (to, from) in place.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.length += bytes.len();
        Some(())
    }

    /// Where the whole list is.
    pub(super) fn end(&mut self) -> Option<Texts> {
        self.push(core::ptr::null())?;
        Some(self.addresses.as_ptr())
    }
}
