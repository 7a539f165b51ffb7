//! The size of a file that others make longer, where the kernel passes over the one in an answer.
//!
//! The kernel takes no attributes from an answer if it has dropped pages of the file since it asked. The program that
//! asked has the new size then, and the kernel keeps its own: what a mapping has behind that is SIGBUS. So where pages
//! are taken back, the last byte of the file is stored in the kernel's pages before such an answer: that sets the size.

use crate::content::State;
use crate::files::Files;
use crate::inode::Inode;
use crate::own::PAGE;
use crate::page_cache::Room;
use fuser::INodeNo;
use rustix::fs::FileType;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How long a question may have waited for its answer when pages were dropped.
const RECENT: Duration = Duration::from_millis(100);

/// What the kernel knows of a file's end.
#[derive(Debug, Default)]
pub(crate) struct End {
    /// Bytes of the file, the last time that one was stored. Locked while one is: nobody may wait for it who answers
    /// requests or takes pages back, since the page may be one that is on its way.
    stored: Mutex<u64>,
    /// When the kernel was last asked to drop pages of the file.
    dropped: Mutex<Option<Instant>>,
}

impl End {
    fn stored(&self) -> MutexGuard<'_, u64> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dropped(&self) -> MutexGuard<'_, Option<Instant>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel was asked to drop pages.
    pub(crate) fn note_dropped(&self) {
        *self.dropped() = Some(Instant::now());
    }

    /// Whether a byte is being stored now: no program may write it meanwhile.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.stored.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Whether this size was the last that was stored.
    fn is_known(&self, size: u64) -> bool {
        self.stored.try_lock().is_ok_and(|stored| *stored == size)
    }

    /// The file has this size now: what was stored of another one says nothing any more.
    pub(crate) fn note_size(&self, size: u64) {
        if let Ok(mut stored) = self.stored.try_lock()
            && *stored != size
        {
            *stored = 0;
        }
    }

    /// Waits while a byte is being stored. Programs of the mount are about to change the size.
    pub(crate) fn settle(&self) {
        *self.stored() = 0;
    }
}

impl Files {
    /// Whether the kernel may pass over an answer about this file, which others can make longer. Not for a file that
    /// programs of the mount write: what they wrote to a mapping may be in the kernel's pages alone.
    pub(crate) fn may_pass_over(&self, inode: &Inode, size: u64) -> bool {
        let others_write = |state: &State| state.lease.is_none() && state.writers == 0;
        inode.kind == FileType::RegularFile
            && !inode.content.end.is_known(size)
            && inode.content.try_read().is_none_or(|state| others_write(&state))
            && (inode
                .content
                .end
                .dropped()
                .is_some_and(|dropped| dropped.elapsed() < RECENT)
                || self.cache().kernel_has(inode.number))
    }

    /// Has the kernel know that a file is at least so long. May wait until the kernel has a page that is on its way.
    pub(crate) fn store_end(&self, inode: &Inode, size: u64) {
        let mut stored = inode.content.end.stored();
        if size == 0 || size == *stored {
            return;
        }
        let mut byte = [0];
        {
            let state = inode.content.read();
            let read = state.reader.as_ref().map(|reader| reader.read(&mut byte, size - 1));
            if state.writers > 0 || !read.is_some_and(|read| read.is_ok_and(|found| found.bytes == 1)) {
                return;
            }
        }
        let page = (size - 1) / PAGE as u64;
        let Some(notifier) = self.notifier.get().filter(|_| self.count_end(inode, page)) else {
            return;
        };
        if notifier.store(INodeNo(inode.number), size - 1, &byte).is_err() {
            return;
        }
        *stored = size;
        // The page may have come after it was taken back: no lock of the kernel's kept the two apart.
        if !self.count_end(inode, page) {
            self.drop_pages(inode.number, &(page..page + 1));
        }
        drop(stored);
        self.wake_recall();
    }

    fn count_end(&self, inode: &Inode, page: u64) -> bool {
        self.count_stored(inode, &(page..page + 1))
    }

    /// Counts pages that the kernel is given, to be taken back at once; not where there is no room for them.
    pub(crate) fn count_stored(&self, inode: &Inode, pages: &Range<u64>) -> bool {
        let mut cache = self.cache();
        let mut gone = Vec::new();
        let room = cache.give_to_kernel(inode.number, pages, true, &mut |page| gone.push(page));
        self.put_victims(cache, gone);
        room == Room::Counted
    }
}
