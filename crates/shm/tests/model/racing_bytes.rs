//! The model's counterpart of the crate's module `bytes` where a byte may be read while it is overwritten: each is an
//! atomic, so the model checker shows every mixture that a reader can see.

use loom::sync::atomic::{AtomicU8, Ordering};
use std::ptr::NonNull;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [AtomicU8]);

impl Bytes<'_> {
    /// # Safety
    /// None is needed: it is there for the ring to compile.
    pub(crate) unsafe fn new(_: NonNull<u8>, _: usize) -> Self {
        Self(&[])
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn copy_in(&self, at: usize, from: &[u8]) {
        for (cell, byte) in self.0[at..].iter().zip(from) {
            cell.store(*byte, Ordering::Relaxed);
        }
    }

    pub(crate) fn copy_out(&self, at: usize, to: &mut [u8]) {
        for (cell, byte) in self.0[at..].iter().zip(to) {
            *byte = cell.load(Ordering::Relaxed);
        }
    }
}
