//! Requests that take a descriptor, where few are left: they wait here until the kernel has forgotten inodes.
//!
//! The thread that took one goes on to answer others, since it may be the one that hears what is forgotten. A thread of
//! its own answers them in order, each once there is room. Where the inodes have been looked at often enough meanwhile
//! and there is none, programs have all of them in use: the request is tried all the same, and told what it meets.

use crate::files::Files;
use freehold_linux::thread::{self, Thread};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the thread looks by itself.
const LOOK: Duration = Duration::from_millis(50);
/// How often it looks whether there is room.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a request waits where the kernel forgets by name: what waits in a folder may keep names there known.
const BY_NAME: Duration = Duration::from_millis(200);

/// What answers a request.
type Answer = Box<dyn FnOnce(&Arc<Files>) + Send>;

struct Waiting {
    since: Instant,
    /// How often inodes must have been looked at before it waits no longer.
    looks: u64,
    /// The folder that the kernel holds until it is answered.
    folder: Option<u64>,
    answer: Answer,
}

/// The requests, the oldest first.
#[derive(Default)]
pub(crate) struct Aside {
    requests: Mutex<VecDeque<Waiting>>,
    came: Condvar,
}

impl fmt::Debug for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aside")
            .field("requests", &self.requests().len())
            .finish()
    }
}

impl Aside {
    fn requests(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request waits for which the kernel holds this folder.
    pub(crate) fn holds(&self, folder: u64) -> bool {
        self.requests().iter().any(|request| request.folder == Some(folder))
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.requests().is_empty()
    }

    /// Waits a while for a request; whether there is one.
    fn wait(&self) -> bool {
        let requests = self.requests();
        if !requests.is_empty() {
            return true;
        }
        let woken = self.came.wait_timeout(requests, LOOK);
        !woken.unwrap_or_else(PoisonError::into_inner).0.is_empty()
    }

    /// The oldest request, if its time has come.
    fn take(&self, due: impl FnOnce(&Waiting) -> bool) -> Option<Answer> {
        let mut requests = self.requests();
        if !requests.front().is_some_and(due) {
            return None;
        }
        requests.pop_front().map(|request| request.answer)
    }
}

impl Files {
    /// Keeps a request until there are descriptors. `folder`: what the kernel holds until it is answered.
    pub(crate) fn put_aside(self: &Arc<Self>, folder: Option<u64>, answer: impl FnOnce(&Arc<Self>) + Send + 'static) {
        if self.stop.load(Ordering::Relaxed) {
            return answer(self);
        }
        self.aside.requests().push_back(Waiting {
            since: Instant::now(),
            looks: self.tree.crowd.looks() + self.looks_in_vain(),
            folder,
            answer: Box::new(answer),
        });
        self.aside.came.notify_one();
        self.tree.crowd.wake();
    }

    fn is_due(&self, request: &Waiting) -> bool {
        if self.may_open() {
            return true;
        }
        let crowd = &self.tree.crowd;
        let vain = crowd.looks() >= request.looks || crowd.forgets_by_name() && request.since.elapsed() >= BY_NAME;
        if vain {
            crowd.note_vain(true);
        }
        vain
    }

    fn answer_aside(self: &Arc<Self>) {
        while !self.stop.load(Ordering::Relaxed) {
            if !self.aside.wait() {
                continue;
            }
            match self.aside.take(|oldest| self.is_due(oldest)) {
                Some(answer) => answer(self),
                None => {
                    self.tree.crowd.wake();
                    std::thread::sleep(PAUSE);
                }
            }
        }
        // Whoever waits still is told of the end.
        drop(std::mem::take(&mut *self.aside.requests()));
    }
}

/// Starts the thread.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(files: &Arc<Files>) -> Result<Thread<()>, Errno> {
    let files = Arc::clone(files);
    thread::spawn("aside", move || files.answer_aside()).map_err(|_| Errno::AGAIN)
}
