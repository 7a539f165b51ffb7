//! The task, and its sibling, as clients of a memory server; and the task in plain memory, touched in the same way.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use freehold_client::{Connection, Mapping, Options, Regime, RegionKind, RegionSpec, Reservation, ReservationKind};
use freehold_linux::{PAGE_SIZE, memory};

use super::child::{HOG_PAGES, PRIORITY, Report, WORKING_SET, periodic, stay_with_sibling};
use super::job::{Memory, Touching};
use crate::bench::rounds::refused;
use crate::bench::world::WORDS;
use freehold_command::exit_status::Failure;

/// Pages read and written in part in one job: a third of a period at the most, a debug build's too.
const TOUCHES: usize = if cfg!(debug_assertions) { 128 } else { 1024 };
/// Words of a cache line, of which one is read.
const LINE: usize = 8;

fn connect(socket: Option<&Path>, name: &str) -> Result<Connection, Failure> {
    let options = Options {
        socket: socket.map(Path::to_owned),
        ..Options::named(name)
    };
    Connection::open(&options).map_err(refused)
}

fn map(
    connection: &Connection,
    reservation: Option<&Reservation>,
    urgency: u8,
    name: &str,
    pages: usize,
) -> Result<Mapping, Failure> {
    let spec = RegionSpec {
        name,
        pages: u32::try_from(pages).unwrap_or(u32::MAX),
        kind: RegionKind::Private,
        regime: Regime::Conserve,
    };
    let region = connection.open_region(&spec).map_err(refused)?;
    let task = connection.add_task(reservation, urgency, name).map_err(refused)?;
    task.map(&region).map_err(refused)
}

/// The task in a reservation of the server, or in its pool.
pub(super) fn task(socket: Option<&Path>, jobs: u32, reserved: bool) -> Result<Report, Failure> {
    let connection = connect(socket, "task")?;
    let frames = u32::try_from(WORKING_SET + 64).unwrap_or(u32::MAX);
    let reserve = || connection.reserve("reserved", frames, ReservationKind::Hard);
    let reservation = reserved.then(reserve).transpose().map_err(refused)?;
    let urgency = u8::try_from(PRIORITY).unwrap_or(u8::MAX);
    let mapping = map(&connection, reservation.as_ref(), urgency, "task", WORKING_SET)?;
    measure(mapping.as_words(), jobs)
}

/// The task in memory that mlockall keeps.
pub(super) fn locked(jobs: u32) -> Result<Report, Failure> {
    let room: Vec<AtomicU64> = (0..(WORKING_SET + 1) * WORDS).map(|_| AtomicU64::new(1)).collect();
    memory::lock_all_current().map_err(refused)?;
    // Managed memory begins at a page too.
    let first = room.as_ptr().align_offset(PAGE_SIZE);
    let words = room.get(first..).ok_or_else(|| refused("memory without a page"))?;
    measure(words, jobs)
}

fn measure(words: &[AtomicU64], jobs: u32) -> Result<Report, Failure> {
    let mut work = Touching::new(Words(words), WORKING_SET, TOUCHES, jobs);
    periodic(jobs, &mut work, &AtomicU64::new(0))
}

/// Writes a page after the other of far more than the server has frames, so that every write faults, takes a dirty
/// page out and brings one in.
pub(super) fn hog(socket: Option<&Path>) -> Result<(), Failure> {
    stay_with_sibling()?;
    let connection = connect(socket, "sibling")?;
    let mapping = map(&connection, None, 0, "sibling", HOG_PAGES)?;
    for page in (0..HOG_PAGES).cycle() {
        mapping
            .write_word(page * WORDS, 1)
            .ok_or_else(|| refused("no such page"))?;
    }
    Ok(())
}

/// Memory of either kind: only where it comes from differs, not the instructions that touch it.
struct Words<'a>(&'a [AtomicU64]);

impl Words<'_> {
    fn page(&self, page: usize) -> Result<&[AtomicU64], Failure> {
        let words = self.0.get(page * WORDS..(page + 1) * WORDS);
        words.ok_or_else(|| refused("no such page"))
    }
}

impl Memory for Words<'_> {
    fn read(&mut self, page: usize, to: &mut [u8; PAGE_SIZE]) -> Result<(), Failure> {
        for (word, bytes) in self.page(page)?.iter().zip(to.chunks_exact_mut(8)).step_by(LINE) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        Ok(())
    }

    fn write(&mut self, page: usize, from: &[u8]) -> Result<(), Failure> {
        for (word, value) in self.page(page)?.iter().zip(values(from)) {
            word.store(value, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn values(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| word.try_into().map_or(0, u64::from_ne_bytes))
}
