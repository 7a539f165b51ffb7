//! The benchmarks with the pager in another process: the bare message mode as their floor, and clients of a memory
//! server.
//!
//! Everything takes place on one CPU: the memory server keeps its pager thread beside its client, and the floor's
//! thread is kept there.

pub(super) mod evict;
pub(super) mod fill;
pub(super) mod soft;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use freehold_client::{Connection, Regime, Region, RegionKind, RegionSpec, Reservation, ReservationType};
use freehold_linux::memory::{Access, Backed, Memfd, ServedMapping, SharedMapping};
use freehold_linux::sched::{self, Policy};
use freehold_linux::userfault::{Features, Message, Modes, Userfault};
use freehold_linux::{AddressRange, PAGE_SIZE, PageRange, ThreadId, service};
use freehold_live::{Launch, OwnServer};

use super::rounds::refused;
use super::world::WORDS;
use crate::serve_run;
use crate::status::Failure;

/// Of the thread that serves: the memory server's own.
const PRIORITY: u32 = 60;

/// Runs `work` with the calling thread on one CPU, whose number it is given: the last that the process may use.
fn on_one_cpu<T>(work: impl FnOnce(usize) -> Result<T, Failure>) -> Result<T, Failure> {
    let me = ThreadId::current();
    let before = sched::affinity(me).map_err(refused)?;
    let cpu = *sched::allowed_cpus().map_err(refused)?.last().unwrap_or(&0);
    sched::pin(me, cpu).map_err(refused)?;
    let done = work(cpu);
    sched::set_affinity(me, &before).map_err(refused)?;
    done
}

/// What the floor's thread works with.
struct Bare {
    userfault: Userfault,
    memory: Backed,
    mapping: ServedMapping,
}

impl Bare {
    /// Maps the frame that the page has, and wakes who waits for it.
    fn map(&self, page: usize) -> Result<(), Failure> {
        let address = self.mapping.base().addr() + page * PAGE_SIZE;
        let range = AddressRange::new(address, PAGE_SIZE).ok_or_else(|| refused("no address"))?;
        self.userfault.continue_(range, false).map_err(refused)
    }

    /// The page of a message; none for messages of other things.
    fn faulted(&self) -> Result<Option<usize>, Failure> {
        let mut page = None;
        let read = self.userfault.await_messages(1, |message| {
            if let Message::Fault { address, .. } = message {
                page = usize::try_from(address).ok();
            }
        });
        read.map_err(refused)?;
        Ok(page.map(|address| (address - self.mapping.base().addr()) / PAGE_SIZE))
    }
}

/// The bare message mode: a thread of real-time priority on the same CPU waits in the read of a message, does what is
/// to be done with the fewest system calls, and keeps no books.
struct Messages {
    bare: Arc<Bare>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Messages {
    /// Memory of `pages` absent pages whose faults `serve` answers.
    fn start(
        pages: usize,
        cpu: usize,
        mut serve: impl FnMut(&Bare, usize) -> Result<(), Failure> + Send + 'static,
    ) -> Result<Self, Failure> {
        let userfault = Userfault::open(Features::SERVED).map_err(refused)?;
        let memory = Backed::create(c"floor", pages, false).map_err(refused)?;
        let object = Memfd::adopt(memory.descriptor().map_err(refused)?, pages).map_err(refused)?;
        let shared = SharedMapping::of_whole(&object, Access::ReadWrite).map_err(refused)?;
        let mapping = ServedMapping::new(shared, &userfault, Modes::ALL).map_err(refused)?;
        rustix::io::ioctl_fionbio(userfault.as_fd(), false).map_err(refused)?;
        let bare = Arc::new(Bare {
            userfault,
            memory,
            mapping,
        });
        let stop = Arc::new(AtomicBool::new(false));
        let (served, over) = (Arc::clone(&bare), Arc::clone(&stop));
        let thread = service::spawn("floor", move || {
            let me = ThreadId::current();
            sched::pin(me, cpu).map_err(refused)?;
            sched::set_policy(me, Policy::Fifo { priority: PRIORITY }).map_err(refused)?;
            while !over.load(Ordering::Acquire) {
                if let Some(page) = served.faulted()? {
                    serve(&served, page)?;
                }
            }
            Ok(())
        });
        Ok(Self {
            bare,
            stop,
            thread: Some(thread.map_err(refused)?),
        })
    }

    fn write(&self, page: usize) {
        // Within the mapping, whose length the caller chose.
        let _ = self.bare.mapping.write_word(page * WORDS, 1);
    }

    /// Ends the thread: page 0 has a frame, or `serve` gives it one.
    fn finish(mut self) -> Result<(), Failure> {
        self.stop.store(true, Ordering::Release);
        // One more fault, for the thread to see it.
        self.bare.mapping.zap(PageRange::single(0)).map_err(refused)?;
        self.write(0);
        let thread = self.thread.take().map(JoinHandle::join);
        thread
            .unwrap_or(Ok(Ok(())))
            .map_err(|_| refused("the floor's thread panicked"))?
    }
}

/// A memory server of a benchmark's own, and a connection to it. Fields are dropped in this order.
struct Client {
    connection: Connection,
    _server: OwnServer,
}

impl Client {
    /// A server with so many frames and so many pages in all regions, its store in memory without latency.
    fn start(frames: u32, pages: u32) -> Result<Self, Failure> {
        let launch = Launch {
            program: std::env::current_exe().map_err(refused)?,
            arguments: serve_run::plain(frames, pages),
        };
        let (server, connection) = OwnServer::start(&launch).map_err(refused)?;
        Ok(Self {
            connection,
            _server: server,
        })
    }

    fn reserve(&self, name: &str, frames: u32) -> Result<Reservation, Failure> {
        self.connection
            .reserve(name, frames, ReservationType::Hard)
            .map_err(refused)
    }

    fn region(&self, name: &str, pages: u32, kind: RegionKind) -> Result<Region, Failure> {
        open(&self.connection, name, pages, kind)
    }
}

fn open(connection: &Connection, name: &str, pages: u32, kind: RegionKind) -> Result<Region, Failure> {
    let spec = RegionSpec {
        name,
        pages,
        kind,
        regime: Regime::Conserve,
    };
    connection.open_region(&spec).map_err(refused)
}
