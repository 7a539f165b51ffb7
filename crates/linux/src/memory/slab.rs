//! Pages of one private mapping, handed out one by one, each to one owner.

use super::LockedFramesError;
use super::anonymous::Anonymous;
use crate::{PAGE_SIZE, PageRange};
use rustix::mm::{Advice, ProtFlags};
use std::io::IoSliceMut;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number of pages that are there from the start; each costs a frame from its first use on.
#[derive(Debug)]
pub struct Slab {
    shared: Arc<Shared>,
}

/// A page that nobody else has. It goes back to its slab when it is dropped; what it holds at first is anybody's.
#[derive(Debug)]
pub struct SlabPage {
    shared: Arc<Shared>,
    at: usize,
}

#[derive(Debug)]
struct Shared {
    memory: Anonymous,
    free: Mutex<Free>,
}

/// Pages that nobody has.
#[derive(Debug)]
struct Free {
    /// Used before, and not given back to the kernel: those that came last are handed out first.
    warm: Vec<usize>,
    /// Without a frame; the last is handed out first.
    cold: Vec<usize>,
}

impl Slab {
    /// A slab of `pages` pages, at least one; none has a frame.
    ///
    /// # Errors
    /// [`LockedFramesError::Map`].
    pub fn create(pages: usize) -> Result<Self, LockedFramesError> {
        let memory = Anonymous::create(pages, ProtFlags::READ | ProtFlags::WRITE)?;
        let free = Free {
            warm: Vec::with_capacity(pages),
            cold: (0..pages).rev().collect(),
        };
        Ok(Self {
            shared: Arc::new(Shared {
                memory,
                free: Mutex::new(free),
            }),
        })
    }

    /// Takes `count` pages, in order of address, as near to one another as there are; `None` where there are fewer.
    #[must_use]
    pub fn take(&self, count: usize) -> Option<Vec<SlabPage>> {
        let mut free = self.shared.free();
        if free.warm.len() + free.cold.len() < count {
            return None;
        }
        let warm = free.warm.len() - count.min(free.warm.len());
        let mut places = free.warm.split_off(warm);
        let cold = free.cold.len() - (count - places.len());
        places.extend(free.cold.drain(cold..));
        drop(free);
        places.sort_unstable();
        let page = |at| SlabPage {
            shared: Arc::clone(&self.shared),
            at,
        };
        Some(places.into_iter().map(page).collect())
    }

    /// Gives the frames of free pages back to the kernel, but for `keep` of them.
    pub fn cool(&self, keep: usize) {
        let mut leaving = {
            let mut free = self.shared.free();
            let many = free.warm.len().saturating_sub(keep);
            // Those that came last are in the processor's cache.
            free.warm.drain(..many).collect::<Vec<_>>()
        };
        leaving.sort_unstable();
        for run in leaving.chunk_by(|one, next| one + 1 == *next) {
            if let Some(first) = run.first() {
                self.shared.release(PageRange::new(*first, run.len()));
            }
        }
        self.shared.free().cold.extend(leaving.into_iter().rev());
    }

    /// Pages that nobody has: with a frame, and without.
    #[must_use]
    pub fn free(&self) -> (usize, usize) {
        let free = self.shared.free();
        (free.warm.len(), free.cold.len())
    }
}

impl Shared {
    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back the frames of pages that the caller has taken off the lists.
    fn release(&self, range: PageRange) {
        // Where the kernel refuses, the frames stay until the next use.
        let _ = self.memory.advise(range, Advice::LinuxDontNeed);
    }

    fn page(&self, at: usize) -> *mut [u8; PAGE_SIZE] {
        self.memory.start(at).cast()
    }
}

impl Deref for SlabPage {
    type Target = [u8; PAGE_SIZE];

    fn deref(&self) -> &[u8; PAGE_SIZE] {
        // SAFETY: the page lies in the mapping, which `shared` keeps, and is this value's alone: it is on no list.
        unsafe { &*self.shared.page(self.at) }
    }
}

impl DerefMut for SlabPage {
    fn deref_mut(&mut self) -> &mut [u8; PAGE_SIZE] {
        // SAFETY: as in `deref`; the borrow of this value is exclusive.
        unsafe { &mut *self.shared.page(self.at) }
    }
}

impl Drop for SlabPage {
    fn drop(&mut self) {
        self.shared.free().warm.push(self.at);
    }
}

/// All bytes of `pages`, in their order, in as few pieces as they lie in.
pub fn pieces(pages: &mut [SlabPage]) -> Vec<IoSliceMut<'_>> {
    let follows = |one: &SlabPage, next: &SlabPage| one.at + 1 == next.at && Arc::ptr_eq(&one.shared, &next.shared);
    let piece = |run: &mut [SlabPage]| {
        let first = run.first()?;
        let start = first.shared.page(first.at).cast::<u8>();
        // SAFETY: the pages of a run lie behind one another in one mapping, all borrowed exclusively for
        // as long as the piece.
        Some(IoSliceMut::new(unsafe {
            std::slice::from_raw_parts_mut(start, run.len() * PAGE_SIZE)
        }))
    };
    pages.chunk_by_mut(follows).filter_map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(pages: &mut [SlabPage]) -> Vec<usize> {
        pieces(pages).iter().map(|piece| piece.len() / PAGE_SIZE).collect()
    }

    #[test]
    fn no_page_has_two_owners_and_none_is_lost() {
        let slab = Slab::create(64).unwrap();
        let (mut held, mut state) = (Vec::<SlabPage>::new(), 5_u64);
        for round in 0..10_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let many = usize::try_from((state >> 33) % 9).unwrap();
            match (state >> 20) % 3 {
                0 => held.truncate(held.len().saturating_sub(many)),
                1 => drop(held.drain(..many.min(held.len()))),
                _ => match slab.take(many) {
                    Some(pages) => held.extend(pages),
                    None => assert!(held.len() + many > 64),
                },
            }
            if round % 7 == 0 {
                slab.cool(many);
                assert!(slab.free().0 <= many);
            }
            let (warm, cold) = slab.free();
            assert_eq!(warm + cold + held.len(), 64);
            for (number, page) in (round..).zip(held.iter_mut()) {
                page[..8].copy_from_slice(&number.to_le_bytes());
            }
            assert!(
                (round..)
                    .zip(&held)
                    .all(|(number, page)| page[..8] == number.to_le_bytes())
            );
        }
    }

    #[test]
    fn pages_that_lie_behind_one_another_are_one_piece() {
        let (slab, other) = (Slab::create(16).unwrap(), Slab::create(16).unwrap());
        let mut pages = slab.take(10).unwrap();
        assert_eq!(lengths(&mut pages), [10]);
        for (number, byte) in (0..).zip(pieces(&mut pages).remove(0).chunks_exact_mut(PAGE_SIZE)) {
            byte.fill(number);
        }
        assert!(
            (0..)
                .zip(&pages)
                .all(|(number, page)| page[0] == number && page[4095] == number)
        );
        drop(pages.remove(4));
        assert_eq!(lengths(&mut pages), [4, 5]);
        pages.extend(other.take(2).unwrap());
        assert_eq!(lengths(&mut pages), [4, 5, 2]);
        assert_eq!(
            lengths(&mut slab.take(3).unwrap()),
            [1, 2],
            "the page that came last, then new ones"
        );
    }

    #[test]
    fn pages_that_are_cooled_have_no_frame() {
        let slab = Slab::create(8).unwrap();
        let mut pages = slab.take(8).unwrap();
        pages.iter_mut().for_each(|page| page.fill(7));
        assert!(slab.take(1).is_none());
        let kept = pages.split_off(6);
        drop(pages);
        assert_eq!(slab.free(), (6, 0));
        slab.cool(2);
        assert_eq!(slab.free(), (2, 4));
        assert!(
            kept.iter().all(|page| page.iter().all(|byte| *byte == 7)),
            "those in use stay"
        );
        let zeros = slab.take(6).unwrap().iter().filter(|page| page[0] == 0).count();
        assert_eq!(zeros, 4);
    }
}
