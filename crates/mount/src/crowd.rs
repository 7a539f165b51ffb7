//! Inodes that the kernel knows and nobody uses, where there are too many: the kernel is asked to forget them.
//!
//! An inode costs a descriptor, one that is read two more. The kernel forgets an inode only when it lacks memory. So
//! where most of the descriptors are taken, a thread goes round all inodes with a hand (second chance): who was asked
//! for since the last round stays, the others are forgotten. What somebody has open, or is in, the kernel keeps.

use crate::files::Files;
use crate::inode::Inode;
use crate::mount::THREADS;
use freehold_linux::fuse_device::FuseDevice;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the thread looks by itself.
const LOOK: Duration = Duration::from_millis(50);
/// How long the kernel is given to tell of what it has forgotten.
const PAUSE: Duration = Duration::from_millis(1);
/// Inodes that are gone through together.
const AT_ONCE: usize = 512;
/// Threads that may wait for a descriptor at a time: the others hear what the kernel has forgotten.
const WAITERS: usize = THREADS - 1;
/// How often one of them tries again.
const TRIES: u32 = 50;
/// Rounds in which nothing need go because all was used, before the thread waits.
const FRUITLESS: u32 = 3;

/// What the thread goes by.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// Descriptors for inodes and open files from which on inodes are forgotten.
    most: usize,
    /// The connection's device; gone at the end, which the kernel waits for.
    device: Mutex<Option<FuseDevice>>,
    /// The kernel does not know how to forget by number.
    by_name: AtomicBool,
    wanted: Condvar,
    waits: Mutex<()>,
    waiters: AtomicUsize,
}

impl Crowd {
    /// For a process that may have so many descriptors. A quarter is for all else.
    pub(crate) fn new(descriptors: u64) -> Self {
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        Self {
            most: descriptors / 4 * 3,
            device: Mutex::default(),
            by_name: AtomicBool::new(false),
            wanted: Condvar::new(),
            waits: Mutex::default(),
            waiters: AtomicUsize::new(0),
        }
    }

    /// The device of the mount, or none any more.
    pub(crate) fn set_device(&self, device: Option<FuseDevice>) {
        *self.device.lock().unwrap_or_else(PoisonError::into_inner) = device;
        self.wanted.notify_all();
    }

    /// Opens something; where there is no descriptor left, again once some have been given back.
    pub(crate) fn with_room<T>(&self, open: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match open() {
            Err(Errno::MFILE) => {}
            outcome => return outcome,
        }
        let may_wait = self.waiters.fetch_add(1, Ordering::Relaxed) < WAITERS;
        let tries = if may_wait { TRIES } else { 0 };
        let again = (0..tries).find_map(|_| {
            self.wanted.notify_one();
            std::thread::sleep(PAUSE);
            match open() {
                Err(Errno::MFILE) => None,
                outcome => Some(outcome),
            }
        });
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        again.unwrap_or(Err(Errno::MFILE))
    }

    fn wait(&self) {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.wanted.wait_timeout(waits, LOOK));
    }

    /// Has the kernel forget inodes by number; false where it cannot.
    fn prune(&self, inodes: &[Arc<Inode>]) -> bool {
        if self.by_name.load(Ordering::Relaxed) {
            return false;
        }
        let numbers: Vec<u64> = inodes.iter().map(|inode| inode.number).collect();
        let device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let pruned = device
            .as_ref()
            .map_or(Err(Errno::INVAL), |device| device.prune(&numbers));
        if pruned == Err(Errno::INVAL) {
            self.by_name.store(true, Ordering::Relaxed);
        }
        pruned.is_ok()
    }
}

impl Files {
    /// A name was looked up: where there are too many, the thread goes about it, and is waited for a moment where
    /// descriptors are about to run out.
    pub(crate) fn note_lookup(&self) {
        let (taken, most) = (self.descriptors(), self.tree.crowd.most);
        if taken >= most {
            self.tree.crowd.wanted.notify_one();
        }
        if taken >= most + most / 6 {
            std::thread::sleep(PAUSE);
        }
    }

    fn is_crowded(&self) -> bool {
        self.descriptors() >= self.tree.crowd.most
    }

    /// Descriptors that inodes and open files have.
    fn descriptors(&self) -> usize {
        let uncached = self.counters.uncached_inodes.load(Ordering::Relaxed);
        let read = self.leases.files().len() + usize::try_from(uncached).unwrap_or(usize::MAX);
        self.tree.inodes.len() + 2 * read + self.handles.len()
    }

    /// Goes through the next inodes; where the look after goes on, 0 for the beginning.
    fn forget_unused(&self, after: u64) -> u64 {
        let found = self.tree.inodes.after(after, AT_ONCE);
        let next = found.last().map_or(0, |inode| inode.number);
        let unused: Vec<Arc<Inode>> = found.into_iter().filter(|inode| !inode.was_used()).collect();
        if !unused.is_empty() && !self.tree.crowd.prune(&unused) {
            // Where the kernel knows one by name only, it would forget too what somebody has open, or is in.
            let unused = unused.iter().filter(|inode| inode.kind != FileType::Directory);
            unused
                .filter(|inode| !self.handles.has(inode.number))
                .for_each(|inode| self.forget_names(inode));
        }
        next
    }

    fn make_room(&self) {
        let (mut after, mut rounds) = (0, 0);
        while !self.stop.load(Ordering::Relaxed) {
            if !self.is_crowded() || rounds == FRUITLESS {
                rounds = 0;
                self.tree.crowd.wait();
                continue;
            }
            after = self.forget_unused(after);
            rounds += u32::from(after == 0);
            std::thread::sleep(PAUSE);
        }
    }
}

/// Starts the thread. It must not be one that answers requests: the kernel may hold a folder that it waits for.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(files: &Arc<Files>) -> Result<JoinHandle<()>, Errno> {
    let files = Arc::clone(files);
    let thread = std::thread::Builder::new().name("crowd".to_owned());
    thread.spawn(move || files.make_room()).map_err(|_| Errno::AGAIN)
}
