//! Another thread's table of descriptors (pidfd_open(2), pidfd_getfd(2)).

use super::{Errno, arg, call5, close, descriptor};

/// A thread whose descriptors can be duplicated.
#[derive(Debug)]
pub(crate) struct Table(i32);

impl Table {
    /// The table of the first thread of this process.
    pub(crate) fn of_the_first() -> Result<Self, Errno> {
        Self::open(super::pid() as usize, 0)
    }

    /// The table of any thread (Linux 6.9).
    pub(crate) fn of(thread: u32) -> Result<Self, Errno> {
        const THREAD: usize = 0o200;
        Self::open(thread as usize, THREAD)
    }

    fn open(number: usize, flags: usize) -> Result<Self, Errno> {
        const PIDFD_OPEN: usize = 434;
        // SAFETY: touches no memory.
        let opened = unsafe { call5(PIDFD_OPEN, number, flags, 0, 0, 0) };
        opened.map(descriptor).map(Self)
    }

    /// A duplicate of one of its descriptors, in the calling thread's table.
    pub(crate) fn duplicate(&self, fd: i32) -> Result<i32, Errno> {
        const PIDFD_GETFD: usize = 438;
        // SAFETY: touches no memory.
        let taken = unsafe { call5(PIDFD_GETFD, arg(self.0), arg(fd), 0, 0, 0) };
        taken.map(descriptor)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        close(self.0);
    }
}
