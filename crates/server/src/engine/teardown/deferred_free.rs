//! Memory of objects that are gone, given back to the machine while nobody waits.
//!
//! The kernel takes the better part of a microsecond to free a page of a memory object: a gigabyte at once would keep
//! everybody's faults waiting for a fifth of a second. So what was behind a large object goes here when the core has
//! forgotten it. The backing's thread gives its frames back without the engine, piece by piece, once clean pages of a
//! file are cached elsewhere. Those of a region, to which clients may still write (see
//! [`holes`](crate::engine::teardown::holes)), are given back by a thread of its user. Until then they count as frames
//! that are there; where the machine has none, whoever needs one gives some of these back himself.

use crate::engine::Engine;
use crate::engine::objects::{Content, Identity, Object};
use crate::user_threads::Work;
use crate::victims::CachedFile;
use freehold_linux::PageRange;
use freehold_linux::memory::PagedMemfd;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Frames that the step gives back itself in which an object goes.
const AT_ONCE: usize = 64;
/// Pages that are given back with one system call.
const PIECE: usize = 256;

/// What was behind one object.
#[derive(Debug)]
pub(crate) struct DeferredFree {
    memory: Arc<PagedMemfd>,
    /// Who may keep whoever gives it back waiting.
    user: Option<u32>,
    /// The first page that nobody has begun to give back.
    next: AtomicUsize,
    /// Its frames, when it was left, at most.
    pub(in crate::engine) frames: usize,
    /// What its pages are, where they may be cached before they go.
    pub(in crate::engine) file: Option<(Identity, CachedFile)>,
}

impl DeferredFree {
    /// Gives back the frames of the next pages; false where there were none any more.
    fn clear_some(&self) -> bool {
        let first = self.next.fetch_add(PIECE, Ordering::Relaxed);
        let count = self.memory.pages().saturating_sub(first).min(PIECE);
        // What cannot be given back now is when all of it is unmapped and closed.
        count > 0 && self.memory.punch(PageRange::new(first, count)).is_ok()
    }

    pub(in crate::engine) fn memory(&self) -> &PagedMemfd {
        &self.memory
    }

    /// Gives back all that nobody else gives back.
    pub(crate) fn clear(&self) {
        while self.clear_some() {}
    }

    /// Frames that are still there, at most.
    fn left(&self) -> usize {
        let pages = self.memory.pages();
        pages.saturating_sub(self.next.load(Ordering::Relaxed)).min(self.frames)
    }
}

/// All of it, the oldest first.
#[derive(Debug, Default)]
pub(in crate::engine) struct DeferredFrees(VecDeque<Arc<DeferredFree>>);

impl DeferredFrees {
    /// Frames that are still there, at most.
    pub(in crate::engine) fn frames(&self) -> usize {
        self.0.iter().map(|deferred| deferred.left()).sum()
    }

    /// What nobody can keep waiting.
    fn own(&self) -> impl Iterator<Item = &Arc<DeferredFree>> {
        self.0.iter().filter(|deferred| deferred.user.is_none())
    }

    /// The machine has no frame: gives some of these back; whether there were any.
    pub(in crate::engine) fn give_way(&self) -> bool {
        self.own().any(|deferred| deferred.clear_some())
    }
}

impl Engine {
    /// The memory of an object that is gone, which had so many frames.
    pub(super) fn defer_free(&mut self, object: Object, frames: usize) {
        let (memory, user, file) = match object.content {
            Content::Region { memory, .. } => (memory, Some(object.uid), None),
            Content::File {
                memory,
                identity,
                cached,
                changed,
                ..
            } => {
                let cached = cached.filter(|_| !changed && frames > 0);
                (Arc::new(memory), None, cached.map(|cached| (identity, cached)))
            }
            Content::Private { .. } => return,
        };
        if frames <= AT_ONCE && file.is_none() {
            return;
        }
        let deferred = Arc::new(DeferredFree {
            memory,
            user,
            next: AtomicUsize::new(0),
            frames,
            file,
        });
        self.teardown.deferred_free.0.push_back(Arc::clone(&deferred));
        match user {
            Some(user) => self.clear_apart(user, deferred),
            None => self.backing.locked.wake(),
        }
    }

    fn clear_apart(&self, user: u32, deferred: Arc<DeferredFree>) {
        let (completions, pager) = (Arc::clone(&self.io.completions), self.step.pager);
        let clear = move || {
            deferred.clear();
            completions.deferred_cleared(pager, deferred);
        };
        self.backing.sources.threads.give(user, Work::Closing, Box::new(clear));
    }

    /// What is to be given back next.
    pub(crate) fn next_deferred(&self) -> Option<Arc<DeferredFree>> {
        self.teardown.deferred_free.own().next().cloned()
    }

    /// This has been given back.
    pub(crate) fn forget_deferred(&mut self, given_back: &Arc<DeferredFree>) {
        self.teardown
            .deferred_free
            .0
            .retain(|deferred| !Arc::ptr_eq(deferred, given_back));
    }
}

#[cfg(test)]
mod tests {
    use super::{DeferredFree, DeferredFrees, PIECE};
    use freehold_linux::PageRange;
    use freehold_linux::memory::PagedMemfd;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    fn deferred(pages: usize, frames: usize) -> Arc<DeferredFree> {
        let memory = Arc::new(PagedMemfd::create(c"deferred", pages, false).unwrap());
        memory.populate(PageRange::new(0, frames)).unwrap();
        let next = AtomicUsize::new(0);
        Arc::new(DeferredFree {
            memory,
            user: None,
            next,
            frames,
            file: None,
        })
    }

    #[test]
    fn whoever_needs_frames_takes_them_from_what_is_being_given_back() {
        let (first, second) = (deferred(3 * PIECE + 1, 3 * PIECE + 1), deferred(2 * PIECE, 10));
        let heap = DeferredFrees([Arc::clone(&first), Arc::clone(&second)].into());
        assert_eq!(heap.frames(), 3 * PIECE + 11);
        assert!(heap.give_way());
        assert_eq!(first.memory.resident().unwrap().pages, 2 * PIECE + 1);
        assert_eq!(heap.frames(), 2 * PIECE + 11);
        // From two sides at once.
        std::thread::scope(|scope| {
            scope.spawn(|| first.clear());
            while heap.frames() > 10 {
                heap.give_way();
            }
        });
        assert_eq!(first.memory.resident().unwrap().pages, 0);
        while heap.give_way() {}
        assert_eq!(second.memory.resident().unwrap().pages, 0);
        assert_eq!(heap.frames(), 0);
    }
}
