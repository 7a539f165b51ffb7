//! A fill from the memory server's store into a free frame.

use freehold_client::{Connection, RegionKind, Reservation};
use freehold_linux::{PAGE_SIZE, PageRange};

use super::{Client, Messages, on_one_cpu};
use crate::bench::fill;
use crate::bench::rounds::{Effort, Found, Samples, refused};
use crate::bench::world::{self, WORDS};
use crate::status::Failure;

const PAGES: u32 = 1024;
/// Fills of all pages in one round.
const PASSES: u32 = 10;
/// Frames of the task that puts the pages into the store: they are short, so that all pages but these leave.
const SHORT: u32 = 64;

pub(in crate::bench) fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let passes = effort.scaled(PASSES);
    let mut embedded = Samples::new()?;
    let stored = vec![[0x5a; PAGE_SIZE]; PAGES as usize];
    on_one_cpu(|cpu| {
        found.alternate(
            effort,
            |samples| floor(samples, passes, cpu),
            |samples| {
                fill::ours(&mut embedded, &stored)?;
                (0..passes).try_for_each(|_| ours(samples))
            },
        )
    })?;
    found.add_side("embedded", &embedded);
    found.notes.push(format!(
        "a task with {SHORT} frames has written {PAGES} pages of a shared region, so that most are in the store; \
         another with frames for all reads them: one fault each"
    ));
    found.notes.push("ours also verifies a checksum of the page".to_owned());
    Ok(found)
}

fn floor(samples: &mut Samples, passes: u32, cpu: usize) -> Result<(), Failure> {
    let stored = vec![[0x5a_u8; PAGE_SIZE]; PAGES as usize];
    let floor = Messages::start(PAGES as usize, cpu, move |bare, page| {
        let content = stored.get(page).ok_or_else(|| refused("no such page"))?;
        bare.memory.write(page, content).map_err(refused)?;
        bare.map(page)
    })?;
    for _ in 0..passes {
        for page in 0..PAGES as usize {
            samples.time(|| floor.write(page));
        }
        let whole = PageRange::new(0, PAGES as usize);
        floor.bare.memory.punch(whole).map_err(refused)?;
    }
    floor.finish()
}

fn ours(samples: &mut Samples) -> Result<(), Failure> {
    let client = Client::start(PAGES + 4 * SHORT, PAGES)?;
    let short = client.reserve("short", SHORT)?;
    let ample = client.reserve("ample", PAGES + SHORT)?;
    let region = client.region("bench", PAGES, RegionKind::Shared)?;
    let in_store = store(&client.connection, &short, &region)?;
    let task = client.connection.add_task(Some(&ample), 1, "bench");
    let task = task.map_err(refused)?;
    let mapping = task.map(&region).map_err(refused)?;
    // The last pages of the walk are those that the first task still has.
    for page in 0..in_store {
        samples.time(|| mapping.write_word(page * WORDS, 1));
    }
    let counts = task.counts().map_err(refused)?;
    world::expect("fills", counts.swap_ins, in_store as u64)
}

/// Has a task that is short of frames write all pages; the number of those, from the first on, that are in the store.
fn store(
    connection: &Connection,
    reservation: &Reservation,
    region: &freehold_client::Region,
) -> Result<usize, Failure> {
    let task = connection.add_task(Some(reservation), 1, "short");
    let mapping = task.map_err(refused)?.map(region).map_err(refused)?;
    for page in 0..PAGES as usize {
        mapping.write_word(page * WORDS, 1);
    }
    Ok((PAGES - SHORT) as usize)
}
