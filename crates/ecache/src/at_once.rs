//! Pages in and out in one hold of the lock, by threads that wait for nobody.
//!
//! A real-time thread that waited for the lock would wait for whoever has it, which may have no priority at all. So
//! these calls give up where somebody has it. They copy within their hold: one that had to lock again to end its copy
//! might wait then.

use crate::cache::{Cache, Key, State};
use freehold_core::victim_cache::error::PutError;
use freehold_core::victim_cache::{FrameIndex, Got};
use freehold_linux::PAGE_SIZE;
use std::sync::{MutexGuard, TryLockError};

impl Cache {
    /// As [`put`](Self::put), if nobody else has the cache at the moment; `None` where somebody has, and nothing has
    /// changed.
    pub fn try_put(&self, key: Key, content: &[u8; PAGE_SIZE]) -> Option<Result<(), PutError>> {
        let mut state = self.try_state()?;
        let put = match state.core.put(key.file, key.page, 1) {
            Ok(put) => put,
            Err(error) => return Some(Err(error)),
        };
        let copied = self.shared.copy_in(put.frame, key, content);
        self.end_at_once(&mut state, put.frame, copied);
        Some(Ok(()))
    }

    /// As [`get`](Self::get), if nobody else has the cache at the moment; `None` where somebody has, and nothing has
    /// changed.
    pub fn try_get(&self, key: Key, content: &mut [u8; PAGE_SIZE]) -> Option<bool> {
        let mut state = self.try_state()?;
        let Got::Hit(frame) = state.core.get(key.file, key.page) else {
            return Some(false);
        };
        let right = self.shared.copy_out(frame, key, content);
        self.end_at_once(&mut state, frame, true);
        drop(state);
        if !right {
            self.complain(key);
        }
        Some(right)
    }

    fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        match self.shared.try_state() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn end_at_once(&self, state: &mut State, frame: FrameIndex, done: bool) {
        state.end_copy(frame, done);
        if state.drain() {
            self.shared.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cache, FileId, Key, PAGE_SIZE, PageIndex};
    use freehold_scenario::DeviceFile;

    fn cache() -> Cache {
        let text = "[region]\nbacking = \"small\"\n[[device]]\nname = \"camera\"\nsize = \"32KiB\"\n";
        Cache::new(&DeviceFile::parse(text, "devices.toml").unwrap()).unwrap()
    }

    fn key(page: u32) -> Key {
        Key {
            file: FileId::new(3),
            page: PageIndex::new(page),
        }
    }

    fn byte(page: u32) -> u8 {
        u8::try_from(page).unwrap()
    }

    #[test]
    fn pages_come_back_once_each_and_the_oldest_make_room() {
        let cache = cache();
        for page in 0..10 {
            assert_eq!(cache.try_put(key(page), &[byte(page); PAGE_SIZE]), Some(Ok(())));
        }
        for page in 0..10 {
            let mut content = [0; PAGE_SIZE];
            let hit = page >= 2;
            assert_eq!(cache.try_get(key(page), &mut content), Some(hit), "{page}");
            assert!(!hit || content == [byte(page); PAGE_SIZE]);
            assert_eq!(cache.try_get(key(page), &mut content), Some(false), "{page}");
        }
        let row = cache.region_row();
        assert_eq!((row.puts, row.hits, row.evicted, row.uses.free), (10, 8, 2, 8));
        cache.check_laws().unwrap();
    }

    #[test]
    fn nobody_waits_for_who_has_the_cache() {
        let cache = cache();
        let held = cache.shared.state();
        assert_eq!(cache.try_put(key(0), &[1; PAGE_SIZE]), None);
        assert_eq!(cache.try_get(key(0), &mut [0; PAGE_SIZE]), None);
        drop(held);
        assert_eq!(cache.try_get(key(0), &mut [0; PAGE_SIZE]), Some(false));
    }

    /// What an attempt comes to that fails while another thread has the cache.
    fn in_the_end<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        (0..10_000).find_map(|_| {
            let done = attempt();
            if done.is_none() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            done
        })
    }

    #[test]
    fn an_open_device_leaves_no_place_and_its_pages_are_gone() {
        let cache = cache();
        assert_eq!(cache.try_put(key(0), &[1; PAGE_SIZE]), Some(Ok(())));
        let opened = cache.open("camera", 0, crate::Client::default()).unwrap();
        assert_eq!(opened.grant.discarded, 1);
        // The thread that waits for memory to come back may have the cache.
        let there = in_the_end(|| cache.try_get(key(0), &mut [0; PAGE_SIZE]));
        assert_eq!(there, Some(false));
        let put = in_the_end(|| cache.try_put(key(0), &[1; PAGE_SIZE]));
        assert!(matches!(put, Some(Err(_))));
        cache.check_laws().unwrap();
    }
}
