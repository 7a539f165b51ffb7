//! Many pages in at once: frames are taken for all of them in one hold of the lock, and the copies come later.
//!
//! A front that evicts under a lock of its own takes the frames under it, and copies without it. From the first step on
//! a page counts as here: a flush in between reaches it.

use crate::cache::{Cache, Key, Shared};
use freehold_core::victim_cache::FrameIndex;
use freehold_linux::PAGE_SIZE;

/// Copies whose ends are told together: a device that opens waits for so many at least.
const TOGETHER: usize = 16;

/// Frames that wait for their pages. Those that get none are given back.
#[derive(Debug)]
#[must_use]
pub struct Puts<'a> {
    shared: &'a Shared,
    /// In the order of the keys: the others found no frame.
    frames: Vec<(Key, Option<FrameIndex>)>,
    /// How many of them have been told to the core.
    told: usize,
}

impl Cache {
    /// Takes frames for pages that the front evicts, the one used longest ago first. What was here of them is replaced.
    pub fn begin_puts(&self, keys: impl Iterator<Item = Key>) -> Puts<'_> {
        let mut state = self.shared.state();
        let frames = keys.map(|key| (key, state.core.put(key.file, key.page, 1).ok().map(|put| put.frame)));
        let frames = frames.collect();
        drop(state);
        Puts {
            shared: &self.shared,
            frames,
            told: 0,
        }
    }

    /// Pages of files have changed, gone, or are in use in the front again.
    pub fn flush_pages(&self, keys: impl Iterator<Item = Key>) {
        let mut state = self.shared.state();
        keys.for_each(|key| state.core.flush_page(key.file, key.page));
    }
}

impl Puts<'_> {
    /// Copies the pages in, in the order of their keys.
    pub fn copy<'p>(mut self, pages: impl Iterator<Item = &'p [u8; PAGE_SIZE]>) {
        let mut pages = pages.peekable();
        while pages.peek().is_some() && self.told < self.frames.len() {
            let end = self.frames.len().min(self.told + TOGETHER);
            let some = &self.frames[self.told..end];
            let copied: Vec<bool> = some
                .iter()
                .zip(&mut pages)
                .map(|((key, frame), page)| frame.is_some_and(|frame| self.shared.copy_in(frame, *key, page)))
                .collect();
            self.tell(copied);
        }
    }

    /// Tells the core how the next copies have ended.
    fn tell(&mut self, copied: Vec<bool>) {
        let mut state = self.shared.state();
        for (done, (_, frame)) in copied.into_iter().zip(&self.frames[self.told..]) {
            self.told += 1;
            let Some(frame) = *frame else { continue };
            state.end_copy(frame, done);
        }
        if state.drain() {
            self.shared.changed.notify_all();
        }
    }
}

impl Drop for Puts<'_> {
    fn drop(&mut self) {
        let left = self.frames.len() - self.told;
        if left > 0 {
            self.tell(vec![false; left]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cache, Client, FileId, Key, PAGE_SIZE, PageIndex};
    use freehold_scenario::DeviceFile;

    fn cache() -> Cache {
        let text = "[region]\nbacking = \"small\"\n[[device]]\nname = \"camera\"\nsize = \"128KiB\"\n";
        Cache::new(&DeviceFile::parse(text, "devices.toml").unwrap()).unwrap()
    }

    fn key(page: u32) -> Key {
        Key {
            file: FileId::new(3),
            page: PageIndex::new(page),
        }
    }

    fn hits(cache: &Cache, pages: std::ops::Range<u32>) -> Vec<u32> {
        let mut content = [0; PAGE_SIZE];
        pages
            .filter(|page| {
                let hit = cache.get(key(*page), &mut content);
                assert!(!hit || u32::from(content[9]) == *page);
                hit
            })
            .collect()
    }

    fn pages(count: u8) -> Vec<[u8; PAGE_SIZE]> {
        (0..count).map(|byte| [byte; PAGE_SIZE]).collect()
    }

    #[test]
    fn pages_that_are_put_together_are_there_and_the_oldest_make_room() {
        let cache = cache();
        let contents = pages(40);
        for first in [0, 20] {
            let keys = (first..first + 20).map(key);
            cache.begin_puts(keys).copy(contents[first as usize..].iter().take(20));
        }
        assert_eq!(hits(&cache, 0..40), (8..40).collect::<Vec<_>>());
        cache.check_laws().unwrap();
    }

    #[test]
    fn what_is_flushed_before_its_copy_is_not_there_after_it() {
        let cache = cache();
        let (one, other) = (cache.begin_puts((0..20).map(key)), cache.begin_puts((20..24).map(key)));
        assert!(
            hits(&cache, 3..4).is_empty(),
            "nothing has been copied; who reads it now has it"
        );
        cache.flush_pages([key(5), key(18)].into_iter());
        one.copy(pages(20).iter());
        drop(other);
        let expected: Vec<u32> = (0..20).filter(|page| ![3, 5, 18].contains(page)).collect();
        assert_eq!(hits(&cache, 0..24), expected);
        assert_eq!(cache.region_row().uses.free, 32);
        // Fewer pages than keys.
        cache.begin_puts((0..24).map(key)).copy(pages(3).iter());
        assert_eq!(hits(&cache, 0..24), [0, 1, 2]);
        cache.check_laws().unwrap();
    }

    #[test]
    fn a_device_that_opens_waits_for_the_copies_and_gets_all() {
        let cache = cache();
        let puts = cache.begin_puts((0..20).map(key));
        std::thread::scope(|scope| {
            let opened = scope.spawn(|| cache.open("camera", 0, Client::default()).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!opened.is_finished());
            puts.copy(pages(20).iter());
            assert_eq!(opened.join().unwrap().grant.used, 32);
        });
        cache.check_laws().unwrap();
    }
}
