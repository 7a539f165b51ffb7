//! A soft fault served by another process, beside the bare message mode and beside the pager in this process.

use freehold_client::{Mapping, RegionKind, Task};

use super::Client;
use super::bare::{self, Bare, Work};
use crate::bench::Bench;
use crate::bench::rounds::{Effort, Found, Samples, refused};
use crate::bench::soft;
use crate::bench::world::{self, WORDS};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

const PAGES: u32 = 256;
/// Walks over all pages in one round.
const WALKS: u32 = 40;

/// The benchmark.
pub(in crate::bench) const BENCH: Bench = Bench {
    name: "fault-soft",
    about: "a fault on a resident page that is not mapped, served by the memory server",
    floor: "message mode: a SCHED_FIFO process on the same CPU reads the message, UFFDIO_CONTINUE",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.5,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let walks = effort.scaled(WALKS);
    let mut found = bare::compare(
        effort,
        (Work::Soft, PAGES),
        |bare, samples| floor(bare, samples, walks),
        |samples| soft::ours(samples, walks),
        |samples| ours(samples, walks),
    )?;
    found.notes.push(format!(
        "{PAGES} pages are unmapped together, then written one after the other, on one CPU; embedded is the same \
         through the pager in the faulting thread"
    ));
    Ok(found)
}

fn floor(bare: &Bare, samples: &mut Samples, walks: u32) -> Result<(), Failure> {
    for _ in 0..walks {
        bare.zap()?;
        for page in 0..PAGES as usize {
            samples.time(|| bare.write(page));
        }
    }
    Ok(())
}

fn ours(samples: &mut Samples, walks: u32) -> Result<(), Failure> {
    let client = Client::start(4 * PAGES, PAGES)?;
    let reservation = client.reserve("bench", 2 * PAGES)?;
    let region = client.region("bench", PAGES, RegionKind::Private)?;
    let task = client.connection.add_task(Some(&reservation), 1, "bench");
    let task = task.map_err(refused)?;
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
