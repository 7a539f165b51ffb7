//! The core alone: what a fault event costs with all that follows from it, the answers to its requests included, and
//! how large the tables are.

use std::hint::black_box;

use freehold_core::fact::PageRef;
use freehold_core::id::MappingId;
use freehold_core::limits::{Limits, ObjectKind, ObjectSpec, Regime, ReservationKind, ReservationSpec};
use freehold_core::units::{FrameCount, PageCount};
use freehold_linux::clock;

use super::Bench;
use super::driven::{Driven, wrong};
use super::rounds::{Effort, Found, Samples};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

/// Faults in one sample.
const FAULTS: u32 = 480;
const SAMPLES: u32 = 1_000;
/// Dependent loads in one sample.
const LOADS: u32 = 10_000;
/// The page descriptor's 56 bytes and the pointer added to it (paper, section VI.A); its 56 bytes of each
/// `mem_reserve_page` come on top.
const PAPER_BYTES: u64 = 64;

/// The benchmark.
pub(super) const SMALL: Bench = Bench {
    name: "core",
    about: "one fault event handled by the core with all that follows from it, tables in the cache",
    floor: "one dependent load",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 120.0,
    run: small,
};

/// Tables that fit a first-level cache or nearly: a task walks through half again as many pages as it has frames.
fn small(effort: Effort) -> Result<Found, Failure> {
    let mut world = World::new(64, 96)?;
    let mut next = 0;
    let walk = move |_: &World| {
        next = (next + 1) % 96;
        next
    };
    world.warm_up(200, walk)?;
    against_loads(effort, 96, world, walk)
}

/// The benchmark.
pub(super) const LARGE: Bench = Bench {
    name: "core-large",
    about: "one fault event handled by the core, 10^6 pages touched at random",
    floor: "one dependent load over a table as large as the core's",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 6.0,
    run: large,
};

/// A million pages, touched at random: the touches that fault reach the core.
fn large(effort: Effort) -> Result<Found, Failure> {
    let pages = if effort.quick { 100_000 } else { 1_000_000 };
    let mut world = World::new(pages / 3 * 2, pages)?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let touch = move |world: &World| {
        loop {
            let page = random.below(pages);
            if !world.is_mapped(page) {
                return page;
            }
        }
    };
    world.warm_up(2 * pages, touch)?;
    let bytes = world.driven.memory.table_bytes();
    let mut found = against_loads(effort, bytes / size_of::<u32>(), world, touch)?;
    found.row("tables", megabytes(bytes), "MiB");
    found.notes.push(format!(
        "{pages} pages, two thirds of them in frames; uniformly random reads"
    ));
    Ok(found)
}

/// The benchmark.
pub(super) const METADATA: Bench = Bench {
    name: "metadata",
    about: "all tables of the core for each mapped page, every frame in use",
    floor: "the paper's page descriptor with its pointer, 56 + 8",
    unit: "bytes",
    judged: Judged::OursP50,
    goal: 32.0,
    run: metadata,
};

/// Fills a core until every frame and every page of its tables is in use.
fn metadata(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let frames = if effort.quick { 1 << 14 } else { 1 << 16 };
    let mut world = World::new(frames, frames)?;
    for page in 0..frames {
        world.fault(page)?;
    }
    let mapped = (0..frames).filter(|page| world.is_mapped(*page)).count() as u64;
    if mapped != u64::from(frames) {
        return Err(wrong(format!("only {mapped} of {frames} pages are mapped")));
    }
    let bytes = world.driven.memory.table_bytes() as u64;
    found.floor.record(PAPER_BYTES);
    found.ours.record_mean(bytes, mapped);
    found.row("tables", megabytes(world.driven.memory.table_bytes()), "MiB");
    found.notes.push(format!(
        "{frames} frames, each under a mapped page; a page that is in the store only costs 8 bytes more, and \
         smaller pools pay more for tables of fixed size"
    ));
    Ok(found)
}

fn against_loads(
    effort: Effort,
    table: usize,
    mut world: World,
    mut next: impl FnMut(&World) -> u32,
) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let chain = Random(1).cycle(table);
    let repeat = effort.scaled(SAMPLES);
    let mut at = 0;
    let loads = |samples: &mut Samples| {
        for _ in 0..(repeat / 10).max(1) {
            let begun = clock::now();
            for _ in 0..LOADS {
                at = black_box(&chain)[at as usize];
            }
            black_box(at);
            samples.record_mean(clock::now().as_nanos() - begun.as_nanos(), LOADS.into());
        }
        Ok(())
    };
    let faults = |samples: &mut Samples| {
        for _ in 0..repeat {
            let begun = clock::now();
            for _ in 0..FAULTS {
                let page = next(&world);
                world.fault(page)?;
            }
            samples.record_mean(clock::now().as_nanos() - begun.as_nanos(), FAULTS.into());
        }
        Ok(())
    };
    found.alternate(effort, loads, faults)?;
    Ok(found)
}

/// A memory with one task in one reservation, and which pages are mapped.
struct World {
    driven: Driven,
    mapping: MappingId,
    mapped: Vec<u64>,
}

impl World {
    fn new(frames: u32, pages: u32) -> Result<Self, Failure> {
        let limits = Limits {
            frames: FrameCount::new(frames),
            pages: PageCount::new(pages),
            reservations: 1,
            objects: 1,
            tasks: 1,
            mappings: 1,
            compared_pages: PageCount::ZERO,
            shared_locks: PageCount::ZERO,
        };
        let mut memory = limits.seal().map_err(wrong)?;
        let spec = ReservationSpec {
            capacity: FrameCount::new(frames),
            kind: ReservationKind::Hard,
        };
        let reservation = memory.admit(spec).map_err(wrong)?;
        let object = ObjectSpec {
            kind: ObjectKind::Private,
            pages: PageCount::new(pages),
            regime: Regime::Conserve,
        };
        let object = memory.create_object(object).map_err(wrong)?;
        let task = memory.add_task(Some(reservation)).map_err(wrong)?;
        let mapping = memory.map(task, object).map_err(wrong)?;
        Ok(Self {
            driven: Driven::new(memory),
            mapping,
            mapped: vec![0; pages.div_ceil(u64::BITS) as usize],
        })
    }

    fn is_mapped(&self, page: u32) -> bool {
        self.mapped[(page / u64::BITS) as usize] >> (page % u64::BITS) & 1 == 1
    }

    fn warm_up(&mut self, faults: u32, mut next: impl FnMut(&Self) -> u32) -> Result<(), Failure> {
        (0..faults).try_for_each(|_| {
            let page = next(self);
            self.fault(page)
        })
    }

    fn fault(&mut self, page: u32) -> Result<(), Failure> {
        let Self {
            driven,
            mapping,
            mapped,
        } = self;
        driven.fault(*mapping, page, |page, is_mapped| note(mapped, page, is_mapped))
    }
}

fn note(mapped: &mut [u64], page: PageRef, is_mapped: bool) {
    let page = page.page().get();
    let (word, bit) = (&mut mapped[(page / u64::BITS) as usize], 1 << (page % u64::BITS));
    *word = if is_mapped { *word | bit } else { *word & !bit };
}

/// Xorshift: the same numbers in every run.
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The upper half, scaled: below `bound`, which is 32 bits wide.
        u32::try_from(((self.0 >> 32) * u64::from(bound)) >> 32).unwrap_or(0)
    }

    /// A table in which each element names the next of one cycle through all of it (Sattolo's algorithm).
    fn cycle(mut self, length: usize) -> Vec<u32> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let mut table: Vec<u32> = (0..length).collect();
        for at in (1..length).rev() {
            table.swap(at as usize, self.below(at) as usize);
        }
        table
    }
}

#[allow(clippy::cast_precision_loss, reason = "for display; far below 2^53")]
fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_chain_is_one_cycle() {
        let table = Random(7).cycle(1000);
        let (mut at, mut steps) = (table[0], 1);
        while at != 0 {
            at = table[at as usize];
            steps += 1;
        }
        assert_eq!(steps, 1000);
    }
}
