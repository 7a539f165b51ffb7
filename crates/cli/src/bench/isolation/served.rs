//! The task, and its sibling, as clients of a memory server; and the task in plain memory, touched in the same way.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use freehold_client::{Connection, Mapping, Options, Regime, RegionKind, RegionSpec, Reservation, ReservationType};
use freehold_linux::{PAGE_SIZE, memory};

use super::child::{HOG_PAGES, Memory, PRIORITY, Report, Touching, WORKING_SET, periodic, stay_with_sibling, touched};
use crate::bench::rounds::refused;
use crate::bench::world::WORDS;
use crate::status::Failure;

/// Pages read and written in part in one job: a third of a period at the most, a debug build's too.
const TOUCHES: usize = if cfg!(debug_assertions) { 512 } else { 1024 };
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

/// The task in a reservation of the server.
pub(super) fn task(socket: Option<&Path>, jobs: u32) -> Result<Report, Failure> {
    let connection = connect(socket, "reserved")?;
    let frames = u32::try_from(WORKING_SET + 64).unwrap_or(u32::MAX);
    let reservation = connection.reserve("reserved", frames, ReservationType::Hard);
    let reservation = reservation.map_err(refused)?;
    let urgency = u8::try_from(PRIORITY).unwrap_or(u8::MAX);
    let mapping = map(&connection, Some(&reservation), urgency, "reserved", WORKING_SET)?;
    measure(Served(mapping), jobs)
}

/// The task in memory that mlockall keeps.
pub(super) fn locked(jobs: u32) -> Result<Report, Failure> {
    let words = (0..WORKING_SET * WORDS).map(|_| AtomicU64::new(1)).collect();
    memory::lock_all_current().map_err(refused)?;
    measure(Locked(words), jobs)
}

fn measure<M: Memory>(memory: M, jobs: u32) -> Result<Report, Failure> {
    let mut work = Touching {
        memory,
        pages: WORKING_SET,
        touches: TOUCHES,
        buffer: [0; PAGE_SIZE],
        stalls: touched(jobs),
        faults: 0,
        failed: None,
    };
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

/// The words of a page.
fn words(page: usize) -> impl Iterator<Item = usize> {
    page * WORDS..(page + 1) * WORDS
}

struct Served(Mapping);

impl Memory for Served {
    fn read(&mut self, page: usize, to: &mut [u8; PAGE_SIZE]) -> Result<(), Failure> {
        for (word, bytes) in words(page).zip(to.chunks_exact_mut(8)).step_by(LINE) {
            let value = self.0.read_word(word).ok_or_else(|| refused("no such page"))?;
            bytes.copy_from_slice(&value.to_ne_bytes());
        }
        Ok(())
    }

    fn write(&mut self, page: usize, from: &[u8]) -> Result<(), Failure> {
        for (word, value) in words(page).zip(values(from)) {
            self.0.write_word(word, value).ok_or_else(|| refused("no such page"))?;
        }
        Ok(())
    }
}

struct Locked(Vec<AtomicU64>);

impl Memory for Locked {
    fn read(&mut self, page: usize, to: &mut [u8; PAGE_SIZE]) -> Result<(), Failure> {
        for (word, bytes) in words(page).zip(to.chunks_exact_mut(8)).step_by(LINE) {
            let value = self.0.get(word).ok_or_else(|| refused("no such page"))?;
            bytes.copy_from_slice(&value.load(Ordering::Relaxed).to_ne_bytes());
        }
        Ok(())
    }

    fn write(&mut self, page: usize, from: &[u8]) -> Result<(), Failure> {
        for (word, value) in words(page).zip(values(from)) {
            let word = self.0.get(word).ok_or_else(|| refused("no such page"))?;
            word.store(value, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn values(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| word.try_into().map_or(0, u64::from_ne_bytes))
}
