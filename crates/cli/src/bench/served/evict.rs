//! The steady state of a server's client that is short of frames: each fault takes a dirty page out and brings one in.

use freehold_client::RegionKind;
use freehold_linux::{PAGE_SIZE, PageRange};

use super::{Bare, Client, Messages, on_one_cpu};
use crate::bench::evict::{self, BATCH, Calls, FRAMES, PAGES, WALKS, walk};
use crate::bench::rounds::{Effort, Found, Samples, refused};
use crate::bench::world::{self, WORDS};
use crate::status::Failure;

pub(in crate::bench) fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let walks = effort.scaled(WALKS);
    let mut embedded = Samples::new()?;
    on_one_cpu(|cpu| {
        found.alternate(
            effort,
            |samples| floor(samples, walks, cpu),
            |samples| {
                evict::ours(&mut embedded, walks, &mut Calls::default())?;
                ours(samples, walks)
            },
        )
    })?;
    found.add_side("embedded", &embedded);
    found.notes.push(format!(
        "batches: both sides zap, copy out and drop {BATCH} adjacent pages together; the floor's thread zaps them \
         itself, a server has the client's agent do it"
    ));
    found
        .notes
        .push("ours also makes and verifies a checksum of each page".to_owned());
    Ok(found)
}

fn floor(samples: &mut Samples, walks: u32, cpu: usize) -> Result<(), Failure> {
    let mut ring = Ring {
        store: vec![[0; PAGE_SIZE]; PAGES as usize],
        oldest: 0,
        held: 0,
    };
    let floor = Messages::start(PAGES as usize, cpu, move |bare, page| ring.serve(bare, page))?;
    let touch = |page: usize| {
        floor.write(page);
        Ok(())
    };
    (0..2).try_for_each(|_| walk(None, touch))?;
    for _ in 0..walks {
        walk(Some(samples), touch)?;
    }
    floor.finish()
}

/// The pages that have frames, oldest first: they follow each other.
struct Ring {
    store: Vec<[u8; PAGE_SIZE]>,
    oldest: usize,
    held: usize,
}

impl Ring {
    fn serve(&mut self, bare: &Bare, page: usize) -> Result<(), Failure> {
        if self.held == FRAMES as usize {
            let batch = PageRange::new(self.oldest, BATCH);
            bare.mapping.zap(batch).map_err(refused)?;
            for (page, record) in (self.oldest..).zip(&mut self.store[self.oldest..self.oldest + BATCH]) {
                bare.memory.read(page, record).map_err(refused)?;
            }
            bare.memory.punch(batch).map_err(refused)?;
            self.oldest = (self.oldest + BATCH) % PAGES as usize;
            self.held -= BATCH;
        }
        let record = self.store.get(page).ok_or_else(|| refused("no such page"))?;
        bare.memory.write(page, record).map_err(refused)?;
        self.held += 1;
        bare.map(page)
    }
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
