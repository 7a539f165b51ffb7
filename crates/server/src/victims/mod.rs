//! Pages of files in the memory of closed devices: which files, and under which number.
//!
//! # Why nothing stale is read
//! A page is cached under the number of one state of one file: device, inode, size and change time. While the server
//! has a read lease on the file nobody can write it, so a page is given out only under a lease that is held at that
//! moment, on a file that is as long as it was. And a lease is taken before the state is looked at: nobody has the file
//! open for writing then, nor mapped, and whoever does later changes the change time by his first write. So two leases
//! that found the same state found the same content, whatever happened between them.
//!
//! A file that cannot be leased is not cached, and counted: somebody writes it, or it is another user's and this
//! server is not privileged, or it is on no disk.

mod leases;

use crate::closing::LentFile;
use crate::engine::Identity;
use freehold_ecache::{Cache, FileId, Key, PAGE_SIZE, PageIndex};
use freehold_linux::file_lease;
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::uncached_read::Uncached;
use leases::Leases;
use rustix::fs::{Advice, SeekFrom};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// States of files that are known, at most; beyond them the older half is forgotten.
const MOST_KNOWN: usize = 1 << 16;

/// The front by which files of the server get into device memory.
#[derive(Debug)]
pub(crate) struct Victims {
    cache: Arc<Cache>,
    leases: Leases,
    known: PiMutex<Known>,
    refused: AtomicU64,
}

/// A state of a file whose pages are cached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedFile {
    id: FileId,
    way: Uncached,
}

impl CachedFile {
    /// The name of a page of it.
    pub(crate) fn key(self, page: u32) -> Key {
        Key {
            file: self.id,
            page: PageIndex::new(page),
        }
    }

    /// How it is read: past the kernel's page cache, so that what is cached here saves a read.
    pub(crate) fn way(self) -> Uncached {
        self.way
    }
}

/// Counts of files, for the status document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileCounts {
    /// Under a lease now.
    pub(crate) leased: usize,
    /// Openings so far that found no lease to be had.
    pub(crate) refused: u64,
}

impl Victims {
    /// Starts the thread that lets leases go.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(cache: Arc<Cache>) -> io::Result<Arc<Self>> {
        let victims = Arc::new(Self {
            cache,
            leases: Leases::new(),
            known: PiMutex::new(Known::default()),
            refused: AtomicU64::new(0),
        });
        leases::start(&victims)?;
        Ok(victims)
    }

    /// Takes a lease on a file that only the server has open; `identify` looks at its state then. May wait for the file
    /// system: not for the engine's threads.
    ///
    /// # Errors
    /// Those of `identify`.
    pub(crate) fn lease<E>(
        &self,
        file: &LentFile,
        identify: impl FnOnce() -> Result<Identity, E>,
    ) -> Result<Option<(Identity, CachedFile)>, E> {
        let Some(way) = Uncached::of(&***file).filter(|_| self.leases.take(file)) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        };
        // Its pages are read one by one, as they are missed.
        let _ = rustix::fs::fadvise(&***file, 0, None, Advice::Random);
        let identity = identify()?;
        let (id, stale) = self.known.lock().find(identity);
        for old in stale {
            self.cache.flush_inode(old);
        }
        self.leases.name(file, id);
        Ok(Some((identity, CachedFile { id, way })))
    }

    /// Whether pages of a file of so many bytes may be given out now.
    pub(crate) fn holds(file: &LentFile, size: u64) -> bool {
        // A file that is opened for reading and truncated by the same call breaks no lease.
        file_lease::is_held(&***file) && rustix::fs::seek(&***file, SeekFrom::End(0)) == Ok(size)
    }

    /// Whether a state is the last that is known of its file: no other is asked for any more.
    pub(crate) fn is_current(&self, identity: Identity, cached: CachedFile) -> bool {
        let known = self.known.lock();
        known.files.get(&(identity.device, identity.inode)) == Some(&(identity, cached.id))
    }

    /// Takes a page out, if it is here; `None` where that could not be seen without waiting.
    pub(crate) fn try_get(&self, key: Key, content: &mut [u8; PAGE_SIZE]) -> Option<bool> {
        self.cache.try_get(key, content)
    }

    /// Takes a page out, if it is here. May wait.
    pub(crate) fn get(&self, key: Key, content: &mut [u8; PAGE_SIZE]) -> bool {
        self.cache.get(key, content)
    }

    /// Puts a page in, if that can be done without waiting: else it is read again when somebody wants it.
    pub(crate) fn try_put(&self, key: Key, content: &[u8; PAGE_SIZE]) {
        let _ = self.cache.try_put(key, content);
    }

    /// Puts a page in. May wait.
    pub(crate) fn put(&self, key: Key, content: &[u8; PAGE_SIZE]) {
        let _ = self.cache.put(key, content);
    }

    /// Whether a page is here; nothing changes. May wait.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.cache.has(key)
    }

    /// Checks the cache's own laws. O(frames × devices).
    pub(crate) fn check_laws(&self) -> Result<(), String> {
        self.cache.check_laws().map_err(|violation| violation.to_string())
    }

    pub(crate) fn counts(&self) -> FileCounts {
        FileCounts {
            leased: self.leases.held(),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Drops what is cached of a file.
    fn forget(&self, id: FileId) {
        self.cache.flush_inode(id);
    }
}

/// The last known state of each file, and its number.
#[derive(Debug, Default)]
struct Known {
    files: BTreeMap<(u64, u64), (Identity, FileId)>,
    next: u64,
}

impl Known {
    /// The number of a state, and those numbers that will never be asked for again.
    fn find(&mut self, identity: Identity) -> (FileId, Vec<FileId>) {
        let place = (identity.device, identity.inode);
        let found = self.files.get(&place).copied();
        if let Some((same, id)) = found
            && same == identity
        {
            return (id, Vec::new());
        }
        let mut stale: Vec<FileId> = found.map(|(_, old)| old).into_iter().collect();
        if self.files.len() >= MOST_KNOWN {
            let from = self.next - (MOST_KNOWN / 2) as u64;
            self.files.retain(|_, (_, id)| {
                let stays = id.get() >= from;
                if !stays {
                    stale.push(*id);
                }
                stays
            });
        }
        let id = FileId::new(self.next);
        self.next += 1;
        self.files.insert(place, (identity, id));
        (id, stale)
    }
}

#[cfg(test)]
mod tests {
    use super::{Identity, Known, MOST_KNOWN};

    fn state(inode: u64, second: i64) -> Identity {
        Identity {
            device: 1,
            inode,
            size: 5,
            changed: (second, 0),
        }
    }

    #[test]
    fn a_state_keeps_its_number_and_another_of_the_file_takes_its_place() {
        let mut known = Known::default();
        let (first, stale) = known.find(state(1, 1));
        assert!(stale.is_empty());
        assert_eq!(known.find(state(1, 1)).0, first);
        let (second, stale) = known.find(state(1, 2));
        assert_eq!(stale, [first]);
        assert_ne!(second, first);
        // It does not come back by being as it was: its pages are gone.
        assert_ne!(known.find(state(1, 1)).0, first);
    }

    #[test]
    fn the_older_half_is_forgotten_where_there_are_too_many() {
        let mut known = Known::default();
        for inode in 0..MOST_KNOWN as u64 {
            assert!(known.find(state(inode, 1)).1.is_empty());
        }
        let (_, stale) = known.find(state(1 << 40, 1));
        assert_eq!(stale.len(), MOST_KNOWN / 2);
        assert_eq!(known.files.len(), MOST_KNOWN / 2 + 1);
    }
}
