//! Leases: taken when a file is read, let go before anybody writes it.
//!
//! To let go is: cache nothing more, drop own pages and those in the device memory, have the kernel drop its pages,
//! then release. The kernel's pages are dropped without any lock held, since that may wait for a fill or cause a write.
//! So nothing here may run in a thread that answers requests while the kernel holds pages of the file.

use crate::content::State;
use crate::files::{Files, count};
use crate::inode::Inode;
use crate::own::PAGE;
use crate::reader::Reader;
use freehold_ecache::FileId;
use freehold_linux::file_lease::{self, Break, BreakWaiter};
use freehold_linux::thread::{self, Thread};
use fuser::INodeNo;
use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};
use tracing::warn;

/// How often the thread that is told looks whether the end has come.
const LOOK: Duration = Duration::from_millis(100);

impl Files {
    /// Has a lease on a regular file if one can be had, and a reader of it in any case.
    pub(crate) fn lease(&self, inode: &Arc<Inode>, opening: bool) -> Result<(), Errno> {
        {
            let state = inode.content.read();
            if state.reader.is_some() && !state.may_lease(opening) {
                return Ok(());
            }
        }
        let mut state = inode.content.write();
        self.add_reader(inode, &mut state)?;
        if state.may_lease(opening) {
            self.take_lease(inode, &mut state);
        }
        Ok(())
    }

    /// Has a reader of a regular file.
    pub(crate) fn add_reader(&self, inode: &Inode, state: &mut State) -> Result<(), Errno> {
        if state.reader.is_none() {
            let file = self.tree.open(inode, OFlags::RDONLY)?;
            let again = |flags| self.tree.open(inode, OFlags::RDONLY | flags);
            state.reader = Some(Reader::new(file, again));
            self.counters.readers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn take_lease(&self, inode: &Arc<Inode>, state: &mut State) {
        let (Some(reader), Some(owner)) = (state.reader.as_ref(), self.leases.owner.get()) else {
            return;
        };
        let descriptor = reader.as_fd().as_raw_fd();
        // Before the lease: it may be wanted back at once.
        self.leases.files().insert(descriptor, Arc::downgrade(inode));
        let size = owner
            .take(reader)
            .and_then(|()| crate::attributes::size_of(reader.as_fd()));
        state.tried = Some(Instant::now());
        let refused = match size {
            Ok(size) => {
                let file = self.leases.new_file();
                state.lease = Some(crate::content::Leased { file, size });
                false
            }
            Err(_) => {
                file_lease::release(reader);
                self.leases.files().remove(&descriptor);
                true
            }
        };
        self.note_refused(state, refused);
    }

    /// Keeps the count of inodes that are read without a lease.
    pub(crate) fn note_refused(&self, state: &mut State, refused: bool) {
        if refused != state.refused {
            state.refused = refused;
            if refused {
                self.counters.uncached_inodes.fetch_add(1, Ordering::Relaxed);
            } else {
                self.counters.uncached_inodes.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Lets a lease go that is of no worth any more, by a thread of its own: one file's pages may take long to come
    /// back. Where no thread can be had the lease stays, and reads pass by what is cached.
    pub(crate) fn give_up(self: &Arc<Self>, inode: &Arc<Inode>) {
        if !inode.content.begin_leaving() {
            return;
        }
        count(&self.counters.lease_breaks, 1);
        let (shared, one) = (Arc::clone(self), Arc::clone(inode));
        let go = move || {
            loop {
                shared.let_go(&one);
                one.content.end_leaving();
                // What was wanted back since then was left to this thread.
                if !one.content.read().is_wanted_back() || !one.content.begin_leaving() {
                    return;
                }
            }
        };
        if let Err(error) = thread::spawn("lease-break", go) {
            inode.content.end_leaving();
            warn!(inode = inode.number, %error, "a lease cannot be let go");
        }
    }

    /// The size of a file was asked for: a lease that did not keep it is let go.
    pub(crate) fn note_size(self: &Arc<Self>, inode: &Arc<Inode>, size: u64) {
        inode.content.end.note_size(size);
        let changed = {
            let state = inode.content.read();
            state.lease.is_some_and(|lease| lease.size != size) && state.is_wanted_back()
        };
        if changed {
            self.give_up(inode);
        }
    }

    /// Lets a lease go, if there is one. Not for threads that answer requests, unless the kernel has no pages.
    pub(crate) fn let_go(&self, inode: &Inode) {
        let file = {
            let mut state = inode.content.write();
            let Some(lease) = state.lease.take() else { return };
            state.letting_go = true;
            lease.file
        };
        self.cache().drop_file(file);
        self.victims.flush_inode(FileId::new(file));
        self.drop_kernel_pages(inode);
        let mut state = inode.content.write();
        if let Some(reader) = &state.reader {
            self.leases.files().remove(&reader.as_fd().as_raw_fd());
            file_lease::release(reader);
        }
        state.letting_go = false;
        self.note_refused(&mut state, true);
        state.tried = Some(Instant::now());
    }

    /// Has the kernel drop all pages of an inode.
    fn drop_kernel_pages(&self, inode: &Inode) {
        let before = {
            let mut cache = self.cache();
            if !cache.kernel_has(inode.number) {
                return;
            }
            cache.now()
        };
        if self.invalidate(inode.number, 0, 0) {
            self.cache().kernel_dropped(inode.number, before);
        }
    }

    /// Has the kernel drop these pages of an inode.
    pub(crate) fn drop_pages(&self, inode: u64, pages: &Range<u64>) -> bool {
        let bytes = |pages: u64| i64::try_from(pages.saturating_mul(PAGE as u64)).unwrap_or(i64::MAX);
        self.invalidate(inode, bytes(pages.start), bytes(pages.end - pages.start))
    }

    /// Has the kernel drop so many bytes of an inode's pages, 0 for all behind `offset`.
    fn invalidate(&self, inode: u64, offset: i64, length: i64) -> bool {
        let Some(notifier) = self.notifier.get() else {
            return false;
        };
        count(&self.counters.invalidations, 1);
        let outcome = notifier.inval_inode(INodeNo(inode), offset, length);
        if let Ok(inode) = self.tree.inodes.get(inode) {
            inode.content.end.note_dropped();
        }
        match outcome {
            Ok(()) => true,
            Err(error) => {
                // At the end of the mount there is nobody to be told.
                if !self.stop.load(Ordering::Relaxed) {
                    warn!(inode, %error, "the kernel does not drop pages");
                }
                false
            }
        }
    }

    /// Whether a file can be opened for writing by the calling thread, which answers requests. Counts the writer.
    pub(crate) fn begin_writing(&self, inode: &Inode) -> bool {
        let mut state = inode.content.write();
        state.writers += 1;
        state.lease.is_none() && !state.letting_go && !inode.content.end.is_busy()
    }

    /// A writer has closed the file, or could not open it.
    pub(crate) fn end_writing(&self, inode: &Inode) {
        let mut state = inode.content.write();
        state.writers = state.writers.saturating_sub(1);
        state.tried = None;
    }

    /// The kernel has forgotten an inode so many times.
    pub(crate) fn forget(&self, number: u64, times: u64) {
        let before = self.cache().now();
        let Some(inode) = self.tree.inodes.forget(number, times) else {
            return;
        };
        self.tree.crowd.note_vain(false);
        self.cache().kernel_dropped(number, before);
        let mut state = inode.content.write();
        self.note_refused(&mut state, false);
        if let Some(reader) = &state.reader {
            self.leases.files().remove(&reader.as_fd().as_raw_fd());
        }
        if let Some(lease) = state.lease.take() {
            self.cache().drop_file(lease.file);
            self.victims.flush_inode(FileId::new(lease.file));
        }
        if state.reader.take().is_some() {
            self.counters.readers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Starts the thread that the kernel tells of leases that are wanted back.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(files: &Arc<Files>) -> Result<Thread<()>, Errno> {
    let (ready, started) = mpsc::channel();
    let shared = Arc::clone(files);
    let run = move || {
        let waiter = match BreakWaiter::on_this_thread() {
            Ok(waiter) => waiter,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let _ = ready.send(Ok(waiter.owner()));
        while !shared.stop.load(Ordering::Relaxed) {
            if let Some(told) = waiter.wait(LOOK) {
                wanted_back(&shared, told);
            }
        }
    };
    let thread = thread::spawn("lease-breaks", run).map_err(|_| Errno::AGAIN)?;
    let owner = started.recv().map_err(|_| Errno::AGAIN)??;
    // It is set once.
    let _ = files.leases.owner.set(owner);
    Ok(thread)
}

fn wanted_back(files: &Arc<Files>, told: Break) {
    let all: Vec<Arc<Inode>> = {
        let leases = files.leases.files();
        match told {
            Break::Of(descriptor) => leases.get(&descriptor).and_then(Weak::upgrade).into_iter().collect(),
            Break::Any => leases.values().filter_map(Weak::upgrade).collect(),
        }
    };
    for inode in all {
        if inode.content.read().is_wanted_back() {
            files.give_up(&inode);
        }
    }
}
