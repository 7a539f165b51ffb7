//! Locked memory that pages are copied into and out of.
//!
//! A copy by system call costs three times as much as the copy itself. Here the memory is mapped, and safe: nobody else
//! has it, it is in frames before it is touched, and each page is used by one thread at a time.

use super::{LockedError, SharedMapping, locked_memfd};
use crate::{Errno, PAGE_SIZE, PageRange};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// A thread copies.
const BUSY: u8 = 1;
/// The page has its frame.
const BACKED: u8 = 2;

/// Pages of locked memory that nobody else maps. A page gets its frame, for good, when it is first written.
///
/// All operations are async-signal-safe.
#[derive(Debug)]
pub struct LockedPages {
    mapping: SharedMapping,
    pages: Box<[AtomicU8]>,
    frames: AtomicU32,
}

impl LockedPages {
    /// `pages` pages of zeros, without frames. `name` shows in `/proc/PID/maps`.
    ///
    /// # Errors
    /// See [`LockedError`].
    pub fn create(name: &CStr, pages: usize) -> Result<Self, LockedError> {
        // The descriptor is closed here: the mapping is the only way to the memory, which nobody can shorten.
        let (mapping, _) = locked_memfd(name, pages)?;
        Ok(Self {
            mapping,
            pages: (0..pages).map(|_| AtomicU8::new(0)).collect(),
            frames: AtomicU32::new(0),
        })
    }

    /// Frames it holds.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Whether the page has its frame: it was written once.
    #[must_use]
    pub fn is_backed(&self, page: usize) -> bool {
        self.pages
            .get(page)
            .is_some_and(|state| state.load(Ordering::Acquire) & BACKED != 0)
    }

    /// Copies `bytes` to the front of a page.
    ///
    /// # Errors
    /// `INVAL` if there is no such page or the bytes are more than a page; `BUSY` if another thread copies it; else the
    /// kernel's refusal of a frame.
    pub fn write(&self, page: usize, bytes: &[u8]) -> Result<(), Errno> {
        let (start, state) = self.enter(page, bytes.len())?;
        self.back(page, state)?;
        // SAFETY: `start` is the page, which is mapped writable as long as `self` lives, has its frame, and is used by
        // this call alone, as `enter` has seen to. Whoever has a reference into the mapping is inside `look` or
        // `change` of its page, which `enter` would have found busy: so `bytes` is no part of this one. The length is
        // at most a page.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
        self.leave(page, BACKED);
        Ok(())
    }

    /// Copies from the front of a page; zeros from one that was never written, which takes no frame.
    ///
    /// # Errors
    /// `INVAL` if there is no such page or the bytes are more than a page; `BUSY` if another thread copies it.
    pub fn read(&self, page: usize, bytes: &mut [u8]) -> Result<(), Errno> {
        let (start, state) = self.enter(page, bytes.len())?;
        if state & BACKED == 0 {
            bytes.fill(0);
        } else {
            // SAFETY: as in `write`, in the other direction.
            unsafe { std::ptr::copy_nonoverlapping(start, bytes.as_mut_ptr(), bytes.len()) };
        }
        self.leave(page, 0);
        Ok(())
    }

    /// Shows a page where it is: zeros of one that was never written, which takes no frame.
    ///
    /// # Errors
    /// `INVAL` if there is no such page; `BUSY` if another thread uses it.
    pub fn look<R>(&self, page: usize, see: impl FnOnce(&[u8; PAGE_SIZE]) -> R) -> Result<R, Errno> {
        const ZEROS: &[u8; PAGE_SIZE] = &[0; PAGE_SIZE];
        let (start, state) = self.enter(page, PAGE_SIZE)?;
        let seen = if state & BACKED == 0 {
            see(ZEROS)
        } else {
            // SAFETY: as in `write`: a whole page that is this call's alone until `leave`, so that nobody changes it.
            see(unsafe { &*start.cast() })
        };
        self.leave(page, 0);
        Ok(seen)
    }

    /// Has `change` write a page where it is.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn change<R>(&self, page: usize, change: impl FnOnce(&mut [u8; PAGE_SIZE]) -> R) -> Result<R, Errno> {
        let (start, state) = self.enter(page, PAGE_SIZE)?;
        self.back(page, state)?;
        // SAFETY: as in `look`, and this is the only reference; `back` has seen to its frame.
        let changed = change(unsafe { &mut *start.cast() });
        self.leave(page, BACKED);
        Ok(changed)
    }

    /// Makes the page this thread's alone; its first byte, and its state before.
    fn enter(&self, page: usize, length: usize) -> Result<(*mut u8, u8), Errno> {
        let (Some(start), Some(state)) = (self.mapping.page(page), self.pages.get(page)) else {
            return Err(Errno::INVAL);
        };
        if length > PAGE_SIZE {
            return Err(Errno::INVAL);
        }
        match state.fetch_or(BUSY, Ordering::Acquire) {
            state if state & BUSY == 0 => Ok((start, state)),
            _ => Err(Errno::BUSY),
        }
    }

    /// Gives the page of this thread its frame if it has none; leaves it where there is none to be had.
    fn back(&self, page: usize, state: u8) -> Result<(), Errno> {
        if state & BACKED == 0 {
            self.mapping
                .populate(PageRange::single(page))
                .inspect_err(|_| self.leave(page, 0))?;
            self.frames.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn leave(&self, page: usize, gained: u8) {
        if let Some(state) = self.pages.get(page) {
            let before = state.load(Ordering::Relaxed);
            // Nobody else changes the state while this thread has the page.
            state.store((before | gained) & !BUSY, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BUSY, LockedPages};
    use crate::{Errno, PAGE_SIZE};
    use std::sync::atomic::Ordering;

    #[test]
    fn pages_keep_what_was_written_and_are_zeros_before() {
        let locked = LockedPages::create(c"pages-test", 3).unwrap();
        let mut bytes = [1; PAGE_SIZE];
        locked.read(2, &mut bytes).unwrap();
        assert_eq!((bytes, locked.frames()), ([0; PAGE_SIZE], 0));
        locked.write(2, &[7; PAGE_SIZE]).unwrap();
        locked.write(2, &[8; 100]).unwrap();
        locked.read(2, &mut bytes).unwrap();
        assert_eq!((bytes[99], bytes[100], bytes[PAGE_SIZE - 1]), (8, 7, 7));
        assert_eq!(
            (locked.frames(), locked.is_backed(2), locked.is_backed(1)),
            (1, true, false)
        );
    }

    #[test]
    fn pages_are_seen_and_changed_where_they_are() {
        let locked = LockedPages::create(c"pages-test", 2).unwrap();
        assert_eq!(locked.look(1, |page| page[5]), Ok(0));
        assert_eq!(locked.frames(), 0);
        let inside = |page: &mut [u8; PAGE_SIZE]| {
            page[5] = 7;
            // It is this thread's alone.
            locked.read(1, &mut [0])
        };
        assert_eq!(locked.change(1, inside), Ok(Err(Errno::BUSY)));
        assert_eq!(locked.look(1, |page| page[5]), Ok(7));
        assert_eq!((locked.frames(), locked.is_backed(1)), (1, true));
        assert_eq!(locked.look(2, |_| ()), Err(Errno::INVAL));
        assert_eq!(locked.change(2, |_| ()), Err(Errno::INVAL));
    }

    #[test]
    fn what_does_not_fit_or_is_in_use_is_refused() {
        let locked = LockedPages::create(c"pages-test", 1).unwrap();
        assert_eq!(locked.write(1, &[0]), Err(Errno::INVAL));
        assert_eq!(locked.read(0, &mut [0; PAGE_SIZE + 1]), Err(Errno::INVAL));
        locked.pages[0].fetch_or(BUSY, Ordering::Relaxed);
        assert_eq!(locked.write(0, &[0]), Err(Errno::BUSY));
        assert_eq!(locked.read(0, &mut [0]), Err(Errno::BUSY));
    }

    #[test]
    fn threads_copy_side_by_side() {
        let locked = LockedPages::create(c"pages-test", 4).unwrap();
        std::thread::scope(|scope| {
            for page in 0..4_u8 {
                let locked = &locked;
                scope.spawn(move || {
                    for round in 0..100_u8 {
                        let at = usize::from(page);
                        locked.write(at, &[page ^ round; PAGE_SIZE]).unwrap();
                        let mut found = [0; PAGE_SIZE];
                        locked.read(at, &mut found).unwrap();
                        assert_eq!(found, [page ^ round; PAGE_SIZE]);
                    }
                });
            }
        });
        assert_eq!(locked.frames(), 4);
    }
}
