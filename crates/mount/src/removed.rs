//! Files that lost their last name behind the back of the mount: the kernel is told to forget them.
//!
//! The kernel forgets a name when it is looked up and not found. A name that nobody looks up again keeps its inode
//! here, by a descriptor, and so the file's blocks on the device. So a thread of its own looks at all inodes, some at a
//! time.

use crate::attributes;
use crate::files::Files;
use crate::inode::Inode;
use freehold_linux::thread::{self, Thread};
use fuser::INodeNo;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long after some inodes the next ones are looked at.
const PAUSE: Duration = Duration::from_millis(50);
/// Inodes that are looked at together.
const AT_ONCE: usize = 128;

impl Files {
    /// Looks at inodes behind this number; where the next look begins.
    fn look_for_removed(&self, after: u64) -> u64 {
        let found = self.tree.inodes.numbers_after(after, AT_ONCE);
        for inode in found.iter().filter_map(|number| self.tree.inodes.peek(*number)) {
            let gone = attributes::status_of(inode.place.as_fd()).is_ok_and(|status| status.links() == 0);
            if gone {
                self.forget_names(&inode);
            }
        }
        found.last().copied().unwrap_or(0)
    }

    /// Has the kernel forget the names of an inode. Where a program has it open, its inode stays until that closes it.
    pub(crate) fn forget_names(&self, inode: &Inode) {
        let Some(notifier) = self.notifier.get() else { return };
        for (folder, name) in inode.take_names() {
            // A name that the kernel does not know is forgotten.
            let _ = notifier.inval_entry(INodeNo(folder), &name);
        }
    }
}

/// Starts the thread. It must not be one that answers requests: the kernel may hold a folder that it waits for.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(files: &Arc<Files>) -> Result<Thread<()>, Errno> {
    let files = Arc::clone(files);
    let look = move || {
        let mut after = 0;
        while !files.stop.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE);
            after = files.look_for_removed(after);
        }
    };
    thread::spawn("removed", look).map_err(|_| Errno::AGAIN)
}
