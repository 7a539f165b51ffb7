//! What a store is, and what it had to do without.

use freehold_linux::Errno;
use freehold_linux::sched::SetPolicyError;
use std::fmt;

/// The kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Locked memory, with emulated latency.
    Memory,
    /// Locked memory, compressed.
    Compressed,
    /// A file.
    File,
}

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// By the threads that wait for them.
    Inline,
    /// By io_uring.
    IoUring,
    /// By so many threads of the store with `pread` and `pwrite`.
    Threads(u16),
}

impl Kind {
    /// The scenario file's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Compressed => "compressed",
            Self::File => "file",
        }
    }
}

impl Backend {
    /// One word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::IoUring => "io_uring",
            Self::Threads(_) => "threads",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(count) => write!(f, "{count} threads"),
            other => f.write_str(other.name()),
        }
    }
}

/// Something that was wanted and could not be had; the store works without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// io_uring; threads do its work.
    IoUring(Errno),
    /// Input and output past the page cache.
    Direct(Errno),
    /// Room for every page; a write may find the file system full.
    Preallocation(Errno),
    /// A file on a device.
    OnTmpfs,
    /// A real-time priority for the store's threads.
    Priority(SetPolicyError),
    /// Room for every page, by the user's own choice of a capacity.
    Capacity,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IoUring(errno) => write!(f, "io_uring is not to be had ({errno}): threads read and write instead"),
            Self::Direct(errno) => write!(
                f,
                "the file system takes no direct input and output ({errno}): pages pass through the page cache, which \
                 takes memory outside the pool"
            ),
            Self::Preallocation(errno) => write!(
                f,
                "the file system cannot set room aside ({errno}): a write may find it full, and its page stays"
            ),
            Self::OnTmpfs => write!(
                f,
                "the directory is on tmpfs: evicted pages stay in memory, outside the pool; choose one on a device"
            ),
            Self::Priority(error) => write!(f, "the store's threads run without real-time priority: {error}"),
            Self::Capacity => write!(
                f,
                "the store's capacity is below what pages that do not compress need: a write may find it full, and its \
                 page stays"
            ),
        }
    }
}

/// A store in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// What it is.
    pub kind: Kind,
    /// How bytes are moved.
    pub backend: Backend,
    /// Past the page cache; false for stores that have no file.
    pub direct: bool,
    /// What it had to do without.
    pub shortfalls: Vec<Shortfall>,
}
