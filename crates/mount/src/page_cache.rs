//! The page cache of the mount: its own pages and those that the kernel holds, together never more than its size.

use crate::kernel_pages::{KernelPages, Run};
use crate::own::{Bytes, Evicted, OwnPages, PAGE, PageKey};
use std::ops::Range;

/// Frames that only fills of pages under way back may take. Such a fill holds pages locked that the invalidation waits
/// for, so it must not wait for it; at most two reach beyond what is being taken back, with 256 pages each.
const RESERVE: usize = 512;
/// Fewer frames than this no mount has: twice the reserve.
pub(crate) const LEAST_FRAMES: usize = 2 * RESERVE;

/// Whether the kernel may be given pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// They are counted.
    Counted,
    /// Pages must be taken back first.
    Wait,
}

/// The page cache. Evicted pages are the caller's to put elsewhere.
#[derive(Debug)]
pub(crate) struct PageCache {
    frames: usize,
    own: OwnPages,
    kernel: KernelPages,
    clock: u64,
}

impl PageCache {
    /// A cache of so many frames.
    pub(crate) fn new(frames: usize) -> Self {
        Self {
            frames,
            own: OwnPages::default(),
            kernel: KernelPages::default(),
            clock: 0,
        }
    }

    /// Frames, own pages, kernel pages.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.frames, self.own.len(), self.kernel.len())
    }

    /// Copies what is here of a file's pages from `first` on to `to`, and tells which are not: their places in `to`, in
    /// pages. `last` is the page that the same reader used last.
    pub(crate) fn copy(&mut self, file: u64, first: u32, to: &mut [u8], last: Option<u32>) -> Vec<u32> {
        let mut missing = Vec::new();
        for (place, to) in (0..).zip(to.chunks_exact_mut(PAGE)) {
            let page = first + place;
            self.clock += 1;
            match self
                .own
                .take_note(PageKey { file, page }, self.clock, last == Some(page))
            {
                Some(bytes) => to.copy_from_slice(bytes),
                None => missing.push(place),
            }
        }
        missing
    }

    /// Whether a page is here.
    pub(crate) fn has(&self, key: PageKey) -> bool {
        self.own.has(key)
    }

    /// The own pages.
    #[cfg(test)]
    pub(crate) fn own_keys(&self) -> impl Iterator<Item = PageKey> {
        self.own.keys()
    }

    /// Takes a page that was used; what makes room is handed to `evicted`. It is not kept where the kernel holds all.
    pub(crate) fn insert(&mut self, key: PageKey, bytes: Bytes, evicted: &mut dyn FnMut(Evicted)) {
        if self.own.has(key) || !self.make_room(1, evicted) {
            return;
        }
        self.clock += 1;
        self.own.insert(key, bytes, self.clock, true);
    }

    /// Takes a page that was read ahead; false where only pages used more often could make room.
    pub(crate) fn insert_ahead(&mut self, key: PageKey, bytes: Bytes, evicted: &mut dyn FnMut(Evicted)) -> bool {
        if self.own.has(key) {
            return true;
        }
        if self.room() == 0 {
            let Some(gone) = self.own.evict_unused() else {
                return false;
            };
            evicted(gone);
        }
        if self.room() == 0 {
            return false;
        }
        self.clock += 1;
        self.own.insert(key, bytes, self.clock, false);
        true
    }

    /// Drops all own pages of a file.
    pub(crate) fn drop_file(&mut self, file: u64) {
        self.own.drop_file(file);
    }

    /// Counts pages that the kernel is about to be given. `urgent`: they are to be taken back at once.
    pub(crate) fn give_to_kernel(
        &mut self,
        inode: u64,
        pages: &Range<u64>,
        urgent: bool,
        evicted: &mut dyn FnMut(Evicted),
    ) -> Room {
        let missing = self.kernel.missing(inode, pages);
        let kept = if self.kernel.is_going(inode, pages) || missing == 0 {
            0
        } else {
            RESERVE
        };
        if self.kernel.len() + missing + kept > self.frames {
            return Room::Wait;
        }
        self.make_room(missing, evicted);
        self.kernel.fill(inode, pages.clone(), self.clock + 1, urgent);
        self.clock += pages.end - pages.start;
        Room::Counted
    }

    /// Whether the kernel holds pages of an inode.
    pub(crate) fn kernel_has(&self, inode: u64) -> bool {
        self.kernel.has_inode(inode)
    }

    /// Whether pages are to be taken back from the kernel, and which: urgent ones, or the oldest of all pages where
    /// frames are short, or any where a fill waits.
    pub(crate) fn to_take_back(&self, most: usize, waiting: bool) -> Vec<Run> {
        let short = self.room() < most.min(self.frames / 8) && self.is_kernel_older();
        if self.kernel.is_urgent() || short || waiting {
            self.kernel.batch(most)
        } else {
            Vec::new()
        }
    }

    /// Whether pages are to be taken back at once.
    pub(crate) fn is_urgent(&self) -> bool {
        self.kernel.is_urgent()
    }

    /// A run is about to be taken back; the stamp to end it with.
    pub(crate) fn begin_taking_back(&mut self, run: Run) -> u64 {
        self.kernel.begin(run);
        self.clock += 1;
        self.clock
    }

    /// What was begun has ended.
    pub(crate) fn end_taking_back(&mut self, stamp: u64) {
        self.kernel.end(stamp);
    }

    /// A stamp later than all fills so far.
    pub(crate) fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// The kernel has dropped all pages of an inode that were filled before the stamp.
    pub(crate) fn kernel_dropped(&mut self, inode: u64, before: u64) {
        self.kernel.drop_before(inode, 0..u64::MAX, before);
    }

    fn is_kernel_older(&self) -> bool {
        match (self.kernel.oldest(), self.own.oldest()) {
            (Some(kernel), Some(own)) => kernel < own,
            (kernel, _) => kernel.is_some(),
        }
    }

    /// Frames that neither own pages nor the kernel's take.
    pub(crate) fn room(&self) -> usize {
        self.frames.saturating_sub(self.own.len() + self.kernel.len())
    }

    /// Evicts own pages, the one used longest ago first, until so many frames are free.
    fn make_room(&mut self, wanted: usize, evicted: &mut dyn FnMut(Evicted)) -> bool {
        while self.room() < wanted {
            let Some(gone) = self.own.evict() else { return false };
            evicted(gone);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(file: u64, page: u32) -> (PageKey, Bytes) {
        (
            PageKey { file, page },
            crate::own::page_of(u8::try_from(page % 251).unwrap()),
        )
    }

    #[test]
    fn own_and_kernel_together_never_pass_the_size_and_what_goes_is_told() {
        let mut cache = PageCache::new(LEAST_FRAMES);
        let mut gone = Vec::new();
        for number in 0..2000 {
            let (key, bytes) = page(1, number);
            cache.insert(key, bytes, &mut |evicted| gone.push(evicted.key.page));
        }
        assert_eq!(cache.counts(), (1024, 1024, 0));
        assert_eq!(gone, (0..976).collect::<Vec<_>>());
        for start in (0..4096).step_by(32) {
            let room = cache.give_to_kernel(7, &(start..start + 32), false, &mut |_| ());
            let (frames, own, kernel) = cache.counts();
            assert!(own + kernel <= frames);
            assert_eq!(room == Room::Counted, kernel <= frames - RESERVE && start + 32 <= 512);
        }
        // Pages that are on their way back need no frames, and those beside them take the reserve.
        let runs = cache.to_take_back(256, true);
        assert_eq!(
            runs,
            [Run {
                inode: 7,
                pages: 0..256
            }]
        );
        let stamp = cache.begin_taking_back(runs[0].clone());
        assert_eq!(cache.give_to_kernel(7, &(200..260), false, &mut |_| ()), Room::Counted);
        cache.end_taking_back(stamp);
        assert_eq!(cache.counts().2, 512 - 200);
    }

    #[test]
    fn read_ahead_leaves_pages_used_more_often_alone() {
        let mut cache = PageCache::new(LEAST_FRAMES);
        for number in 0..1024 {
            let (key, bytes) = page(1, number);
            cache.insert(key, bytes, &mut |_| ());
        }
        let mut buffer = vec![0; PAGE * 1000];
        assert!(cache.copy(1, 0, &mut buffer, None).is_empty());
        let mut taken = 0;
        for number in 0..100 {
            let (key, bytes) = page(2, number);
            taken += u32::from(cache.insert_ahead(key, bytes, &mut |gone| {
                assert!(gone.key.page >= 1000 || gone.key.file == 2)
            }));
        }
        assert_eq!(taken, 100);
        assert!((0..1000).all(|number| cache.has(PageKey { file: 1, page: number })));
    }
}
