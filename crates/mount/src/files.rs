//! What all threads of a mount share.

use crate::ahead::Ahead;
use crate::aside::Aside;
use crate::content::OpenFile;
use crate::inode::Inode;
use crate::own::{Evicted, PageKey};
use crate::page_cache::PageCache;
use crate::recall::Fill;
use crate::tree::Tree;
use freehold_ecache::{Cache, FileId, Key, PageIndex};
use freehold_linux::file_lease::LeaseOwner;
use freehold_linux::memory::{LockedFramesError, Slab};
use fuser::Notifier;
use rustix::fd::{OwnedFd, RawFd};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

/// Threads that read: those that answer, those that read ahead, and the one that takes pages back.
pub(crate) const READERS: usize = 7;
/// Pages that one of them brings in at once, at most.
pub(crate) const BROUGHT: usize = 257;
/// Frames that stay for pages under way beside a full page cache.
pub(crate) const UNDER_WAY: usize = 256;

/// What happened so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) own_hits: AtomicU64,
    pub(crate) victim_hits: AtomicU64,
    pub(crate) device_pages: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) invalidations: AtomicU64,
    pub(crate) lease_breaks: AtomicU64,
    /// Inodes without a lease that were read.
    pub(crate) uncached_inodes: AtomicU64,
    /// Inodes that have a reader.
    pub(crate) readers: AtomicUsize,
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

/// Leases: which descriptor is whose, and whom the kernel tells.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    pub(crate) files: Mutex<BTreeMap<RawFd, Weak<Inode>>>,
    pub(crate) owner: OnceLock<LeaseOwner>,
    next_file: AtomicU64,
}

/// Open files and directories.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    files: RwLock<BTreeMap<u64, Arc<OpenFile>>>,
    directories: RwLock<BTreeMap<u64, Arc<Mutex<OwnedFd>>>>,
    /// Files that are open for writing: those have a descriptor of their own.
    writers: AtomicUsize,
    next: AtomicU64,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) tree: Tree,
    pub(crate) handles: Handles,
    pub(crate) victims: Arc<Cache>,
    pub(crate) leases: Leases,
    pub(crate) counters: Counters,
    pub(crate) notifier: OnceLock<Notifier>,
    pub(crate) ahead: SyncSender<Ahead>,
    /// Where all own pages are, and those that are being read. Its lock is inside all others.
    pub(crate) slab: Slab,
    /// Of the page cache.
    pub(crate) frames: usize,
    cache: Mutex<PageCache>,
    /// Fills that wait for frames. Taken after the lock of the cache.
    waiting: Mutex<Vec<Fill>>,
    /// Requests that wait for descriptors.
    pub(crate) aside: Aside,
    /// There is something to take back, or the end has come.
    pub(crate) wanted: Condvar,
    pub(crate) stop: AtomicBool,
    /// Held by the thread that answers requests and waits for the kernel's pages meanwhile.
    pub(crate) mixes_here: Mutex<()>,
}

impl Files {
    /// # Errors
    /// There are no addresses for so many frames.
    pub(crate) fn new(
        tree: Tree,
        frames: usize,
        victims: Arc<Cache>,
        ahead: SyncSender<Ahead>,
    ) -> Result<Self, LockedFramesError> {
        let slab = Slab::create(frames.saturating_add(READERS * BROUGHT))?;
        Ok(Self {
            tree,
            handles: Handles::default(),
            victims,
            leases: Leases::default(),
            counters: Counters::default(),
            notifier: OnceLock::new(),
            ahead,
            slab,
            frames,
            cache: Mutex::new(PageCache::new(frames)),
            waiting: Mutex::new(Vec::new()),
            aside: Aside::default(),
            wanted: Condvar::new(),
            stop: AtomicBool::new(false),
            mixes_here: Mutex::new(()),
        })
    }

    pub(crate) fn cache(&self) -> MutexGuard<'_, PageCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn waiting(&self) -> MutexGuard<'_, Vec<Fill>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives frames back that the kernel's pages take the place of.
    pub(crate) fn cool(&self) {
        let room = self.cache().room();
        self.slab.cool(room + UNDER_WAY);
    }

    /// Pages that made room go to the device memory; where that takes none they are read again some day. Their frames
    /// are taken in the hold that evicted them, so that who brings one in again meets it. They are copied without it.
    pub(crate) fn put_victims(&self, cache: MutexGuard<'_, PageCache>, mut gone: Vec<Evicted>) {
        // One may have come in again in the same hold.
        gone.retain(|page| !cache.has(page.key));
        if gone.is_empty() {
            return;
        }
        let puts = self.victims.begin_puts(gone.iter().map(|page| victim_key(page.key)));
        drop(cache);
        puts.copy(gone.iter().map(|page| &*page.bytes));
    }

    /// Wakes the thread that takes pages back, if there is something for it.
    pub(crate) fn wake_recall(&self) {
        let wanted = !self.cache().to_take_back(1, false).is_empty() || !self.waiting().is_empty();
        if wanted {
            self.wanted.notify_one();
        }
    }
}

/// What the victim cache calls a page.
pub(crate) fn victim_key(key: PageKey) -> Key {
    Key {
        file: FileId::new(key.file),
        page: PageIndex::new(key.page),
    }
}

impl Leases {
    pub(crate) fn files(&self) -> MutexGuard<'_, BTreeMap<RawFd, Weak<Inode>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a content that no other has had.
    pub(crate) fn new_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Handles {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn add_file(&self, file: OpenFile) -> u64 {
        let number = self.number();
        self.writers
            .fetch_add(usize::from(file.writer.is_some()), Ordering::Relaxed);
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.insert(number, Arc::new(file));
        number
    }

    pub(crate) fn file(&self, number: u64) -> Result<Arc<OpenFile>, Errno> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(&number).cloned().ok_or(Errno::BADF)
    }

    pub(crate) fn remove_file(&self, number: u64) -> Option<Arc<OpenFile>> {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        let file = files.remove(&number)?;
        self.writers
            .fetch_sub(usize::from(file.writer.is_some()), Ordering::Relaxed);
        Some(file)
    }

    /// Descriptors that open files and directories have.
    pub(crate) fn descriptors(&self) -> usize {
        self.writers.load(Ordering::Relaxed) + self.directories.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether a file is open. Costs a look at each that is.
    pub(crate) fn has(&self, inode: u64) -> bool {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.values().any(|file| file.inode.number == inode)
    }

    pub(crate) fn add_directory(&self, directory: OwnedFd) -> u64 {
        let number = self.number();
        let mut all = self.directories.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(number, Arc::new(Mutex::new(directory)));
        number
    }

    pub(crate) fn directory(&self, number: u64) -> Result<Arc<Mutex<OwnedFd>>, Errno> {
        let all = self.directories.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&number).cloned().ok_or(Errno::BADF)
    }

    pub(crate) fn remove_directory(&self, number: u64) {
        let mut all = self.directories.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(&number);
    }
}
