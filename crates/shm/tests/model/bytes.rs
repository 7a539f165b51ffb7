//! The model's counterpart of the crate's module `bytes`: each byte is a cell in which the model checker notices an
//! access beside another.

use loom::cell::UnsafeCell;
use std::ptr::NonNull;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [UnsafeCell<u8>]);

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
            // SAFETY: the model checker ends the run where anybody else accesses the cell at the same time.
            cell.with_mut(|cell| unsafe { *cell = *byte });
        }
    }

    pub(crate) fn copy_out(&self, at: usize, to: &mut [u8]) {
        for (cell, byte) in self.0[at..].iter().zip(to) {
            // SAFETY: as in `copy_in`.
            *byte = cell.with(|cell| unsafe { *cell });
        }
    }
}
