//! Inodes that the kernel knows and nobody uses, where there are too many: the kernel is asked to forget them.
//!
//! An inode costs a descriptor, one that is read two more. The kernel forgets an inode only when it lacks memory. So
//! where most of the descriptors are taken, a thread goes round all inodes with a hand (second chance): who was asked
//! for since the last round stays, the others are forgotten. What somebody has open, or is in, the kernel keeps.
//! Requests that take a descriptor wait meanwhile where few are left ([`aside`](crate::aside)).

use crate::files::Files;
use crate::inode::Inode;
use freehold_linux::fuse_device::FuseDevice;
use freehold_linux::thread::{self, Thread};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often the thread looks by itself.
const LOOK: Duration = Duration::from_millis(50);
/// How long the kernel is given to tell of what it has forgotten.
const PAUSE: Duration = Duration::from_millis(1);
/// Inodes that are gone through together.
const AT_ONCE: usize = 512;
/// Rounds in which nothing need go because all was used, before the thread waits.
const FRUITLESS: u32 = 3;
/// Rounds after which inodes that were used are forgotten too, where requests wait for room.
const PATIENT: u32 = 2;
/// Looks after which there is no room, at least: about a fifth of a second's.
const VAIN: u64 = 200;

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
    /// How often the thread has gone through some inodes.
    looks: AtomicU64,
    /// A request has waited in vain, and nobody has closed or forgotten anything since.
    in_vain: AtomicBool,
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
            looks: AtomicU64::new(0),
            in_vain: AtomicBool::new(false),
        }
    }

    /// The device of the mount, or none any more.
    pub(crate) fn set_device(&self, device: Option<FuseDevice>) {
        *self.device.lock().unwrap_or_else(PoisonError::into_inner) = device;
        self.wanted.notify_all();
    }

    /// A request has waited in vain: programs have all inodes in use. Or one was closed or forgotten since.
    pub(crate) fn note_vain(&self, vain: bool) {
        self.in_vain.store(vain, Ordering::Relaxed);
    }

    /// Has the thread look.
    pub(crate) fn wake(&self) {
        self.wanted.notify_one();
    }

    /// How often the thread has gone through some inodes.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Whether the kernel knows no better than by name.
    pub(crate) fn forgets_by_name(&self) -> bool {
        self.by_name.load(Ordering::Relaxed)
    }

    fn wait(&self) {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.wanted.wait_timeout(waits, LOOK));
    }

    /// Has the kernel forget inodes by number; false where it cannot.
    fn prune(&self, inodes: &[u64]) -> bool {
        if self.by_name.load(Ordering::Relaxed) {
            return false;
        }
        let device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let pruned = device.as_ref().map_or(Err(Errno::INVAL), |device| device.prune(inodes));
        if pruned == Err(Errno::INVAL) {
            self.by_name.store(true, Ordering::Relaxed);
        }
        pruned.is_ok()
    }
}

impl Files {
    /// Whether something may be opened: there is room, or it is known that there will be none. Where there are too many
    /// inodes the thread goes about it.
    pub(crate) fn may_open(&self) -> bool {
        let (taken, crowd) = (self.descriptors(), &self.tree.crowd);
        if taken >= crowd.most {
            crowd.wake();
        }
        taken < crowd.most + crowd.most / 6 || crowd.in_vain.load(Ordering::Relaxed)
    }

    /// How many more looks tell that all inodes are in use: some rounds, and some time.
    pub(crate) fn looks_in_vain(&self) -> u64 {
        let round = self.tree.inodes.len() / AT_ONCE + 1;
        VAIN.max(round as u64 * u64::from(FRUITLESS))
    }

    fn is_crowded(&self) -> bool {
        self.descriptors() >= self.tree.crowd.most
    }

    /// Descriptors that inodes and open files have.
    fn descriptors(&self) -> usize {
        let read = self.counters.readers.load(Ordering::Relaxed);
        self.tree.inodes.len() + 2 * read + self.handles.descriptors()
    }

    /// Goes through the next inodes, with `used` those too that were used; where the look after goes on, 0 for the
    /// beginning.
    fn forget_unused(&self, after: u64, used: bool) -> u64 {
        let inodes = &self.tree.inodes;
        let found = inodes.numbers_after(after, AT_ONCE);
        let may_go = |number: &u64| inodes.peek(*number).is_some_and(|inode| !inode.was_used() || used);
        let unused: Vec<u64> = found.iter().copied().filter(may_go).collect();
        if !unused.is_empty() && !self.tree.crowd.prune(&unused) {
            // Where the kernel knows one by name only, it would forget too what somebody has open, or is in.
            let unused = unused.iter().filter_map(|number| inodes.peek(*number));
            unused
                .filter(|inode| inode.kind != FileType::Directory)
                .filter(|inode| !self.handles.has(inode.number) && !self.is_held(inode))
                .for_each(|inode| self.forget_names(&inode));
        }
        self.tree.crowd.looks.fetch_add(1, Ordering::Relaxed);
        found.last().copied().unwrap_or(0)
    }

    /// Whether the kernel holds a folder in which it is until a request is answered that waits for room.
    fn is_held(&self, inode: &Inode) -> bool {
        inode.is_named_in(|folder| self.aside.holds(folder))
    }

    fn make_room(&self) {
        let (mut after, mut rounds) = (0, 0);
        while !self.stop.load(Ordering::Relaxed) {
            if !self.is_crowded() || rounds == FRUITLESS {
                rounds = 0;
                self.tree.crowd.wait();
                continue;
            }
            let used = rounds >= PATIENT && !self.aside.is_empty();
            after = self.forget_unused(after, used);
            rounds += u32::from(after == 0);
            std::thread::sleep(PAUSE);
        }
    }
}

/// Starts the thread. It must not be one that answers requests: the kernel may hold a folder that it waits for.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(files: &Arc<Files>) -> Result<Thread<()>, Errno> {
    let files = Arc::clone(files);
    thread::spawn("crowd", move || files.make_room()).map_err(|_| Errno::AGAIN)
}
