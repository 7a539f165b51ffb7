//! Memory that the other side may write at any time.
//!
//! To the language a plain copy of such memory is a data race, so each access is volatile. What is read is whatever was
//! there at some time: whole, if both sides keep to the protocol of the ring.

use core::marker::PhantomData;
use core::ptr::NonNull;

/// Bytes that are shared for as long as `'a`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a> {
    start: NonNull<u8>,
    length: usize,
    memory: PhantomData<&'a ()>,
}

// SAFETY: plain memory without a tie to a thread; every access is volatile and may race by design.
unsafe impl Send for Bytes<'_> {}
// SAFETY: as above.
unsafe impl Sync for Bytes<'_> {}

impl Bytes<'_> {
    /// # Safety
    /// `length` bytes from `start` on are mapped readable and writable for as long as the result's lifetime, and this
    /// process reaches them through such values only.
    pub(crate) const unsafe fn new(start: NonNull<u8>, length: usize) -> Self {
        Self {
            start,
            length,
            memory: PhantomData,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.length
    }

    /// Copies `from` to the bytes from `at` on. Bytes past the end are left out.
    #[inline]
    pub(crate) fn copy_in(&self, at: usize, from: &[u8]) {
        let count = from.len().min(self.length.saturating_sub(at));
        let mut done = 0;
        while count - done >= 8 {
            // SAFETY: eight bytes of the memory from `at + done` on, and of the slice; neither needs alignment here.
            unsafe {
                let word = from.as_ptr().add(done).cast::<u64>().read_unaligned();
                write_word(self.start.as_ptr().add(at + done), word);
            }
            done += 8;
        }
        for (offset, byte) in from[done..count].iter().enumerate() {
            // SAFETY: a byte of the memory, as `count` is bounded by its length.
            unsafe { self.start.as_ptr().add(at + done + offset).write_volatile(*byte) };
        }
    }

    /// Copies the bytes from `at` on to `to`. Bytes past the end are left out.
    #[inline]
    pub(crate) fn copy_out(&self, at: usize, to: &mut [u8]) {
        let count = to.len().min(self.length.saturating_sub(at));
        let mut done = 0;
        while count - done >= 8 {
            // SAFETY: eight bytes of the memory from `at + done` on, and of the slice; neither needs alignment here.
            unsafe {
                let word = read_word(self.start.as_ptr().add(at + done));
                to.as_mut_ptr().add(done).cast::<u64>().write_unaligned(word);
            }
            done += 8;
        }
        for (offset, byte) in to[done..count].iter_mut().enumerate() {
            // SAFETY: a byte of the memory, as `count` is bounded by its length.
            *byte = unsafe { self.start.as_ptr().add(at + done + offset).read_volatile() };
        }
    }
}

/// A word of eight bytes, which need not be aligned: the packed type says so to the compiler.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned(u64);

/// # Safety
/// Eight bytes from `to` on may be written.
unsafe fn write_word(to: *mut u8, word: u64) {
    // SAFETY: the caller's bytes; the type has alignment 1.
    unsafe { to.cast::<Unaligned>().write_volatile(Unaligned(word)) };
}

/// # Safety
/// Eight bytes from `from` on may be read.
unsafe fn read_word(from: *const u8) -> u64 {
    // SAFETY: the caller's bytes; the type has alignment 1.
    unsafe { from.cast::<Unaligned>().read_volatile() }.0
}
