//! A soft fault served by another process, beside the bare message mode and beside the pager in this process.
//!
//! All three take place on one CPU: the memory server keeps its pager thread beside its client, and the floor's thread
//! is kept there.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use freehold_client::{Mapping, Regime, RegionKind, RegionSpec, ReservationType, Task};
use freehold_linux::memory::{Access, Memfd, ServedMapping, SharedMapping};
use freehold_linux::sched::{self, Policy};
use freehold_linux::userfault::{Features, Message, Modes, Userfault};
use freehold_linux::{AddressRange, PageRange, ThreadId, service};
use freehold_live::{Launch, OwnServer};

use super::rounds::{Effort, Found, Samples, refused};
use super::soft;
use super::world::{self, WORDS};
use crate::serve_run;
use crate::status::Failure;

const PAGES: u32 = 256;
/// Walks over all pages in one round.
const WALKS: u32 = 40;
/// Of the thread that serves: the memory server's own.
const PRIORITY: u32 = 60;

pub(super) fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let walks = effort.scaled(WALKS);
    let me = ThreadId::current();
    let before = sched::affinity(me).map_err(refused)?;
    let cpu = *sched::allowed_cpus().map_err(refused)?.last().unwrap_or(&0);
    sched::pin(me, cpu).map_err(refused)?;
    let mut embedded = Samples::new()?;
    let measured = found.alternate(
        effort,
        |samples| floor(samples, walks, cpu),
        |samples| {
            soft::ours(&mut embedded, walks)?;
            ours(samples, walks)
        },
    );
    sched::set_affinity(me, &before).map_err(refused)?;
    measured?;
    found.add_side("embedded", &embedded);
    found.notes.push(format!(
        "{PAGES} pages are unmapped together, then written one after the other, on CPU {cpu}; embedded is the same \
         through the pager in the faulting thread"
    ));
    Ok(found)
}

fn floor(samples: &mut Samples, walks: u32, cpu: usize) -> Result<(), Failure> {
    let userfault = Arc::new(Userfault::open(Features::SERVED).map_err(refused)?);
    let object = Memfd::create(c"floor", PAGES as usize).map_err(refused)?;
    let alias = SharedMapping::of_whole(&object, Access::ReadWrite).map_err(refused)?;
    alias.populate(alias.whole()).map_err(refused)?;
    let shared = SharedMapping::of_whole(&object, Access::ReadWrite).map_err(refused)?;
    let mapping = ServedMapping::new(shared, &userfault, Modes::ALL).map_err(refused)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (served, over) = (Arc::clone(&userfault), Arc::clone(&stop));
    let server = service::spawn("floor", move || serve(&served, &over, cpu)).map_err(refused)?;
    for _ in 0..walks {
        mapping.zap(PageRange::new(0, PAGES as usize)).map_err(refused)?;
        for page in 0..PAGES as usize {
            samples.time(|| mapping.write_word(page * WORDS, 1));
        }
    }
    stop.store(true, Ordering::Release);
    // One more fault, for the thread to see it.
    mapping.zap(PageRange::single(0)).map_err(refused)?;
    mapping.write_word(0, 1);
    server
        .join()
        .map_err(|_| Failure::Run("the floor's thread panicked".to_owned()))?
}

/// Reads a message, maps the page; waits for the next in the read itself.
fn serve(userfault: &Userfault, stop: &AtomicBool, cpu: usize) -> Result<(), Failure> {
    let me = ThreadId::current();
    sched::pin(me, cpu).map_err(refused)?;
    sched::set_policy(me, Policy::Fifo { priority: PRIORITY }).map_err(refused)?;
    rustix::io::ioctl_fionbio(userfault.as_fd(), false).map_err(refused)?;
    loop {
        let mut page = None;
        let read = userfault.read_messages(1, |message| {
            if let Message::Fault { address, .. } = message {
                page = usize::try_from(address).ok().and_then(AddressRange::page_containing);
            }
        });
        read.map_err(refused)?;
        if let Some(page) = page {
            userfault.continue_(page, false).map_err(refused)?;
        }
        if stop.load(Ordering::Acquire) {
            return Ok(());
        }
    }
}

fn ours(samples: &mut Samples, walks: u32) -> Result<(), Failure> {
    let launch = Launch {
        program: std::env::current_exe().map_err(refused)?,
        arguments: serve_run::plain(4 * PAGES, PAGES),
    };
    let (_server, connection) = OwnServer::start(&launch).map_err(refused)?;
    let frames = 2 * PAGES;
    let reservation = connection.reserve("bench", frames, ReservationType::Hard);
    let reservation = reservation.map_err(refused)?;
    let spec = RegionSpec {
        name: "bench",
        pages: PAGES,
        kind: RegionKind::Private,
        regime: Regime::Conserve,
    };
    let region = connection.open_region(&spec).map_err(refused)?;
    let task = connection.add_task(Some(&reservation), 1, "bench").map_err(refused)?;
    let mapping = task.map(&region).map_err(refused)?;
    for page in 0..PAGES as usize {
        mapping.write_word(page * WORDS, 1);
    }
    walk(samples, walks, &task, &mapping)
}

fn walk(samples: &mut Samples, walks: u32, task: &Task, mapping: &Mapping) -> Result<(), Failure> {
    let before = task.counts().map_err(refused)?.soft_faults;
    for _ in 0..walks {
        mapping.zap(0, PAGES as usize).map_err(refused)?;
        for page in 0..PAGES as usize {
            samples.time(|| mapping.write_word(page * WORDS, 1));
        }
    }
    let after = task.counts().map_err(refused)?.soft_faults;
    world::expect("soft faults", after - before, u64::from(walks * PAGES))
}
