//! A memory server that only tortures: it serves zeros, files and what was surrendered to it, and takes pages away at
//! random, all the time. One thread for all faults, one for each connection. It has no policy, no limits, no store.
#![allow(dead_code, reason = "each test uses a part")]

mod faults;
mod kernel;
mod sockets;
mod space;
mod torment;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) use space::{Client, Object, Place, Space};

pub(crate) const PAGE: u64 = 4096;

/// Everything the server knows.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) spaces: Vec<Space>,
    pub(crate) objects: BTreeMap<(u64, u64), Arc<Object>>,
    pub(crate) handles: Vec<Arc<Object>>,
    /// Children of which only the second userfaultfd has been told of: their parents' first, and that.
    pub(crate) halves: Vec<(Arc<OwnedFd>, Arc<OwnedFd>)>,
    pub(crate) sequence: u32,
    pub(crate) random: u64,
    pub(crate) rate: u32,
    /// For how long a process that unmaps memory is not told that this is known, while pages of it are taken away.
    pub(crate) dawdles: Option<Duration>,
    pub(crate) counts: Counts,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) private_faults: u64,
    pub(crate) shared_faults: u64,
    pub(crate) surrendered: u64,
    pub(crate) zeros: u64,
    pub(crate) zapped: u64,
    pub(crate) busy: u64,
    pub(crate) refused: u64,
    pub(crate) absent: u64,
    pub(crate) forks: u64,
    pub(crate) clients: u64,
    pub(crate) children: u64,
    /// How often a process had to wait while it unmapped memory.
    pub(crate) dawdled: u64,
    /// Pages that a program should have had and had not.
    pub(crate) lost: u64,
}

pub(crate) struct Shared {
    pub(crate) world: Mutex<World>,
    pub(crate) ending: AtomicBool,
    pub(crate) wakes: AtomicU64,
    pub(crate) event: OwnedFd,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ring(&self) {
        kernel::ring(&self.event);
    }
}

/// A running server; ends when dropped.
pub(crate) struct Torture {
    shared: Arc<Shared>,
    path: PathBuf,
    threads: Vec<JoinHandle<()>>,
}

impl Torture {
    /// Starts a server that takes away up to `rate` pages of each program every millisecond.
    pub(crate) fn start(name: &str, rate: u32, seed: u64) -> Self {
        let world = World {
            random: seed | 1,
            rate,
            ..World::default()
        };
        Self::with(name, world)
    }

    /// Starts a server that takes away pages of a program only, and then all it can, while that unmaps memory, for so
    /// long.
    pub(crate) fn dawdling(name: &str, dawdles: Duration) -> Self {
        let world = World {
            random: 1,
            dawdles: Some(dawdles),
            ..World::default()
        };
        Self::with(name, world)
    }

    fn with(name: &str, world: World) -> Self {
        let path = std::env::temp_dir().join(format!("freehold-torture-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let shared = Arc::new(Shared {
            world: Mutex::new(world),
            ending: AtomicBool::new(false),
            wakes: AtomicU64::new(0),
            event: kernel::event(),
        });
        let listener = freehold_linux::socket::Listener::bind(&path, 64).expect("a socket");
        let (one, other) = (shared.clone(), shared.clone());
        let threads = vec![
            std::thread::spawn(move || sockets::accept(&one, &listener)),
            std::thread::spawn(move || faults::serve(&other)),
        ];
        Self { shared, path, threads }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn counts(&self) -> Counts {
        self.shared.lock().counts
    }

    /// The command, to run under this server.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", agent_library());
        command.env("FREEHOLD_SOCKET", &self.path);
        command.env("FREEHOLD_TICKET", "00000000000000010000000000000002");
        command
    }
}

impl Drop for Torture {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        self.shared.ring();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The library, which cargo has built with this test.
pub(crate) fn agent_library() -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let above = own.ancestors().skip(1).take(3);
    let places =
        above.flat_map(|folder| ["deps/libfreehold_agent.so", "libfreehold_agent.so"].map(|at| folder.join(at)));
    let found = places.filter(|place| File::open(place).is_ok());
    found
        .into_iter()
        .next()
        .expect("cargo builds libfreehold_agent.so beside its tests")
}

/// Whether this process may have its children's memory told to it; says so where it may not.
pub(crate) fn has_rights() -> bool {
    let has = kernel::has_fork_events();
    if !has {
        println!("passed over: userfaultfd with fork events is not allowed here");
    }
    has
}
