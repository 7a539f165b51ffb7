//! The steady state of a server's client that is short of frames: each fault takes a dirty page out and brings one in.

use freehold_client::RegionKind;

use super::Client;
use super::bare::{self, Bare, Work};
use crate::bench::Bench;
use crate::bench::evict::{self, BATCH, Calls, FRAMES, PAGES, WALKS, walk};
use crate::bench::rounds::{Effort, Found, Samples, refused};
use crate::bench::world::{self, WORDS};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

/// The benchmark.
pub(in crate::bench) const BENCH: Bench = Bench {
    name: "evict-fill",
    about: "steady state at a full reservation of the memory server: each fault evicts a dirty page and fills one; \
            a sample is the mean of the 16 faults of one batch",
    floor: "message mode, the same batches of 16: protect, copy out, drop; UFFDIO_COPY to a locked frame, \
            UFFDIO_CONTINUE",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.5,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let walks = effort.scaled(WALKS);
    let mut found = bare::compare(
        effort,
        (Work::Evict, PAGES),
        |bare, samples| floor(bare, samples, walks),
        |samples| evict::ours(samples, walks, &mut Calls::default()),
        |samples| ours(samples, walks),
    )?;
    found.notes.push(format!(
        "batches: both sides protect, copy out and drop {BATCH} adjacent pages together"
    ));
    found
        .notes
        .push("ours also makes and verifies a checksum of each page".to_owned());
    Ok(found)
}

fn floor(bare: &Bare, samples: &mut Samples, walks: u32) -> Result<(), Failure> {
    let touch = |page: usize| {
        bare.write(page);
        Ok(())
    };
    (0..2).try_for_each(|_| walk(None, touch))?;
    (0..walks).try_for_each(|_| walk(Some(samples), touch))
}

fn ours(samples: &mut Samples, walks: u32) -> Result<(), Failure> {
    let client = Client::start(FRAMES + 64, PAGES)?;
    let reservation = client.reserve("bench", FRAMES)?;
    let region = client.region("bench", PAGES, RegionKind::Private)?;
    let task = client.connection.add_task(Some(&reservation), 1, "bench");
    let task = task.map_err(refused)?;
    let mapping = task.map(&region).map_err(refused)?;
    let touch = |page: usize| {
        let written = mapping.write_word(page * WORDS, 1);
        written.ok_or_else(|| refused("no such page"))
    };
    (0..2).try_for_each(|_| walk(None, touch))?;
    let before = task.counts().map_err(refused)?;
    for _ in 0..walks {
        walk(Some(samples), touch)?;
    }
    let counts = task.counts().map_err(refused)?;
    let wanted = u64::from(walks * PAGES);
    world::expect("swap-ins", counts.swap_ins - before.swap_ins, wanted)?;
    world::expect("evictions", counts.evictions - before.evictions, wanted)
}
