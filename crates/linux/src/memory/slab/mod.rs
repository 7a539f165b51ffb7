//! Pages of one private mapping, handed out one by one, each to one owner.

mod free;

use self::free::Free;
use super::anonymous::Anonymous;
use super::{HUGE_PAGES, LockedFramesError};
use crate::{Errno, PAGE_SIZE, PageRange};
use rustix::mm::{Advice, ProtFlags};
use std::io::IoSliceMut;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number of pages that are there from the start; each costs a frame from its first use on.
///
/// Frames come by the huge page where the kernel has one: 512 pages in one fault, behind one another in the machine, so
/// that a device is asked for them in one part. They go back one by one: the huge page is split before.
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

impl Slab {
    /// A slab of `pages` pages, at least one; none has a frame.
    ///
    /// # Errors
    /// [`LockedFramesError::Map`].
    pub fn create(pages: usize) -> Result<Self, LockedFramesError> {
        let memory = Anonymous::create(pages, ProtFlags::READ | ProtFlags::WRITE)?;
        let free = Free::new(pages, memory.start(0).addr() / PAGE_SIZE);
        let shared = Shared {
            memory,
            free: Mutex::new(free),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Takes `count` pages, in order of address, as near to one another as there are; `None` where there are fewer.
    #[must_use]
    pub fn take(&self, count: usize) -> Option<Vec<SlabPage>> {
        let mut free = self.shared.free();
        if free.with_frame() + free.without_frame() < count {
            return None;
        }
        let mut places = free.take_warm(count);
        places.extend(free.take_cold(count - places.len()));
        while places.len() < count {
            self.shared.bring_block(&mut free);
            places.extend(free.take_warm(count - places.len()));
            places.extend(free.take_cold(count - places.len()));
        }
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
        let mut free = self.shared.free();
        let many = free.with_frame().saturating_sub(keep);
        if many == 0 {
            return;
        }
        let leaving = free.take_to_cool(many);
        let blocks: Vec<usize> = leaving.iter().filter_map(|at| free.break_block(*at)).collect();
        drop(free);
        for block in blocks {
            self.shared.never_huge(block);
        }
        for run in leaving.chunk_by(|one, next| one + 1 == *next) {
            if let Some(first) = run.first() {
                self.shared.release(*first, run.len());
            }
        }
        self.shared.free().put_cold(leaving.into_iter());
    }

    /// Pages that nobody has: with a frame, and without.
    #[must_use]
    pub fn free(&self) -> (usize, usize) {
        let free = self.shared.free();
        (free.with_frame(), free.without_frame())
    }
}

impl Shared {
    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a block its frames: all of them, where the kernel has a huge page, else that of its first page.
    fn bring_block(&self, free: &mut Free) {
        let Some(first) = free.take_block() else { return };
        let _ = self.advise(first, HUGE_PAGES, Advice::LinuxHugepage);
        let brought = self.advise(first, 1, Advice::LinuxPopulateWrite);
        if brought.is_ok() && self.memory.is_resident(first + HUGE_PAGES - 1) {
            return free.put_block(first);
        }
        free.break_block(first);
        self.never_huge(first);
        free.put(first);
        free.put_cold(first + 1..first + HUGE_PAGES);
    }

    /// Nobody makes a huge page of a block any more, which would have frames for pages that have none.
    fn never_huge(&self, first: usize) {
        let _ = self.advise(first, HUGE_PAGES, Advice::LinuxNoHugepage);
    }

    fn advise(&self, first: usize, count: usize, advice: Advice) -> Result<(), Errno> {
        self.memory.advise(PageRange::new(first, count), advice)
    }

    /// Gives back the frames of pages that the caller has taken off the lists.
    fn release(&self, first: usize, count: usize) {
        // A part of a huge page has its frames for as long as the whole: this splits it.
        let _ = self.advise(first, count, Advice::LinuxCold);
        // Where the kernel refuses, the frames stay until the next use.
        let _ = self.advise(first, count, Advice::LinuxDontNeed);
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
        self.shared.free().put(self.at);
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
        for (pages, most) in [(64, 9), (2_000, 300)] {
            no_page_is_lost(pages, most);
        }
    }

    fn no_page_is_lost(all: usize, most: u64) {
        let slab = Slab::create(all).unwrap();
        let (mut held, mut state) = (Vec::<SlabPage>::new(), 5_u64);
        for round in 0..10_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let many = usize::try_from((state >> 33) % most).unwrap();
            match (state >> 20) % 3 {
                0 => held.truncate(held.len().saturating_sub(many)),
                1 => drop(held.drain(..many.min(held.len()))),
                _ => match slab.take(many) {
                    Some(pages) => {
                        assert_eq!(pages.len(), many);
                        held.extend(pages);
                    }
                    None => assert!(held.len() + many > all),
                },
            }
            if round % 7 == 0 {
                slab.cool(many);
                assert!(slab.free().0 <= many);
            }
            let (warm, cold) = slab.free();
            assert_eq!(warm + cold + held.len(), all);
            for (number, page) in (round..).zip(held.iter_mut()) {
                page[..8].copy_from_slice(&number.to_le_bytes());
            }
            let own = |(number, page): (u64, &SlabPage)| page[..8] == number.to_le_bytes();
            assert!((round..).zip(&held).all(own));
        }
    }

    /// Many pages lie in pieces of 16 and more, however often others came and went 16 at a time.
    #[test]
    fn many_pages_lie_near_to_one_another_again() {
        let slab = Slab::create(3_000).unwrap();
        let mut held: Vec<Vec<SlabPage>> = Vec::new();
        let mut state = 9_u64;
        for _ in 0..2_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if held.len() < 150 {
                let mut window = slab.take(256).unwrap();
                while !window.is_empty() {
                    let rest = window.split_off(16);
                    held.push(std::mem::replace(&mut window, rest));
                }
            }
            let at = usize::try_from(state >> 33).unwrap() % held.len();
            drop(held.swap_remove(at));
        }
        let mut window = slab.take(256).unwrap();
        // What lies before the first block and behind the last comes page by page.
        assert!(pieces(&mut window).len() <= 48, "{:?}", lengths(&mut window));
    }

    /// A page of a huge page that goes back takes no more than itself with it, and leaves no frame behind.
    #[test]
    fn a_huge_page_is_split_before_its_pages_go_back() {
        let splits = || std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/stats/split");
        let number = || splits().ok().and_then(|text| text.trim().parse::<u64>().ok());
        let slab = Slab::create(3 * HUGE_PAGES).unwrap();
        let outside = slab.shared.free().take_cold(HUGE_PAGES).len();
        let mut pages = slab.take(2).unwrap();
        let (Some(before), (warm, _)) = (number(), slab.free()) else {
            return println!("NOT CHECKED: the kernel counts no splits");
        };
        if warm != HUGE_PAGES - 2 {
            return println!("NOT CHECKED: no huge page can be had");
        }
        pages.iter_mut().for_each(|page| page.fill(7));
        slab.cool(100);
        assert_eq!(slab.free(), (100, 3 * HUGE_PAGES - outside - 102));
        assert!(
            number().unwrap() > before,
            "its frames stay for as long as the huge page"
        );
        assert!(pages.iter().flat_map(|page| page.iter()).all(|byte| *byte == 7));
        let again = slab.take(200).unwrap();
        let zeros = again.iter().filter(|page| page.iter().all(|byte| *byte == 0)).count();
        assert_eq!(zeros, 200);
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
