//! A trace replayed against a page cache and the victim cache behind it, beside one LRU list of as many pages.

use std::fs::File;
use std::hint::black_box;
use std::io::BufReader;
use std::path::Path;

use freehold_core::units::{FrameCount, PageIndex};
use freehold_core::victim_cache::Placement;
use freehold_linux::clock;
use freehold_scenario::SplitMix64;
use freehold_sim::replay::{Choice, Deletes, Event, Format, Pages, Replayed, Row, Setup, Trace, replay};

use super::super::Bench;
use super::super::rounds::{Effort, Found, Samples, refused};
use super::libcachesim::{LibCacheSim, OracleFile};
use super::lru::Lru;
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

/// Frames of the page cache and of the victim cache: 40 and 90 MiB.
const PAGE_CACHE: u32 = 10_240;
const VICTIM_CACHE: u32 = 23_040;
/// Accesses of the trace.
const ACCESSES: u32 = 10_000_000;
/// Files and pages of each: three times what both caches hold.
const FILES: u32 = 100;
const PAGES: u32 = 1_000;

/// The benchmark.
pub(in super::super) const REPLAY: Bench = Bench {
    name: "ecache-replay",
    about: "one access of a trace that is read and replayed, page cache and victim cache",
    floor: "one access of libCacheSim's LRU of both sizes, where FREEHOLD_LIBCACHESIM names a Python that has it; else \
            of one LRU list in this program",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 2.0,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let rows = trace(effort.scaled(ACCESSES));
    let accesses = rows.len() as u64;
    let file = OracleFile::write(&rows)?;
    let mut floor = Floor {
        simulator: LibCacheSim::start(file.path(), accesses)?,
        rows,
    };
    let (mut one_tier, mut one_list) = (Samples::new()?, Samples::new()?);
    let mut misses = (0, 0);
    found.alternate(
        effort,
        |samples| {
            misses.0 = floor.replay(PAGE_CACHE + VICTIM_CACHE, samples)?;
            floor.replay(PAGE_CACHE, &mut one_list).map(drop)
        },
        |samples| {
            misses.1 = ours(file.path(), VICTIM_CACHE, samples)?.misses;
            ours(file.path(), 0, &mut one_tier).map(drop)
        },
    )?;
    if misses.0 != misses.1 {
        return Err(Failure::Run(format!("{} misses, the floor has {}", misses.1, misses.0)));
    }
    let ratio = one_tier.quantiles().p50 / one_list.quantiles().p50;
    found.goal_row("one tier beside the floor with its size", ratio, "", 1.0);
    found.add_side("one tier", &one_tier);
    found.add_side("the floor with the size of one tier", &one_list);
    let rate = 1e3 / found.ours.quantiles().p50;
    found.row("accesses a second, two tiers, in millions", rate, "");
    let what = if floor.simulator.is_some() {
        "libCacheSim, which reads the trace from its file as it goes"
    } else {
        "a list of this program's, which has the trace read already: no libCacheSim is named"
    };
    found
        .notes
        .push(format!("{accesses} accesses, {} misses; the floor is {what}", misses.0));
    Ok(found)
}

/// What ours is compared with.
struct Floor {
    simulator: Option<LibCacheSim>,
    rows: Vec<Row>,
}

impl Floor {
    /// Returns misses.
    fn replay(&mut self, frames: u32, samples: &mut Samples) -> Result<u64, Failure> {
        let accesses = self.rows.len() as u64;
        let Some(simulator) = &mut self.simulator else {
            return list(&self.rows, frames, samples).map(|hits| accesses - hits);
        };
        let (time, misses) = simulator.replay(frames)?;
        samples.record_mean(time, accesses);
        Ok(misses)
    }
}

/// Files by popularity, pages in short runs.
fn trace(accesses: u32) -> Vec<Row> {
    let mut random = SplitMix64::new(1);
    let (mut rows, mut at) = (Vec::with_capacity(accesses as usize), (0, 0));
    for number in 1..=u64::from(accesses) {
        if random.below(8) == 0 {
            let file = random.below(FILES) * random.below(FILES) / FILES;
            at = (u64::from(file), random.below(PAGES));
        } else {
            at.1 = (at.1 + 1) % PAGES;
        }
        let event = Event::Access(Pages {
            file: at.0,
            first: PageIndex::new(at.1),
            count: 1,
        });
        rows.push(Row {
            number,
            time: None,
            event,
        });
    }
    rows
}

fn list(rows: &[Row], capacity: u32, samples: &mut Samples) -> Result<u64, Failure> {
    let mut lru = Lru::new(usize::try_from(capacity).map_err(refused)?);
    let (begin, mut hits) = (clock::now(), 0);
    for row in rows {
        if let Event::Access(pages) = row.event {
            hits += u64::from(lru.touch(pages.file << 32 | u64::from(pages.first.get())));
        }
    }
    samples.record_mean(clock::now().as_nanos() - begin.as_nanos(), rows.len() as u64);
    Ok(black_box(hits))
}

/// Reads the trace and replays it.
fn ours(trace: &Path, victim: u32, samples: &mut Samples) -> Result<Replayed, Failure> {
    let setup = Setup {
        page_cache: FrameCount::new(PAGE_CACHE),
        cache: FrameCount::new(victim),
        devices: Vec::new(),
        choice: Choice::Lru,
        placement: Placement::Safe,
        seed: 1,
        deletes: Deletes::Evictions,
    };
    let begin = clock::now();
    let reader = BufReader::with_capacity(1 << 20, File::open(trace).map_err(refused)?);
    let trace = Trace::read(reader, &Format::OracleGeneral { one_page: true }, &[]).map_err(refused)?;
    let read = clock::now().as_nanos() - begin.as_nanos();
    let replayed = replay(&trace, &setup, &mut || clock::now().as_nanos()).map_err(refused)?;
    samples.record_mean(read + replayed.wall_ns, trace.rows());
    Ok(replayed)
}
