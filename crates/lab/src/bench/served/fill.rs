//! A fill from the memory server's store into a free frame.

use freehold_client::{Connection, Region, RegionKind, Reservation};
use freehold_linux::PAGE_SIZE;

use super::Client;
use super::bare::{self, Bare, Work};
use crate::bench::Bench;
use crate::bench::fill;
use crate::bench::rounds::{Effort, Found, Samples, refused};
use crate::bench::world::{self, WORDS};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

const PAGES: u32 = 1024;
/// Fills of all pages in one round.
const PASSES: u32 = 10;
/// Frames of the task that puts the pages into the store: they are short, so that all pages but these leave.
const SHORT: u32 = 64;

/// The benchmark.
pub(in crate::bench) const BENCH: Bench = Bench {
    name: "fault-fill",
    about: "a fault on a page in the memory server's store (in memory, latency 0), a free frame at hand",
    floor: "message mode: UFFDIO_COPY of 4 KiB to a locked frame, UFFDIO_CONTINUE",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.5,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let passes = effort.scaled(PASSES);
    let stored = vec![[0x5a; PAGE_SIZE]; PAGES as usize];
    let mut found = bare::compare(
        effort,
        (Work::Fill, PAGES),
        |bare, samples| floor(bare, samples, passes),
        |samples| fill::ours(samples, &stored),
        |samples| ours(samples, passes),
    )?;
    found.notes.push(format!(
        "a task with {SHORT} frames has written {PAGES} pages of a shared region, so that most are in the store; \
         another with frames for all reads them: one fault each"
    ));
    found.notes.push("ours also verifies a checksum of the page".to_owned());
    Ok(found)
}

fn floor(bare: &Bare, samples: &mut Samples, passes: u32) -> Result<(), Failure> {
    for _ in 0..passes {
        for page in 0..PAGES as usize {
            samples.time(|| bare.write(page));
        }
        bare.punch()?;
    }
    Ok(())
}

fn ours(samples: &mut Samples, passes: u32) -> Result<(), Failure> {
    let client = Client::start(PAGES + 4 * SHORT, PAGES)?;
    let short = client.reserve("short", SHORT)?;
    let region = client.region("bench", PAGES, RegionKind::Shared)?;
    (0..passes).try_for_each(|_| pass(&client, &short, &region, samples))
}

/// Fills of all pages that are in the store, by a task whose reservation ends with it: then they are there again.
fn pass(client: &Client, short: &Reservation, region: &Region, samples: &mut Samples) -> Result<(), Failure> {
    let ample = client.reserve("ample", PAGES + SHORT)?;
    let in_store = store(&client.connection, short, region)?;
    let task = client.connection.add_task(Some(&ample), 1, "bench");
    let task = task.map_err(refused)?;
    let mapping = task.map(region).map_err(refused)?;
    // The last pages of the walk are those that the first task still has.
    for page in 0..in_store {
        samples.time(|| mapping.write_word(page * WORDS, 1));
    }
    let counts = task.counts().map_err(refused)?;
    world::expect("fills", counts.swap_ins, in_store as u64)
}

/// Has a task that is short of frames write all pages; the number of those, from the first on, that are in the store.
fn store(connection: &Connection, reservation: &Reservation, region: &Region) -> Result<usize, Failure> {
    let task = connection.add_task(Some(reservation), 1, "short");
    let mapping = task.map_err(refused)?.map(region).map_err(refused)?;
    for page in 0..PAGES as usize {
        mapping.write_word(page * WORDS, 1);
    }
    Ok((PAGES - SHORT) as usize)
}
