//! Leases of the files that are cached, and the thread that lets them go when somebody wants to write.

use super::Victims;
use crate::closing::{LentFile, WeakFile};
use freehold_ecache::FileId;
use freehold_linux::file_lease::{self, Break, BreakWaiter, LeaseOwner};
use freehold_linux::pi_mutex::PiMutex;
use freehold_linux::thread;
use rustix::fd::{AsFd, AsRawFd, RawFd};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::time::Duration;

/// How often the thread looks whether the server is still there.
const LOOK: Duration = Duration::from_secs(1);

/// A file that has had a lease since it was opened.
#[derive(Debug)]
struct Leased {
    /// Whoever has it has it open.
    file: WeakFile,
    /// What it is called in the cache, as soon as that is known.
    id: Option<FileId>,
}

/// Files by descriptor. Of one that is closed the row stays until the descriptor is another's: it is of no file then.
#[derive(Debug)]
pub(super) struct Leases {
    owner: OnceLock<LeaseOwner>,
    files: PiMutex<BTreeMap<RawFd, Leased>>,
}

impl Leases {
    pub(super) fn new() -> Self {
        Self {
            owner: OnceLock::new(),
            files: PiMutex::new(BTreeMap::new()),
        }
    }

    /// Takes a lease on a file, which nobody else may have open for writing; whether there is one now.
    pub(super) fn take(&self, file: &LentFile) -> bool {
        let Some(owner) = self.owner.get() else { return false };
        // Before the lease: it may be wanted back at once.
        let row = Leased {
            file: Arc::downgrade(file),
            id: None,
        };
        self.files.lock().insert(descriptor(file), row);
        owner.take(&***file).is_ok()
    }

    /// Notes what a file is called in the cache.
    pub(super) fn name(&self, file: &LentFile, id: FileId) {
        if let Some(row) = self.files.lock().get_mut(&descriptor(file)) {
            row.id = Some(id);
        }
    }

    /// Files that are leased now.
    pub(super) fn held(&self) -> usize {
        let all: Vec<LentFile> = self
            .files
            .lock()
            .values()
            .filter_map(|row| row.file.upgrade())
            .collect();
        all.iter().filter(|file| file_lease::is_held(&****file)).count()
    }

    /// Files whose lease may be wanted back.
    fn meant(&self, told: Break) -> Vec<(LentFile, Option<FileId>)> {
        let files = self.files.lock();
        let open = |row: &Leased| Some((row.file.upgrade()?, row.id));
        match told {
            Break::Of(descriptor) => files.get(&descriptor).and_then(open).into_iter().collect(),
            Break::Any => files.values().filter_map(open).collect(),
        }
    }
}

fn descriptor(file: &LentFile) -> RawFd {
    file.as_fd().as_raw_fd()
}

/// Starts the thread that the kernel tells of leases that are wanted back. It ends with the server.
pub(super) fn start(victims: &Arc<Victims>) -> io::Result<()> {
    let (ready, started) = mpsc::channel();
    let served = Arc::downgrade(victims);
    let run = move || {
        let waiter = match BreakWaiter::on_this_thread() {
            Ok(waiter) => waiter,
            Err(errno) => {
                let _ = ready.send(Err(io::Error::from(errno)));
                return;
            }
        };
        let _ = ready.send(Ok(waiter.owner()));
        serve(&waiter, &served);
    };
    thread::spawn("freehold-lease", run)?;
    let ended = |_| io::Error::other("the thread that lets leases go has ended");
    let owner = started.recv().map_err(ended)??;
    // It is set once.
    let _ = victims.leases.owner.set(owner);
    Ok(())
}

fn serve(waiter: &BreakWaiter, served: &Weak<Victims>) {
    loop {
        let told = waiter.wait(LOOK);
        let Some(victims) = served.upgrade() else { return };
        let meant = told.map_or_else(Vec::new, |told| victims.leases.meant(told));
        for (file, id) in meant {
            if !file_lease::is_held(&**file) {
                id.into_iter().for_each(|id| victims.forget(id));
                file_lease::release(&**file);
            }
        }
    }
}
