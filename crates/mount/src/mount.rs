//! A mount from its beginning to its end.

use crate::ahead::Ahead;
use crate::answering::Mounted;
use crate::files::Files;
use crate::page_cache::LEAST_FRAMES;
use crate::place::{Place, TakenOff};
use crate::source::{self, SourceError};
use crate::status::{self, MountRow};
use crate::tree::Tree;
use crate::{ahead, aside, coherence, crowd, recall, removed};
use freehold_ecache::Cache;
use freehold_linux::fuse_device::FuseDevice;
use freehold_linux::memory::LockedFramesError;
use freehold_linux::mounts::FuseMount;
use freehold_linux::process::resource_limit;
use freehold_linux::thread::Thread;
use fuser::{BackgroundSession, Config, Session, SessionACL};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, mpsc};
use tracing::warn;

/// Threads that answer requests: two, so that one may wait for the device, and as many more for writers.
const THREADS: usize = 4;
/// Requests to read ahead that may wait.
const MOST_AHEAD: usize = 16;
/// Descriptors that the process may have: one or two for each inode that the kernel knows.
const DESCRIPTORS: u64 = 1 << 20;
/// Descriptors that a process has mostly, where the limit cannot be asked for.
const FEW: u64 = 1_024;

/// What to mount, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is served.
    pub source: PathBuf,
    /// Where.
    pub mountpoint: PathBuf,
    /// Frames of the page cache, 4 KiB each: at least [`Options::LEAST_FRAMES`].
    pub frames: usize,
    /// Nothing may be changed through the mount.
    pub read_only: bool,
    /// Other users may use the mount too.
    pub allow_other: bool,
}

impl Options {
    /// The smallest page cache, in frames.
    pub const LEAST_FRAMES: usize = LEAST_FRAMES;
}

/// Why there is no mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// SOURCE or MOUNTPOINT.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The page cache is too small.
    #[error("the page cache has {LEAST_FRAMES} frames (4 MiB) at least: enlarge it")]
    TooSmall,
    /// The page cache's memory.
    #[error("there is no memory for the page cache: {0}")]
    Memory(#[from] LockedFramesError),
    /// A system call that serving needs.
    #[error("cannot serve {}: {error}", .path.display())]
    Serve {
        /// SOURCE.
        path: PathBuf,
        /// What it said.
        error: Errno,
    },
    /// The kernel does not mount.
    #[error("cannot mount at {}: {error}; it takes /dev/fuse and CAP_SYS_ADMIN", .path.display())]
    Mount {
        /// MOUNTPOINT.
        path: PathBuf,
        /// What it said.
        error: std::io::Error,
    },
}

/// What is mounted. It ends with [`unmount`](Self::unmount), or when somebody takes it off its mount point.
#[derive(Debug)]
pub struct Mount {
    files: Arc<Files>,
    source: PathBuf,
    place: Place,
    session: BackgroundSession,
    threads: Vec<Thread<()>>,
}

/// What tells of a mount while another thread waits for its end.
#[derive(Clone, Debug)]
pub struct Watcher {
    files: Arc<Files>,
    source: PathBuf,
    mountpoint: PathBuf,
}

impl Watcher {
    /// What the mount is doing now.
    #[must_use]
    pub fn row(&self) -> MountRow {
        status::row(&self.files, &self.source, &self.mountpoint)
    }
}

impl Mount {
    /// Mounts. Evicted pages go to `victims`.
    ///
    /// # Errors
    /// See [`MountError`].
    pub fn new(options: &Options, victims: Arc<Cache>) -> Result<Self, MountError> {
        if options.frames < LEAST_FRAMES {
            return Err(MountError::TooSmall);
        }
        let (source, mountpoint, cleaned) = source::check(&options.source, &options.mountpoint)?;
        if cleaned {
            warn!(mountpoint = %mountpoint.display(), "a mount whose process is gone was taken off");
        }
        let serve = |error| MountError::Serve {
            path: source.clone(),
            error,
        };
        let mounting = |error| MountError::Mount {
            path: mountpoint.clone(),
            error,
        };
        let mount = FuseMount {
            kind: c"fuse.freehold",
            source: &source,
            read_only: options.read_only,
            allow_other: options.allow_other,
        };
        let descriptors = allow_descriptors().saturating_sub(open_descriptors());
        let tree = Tree::new(&source, descriptors).map_err(serve)?;
        let (sender, wanted) = mpsc::sync_channel(MOST_AHEAD);
        let files = Arc::new(Files::new(tree, options.frames, victims, sender)?);
        let leases = coherence::start(&files).map_err(serve)?;
        let mounted = Mounted(Arc::clone(&files));
        let acl = if options.allow_other {
            SessionACL::All
        } else {
            SessionACL::Owner
        };
        let placed = Place::take(&mountpoint, &mount).map_err(std::io::Error::from);
        let begun = placed.and_then(|(place, device)| {
            // What `fuser` has mounted it takes off by its path, in the end, whatever is there then.
            Ok((place, Session::from_fd(mounted, device, acl, configuration())?))
        });
        let (place, session) = begun.map_err(mounting).inspect_err(|_| files.end())?;
        let attended = attend(&files, &session, wanted).map_err(serve);
        let begun = attended.and_then(|threads| Ok((threads, session.spawn().map_err(mounting)?)));
        // Where one thread cannot be started, those that run end.
        let (mut threads, session) = begun.inspect_err(|_| files.end())?;
        threads.push(leases);
        Ok(Self {
            files,
            source,
            place,
            session,
            threads,
        })
    }

    /// Whether it is mounted still.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        !self.session.guard.is_finished()
    }

    /// Where.
    #[must_use]
    pub fn mountpoint(&self) -> &Path {
        self.place.path()
    }

    /// What tells of it.
    #[must_use]
    pub fn watcher(&self) -> Watcher {
        Watcher {
            files: Arc::clone(&self.files),
            source: self.source.clone(),
            mountpoint: self.place.path().to_path_buf(),
        }
    }

    /// Takes it off its mount point, where it is there still.
    ///
    /// # Errors
    /// It cannot be taken off.
    pub fn unmount(self) -> Result<TakenOff, Errno> {
        let over = self.session.guard.is_finished();
        // Over, and there still: somebody has cut its connection off (`umount -f` of a mount in use).
        let taken = match self.place.give_up()? {
            TakenOff::Elsewhere if over => TakenOff::Unused,
            taken => taken,
        };
        self.files.end();
        for thread in self.threads {
            let _ = thread.join();
        }
        if taken == TakenOff::Unused {
            // An error of the session is of a connection that is gone.
            let _ = self.session.join();
        }
        Ok(taken)
    }
}

/// Starts the threads that serve beside those that answer.
fn attend(files: &Arc<Files>, session: &Session<Mounted>, wanted: Receiver<Ahead>) -> Result<Vec<Thread<()>>, Errno> {
    // It is set once.
    let _ = files.notifier.set(session.notifier());
    files.tree.crowd.set_device(Some(FuseDevice::of(session.as_fd())?));
    ahead::start(files, wanted)?;
    Ok(vec![
        recall::start(files)?,
        removed::start(files)?,
        crowd::start(files)?,
        aside::start(files)?,
    ])
}

impl Files {
    /// Has the threads end.
    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wanted.notify_all();
        self.tree.crowd.set_device(None);
    }
}

fn configuration() -> Config {
    let mut configuration = Config::default();
    configuration.n_threads = Some(THREADS);
    configuration
}

/// Descriptors that this process has already, those of device memory among them.
fn open_descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as u64)
}

/// Each inode that the kernel knows costs a descriptor. Where more are not to be had, the limit stays as it is. The
/// answer is how many the process may have.
fn allow_descriptors() -> u64 {
    let Ok(limit) = resource_limit(Resource::Nofile) else {
        return FEW;
    };
    for most in [Some(DESCRIPTORS), limit.maximum] {
        let wanted = Rlimit {
            current: most,
            maximum: most.max(limit.maximum),
        };
        if rustix::process::setrlimit(Resource::Nofile, wanted).is_ok() {
            return most.unwrap_or(DESCRIPTORS);
        }
    }
    limit.current.unwrap_or(DESCRIPTORS)
}
