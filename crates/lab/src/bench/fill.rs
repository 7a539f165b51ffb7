//! A fill from the memory store into a free frame.

use std::rc::Rc;

use freehold_core::limits::{ObjectKind, Regime};
use freehold_core::units::PageIndex;
use freehold_linux::bare::{BareRegion, PageContent};
use freehold_linux::{PAGE_SIZE, PageRange};

use super::Bench;
use super::floor::{Floor, Serving};
use super::rounds::{Effort, Found, Samples, refused};
use super::world::{self, WORDS};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

const PAGES: u32 = 1024;
/// Fills of all pages in one round.
const PASSES: u32 = 10;

/// The benchmark.
pub(super) const BENCH: Bench = Bench {
    name: "fault-fill",
    about: "a fault on a page in the memory store (latency 0), a free frame at hand",
    floor: "SIGBUS, a locked frame, a copy of 4 KiB, UFFDIO_CONTINUE, return",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.3,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let passes = effort.scaled(PASSES);
    let stored = vec![[0x5a; PAGE_SIZE]; PAGES as usize];
    let mut unlocked = Samples::new()?;
    found.alternate(
        effort,
        |samples| {
            floor(samples, passes, &stored, fill_locked)?;
            floor(&mut unlocked, passes, &stored, fill_unlocked)
        },
        |samples| (0..passes).try_for_each(|_| ours(samples, &stored)),
    )?;
    found.add_side("UFFDIO_COPY", &unlocked);
    found.notes.push(
        "UFFDIO_COPY, shown for comparison, gives a frame that is not locked and keeps none for the reservation"
            .to_owned(),
    );
    found
        .notes
        .push("ours also verifies a checksum of the page, and gives back a frame of the reserve".to_owned());
    Ok(found)
}

fn fill_locked(region: &BareRegion, page: usize, content: &PageContent) -> bool {
    let allocated = region.allocate(page).is_ok();
    region.copy_in(page, content);
    allocated && region.map(page).is_ok()
}

fn fill_unlocked(region: &BareRegion, page: usize, content: &PageContent) -> bool {
    region.fill_and_map(page, content).is_ok()
}

type Fill = fn(&BareRegion, usize, &PageContent) -> bool;

fn floor(samples: &mut Samples, passes: u32, stored: &[PageContent], fill: Fill) -> Result<(), Failure> {
    let floor = Floor::new()?;
    let region = floor.region(PAGES as usize)?;
    let (served, stored) = (Rc::clone(&region), stored.to_vec());
    let serve = move |page: usize| stored.get(page).is_some_and(|content| fill(&served, page, content));
    let _serving = Serving::begin(&region, serve)?;
    for _ in 0..passes {
        for page in 0..PAGES as usize {
            samples.time(|| region.write(page, 1));
        }
        region.punch(PageRange::new(0, PAGES as usize)).map_err(refused)?;
    }
    Ok(())
}

/// The pages of a file object are in the store from the start, so that a first touch reads them from there.
pub(super) fn ours(samples: &mut Samples, stored: &[PageContent]) -> Result<(), Failure> {
    let pager = world::pager(PAGES + 64, PAGES)?;
    let reservation = world::reserve(&pager, PAGES + 64)?;
    let object = world::object(&pager, ObjectKind::File, PAGES, Regime::Conserve)?;
    for (page, content) in (0..).zip(stored) {
        pager.load(object, PageIndex::new(page), content).map_err(refused)?;
    }
    let task = pager.add_task(Some(reservation)).map_err(refused)?;
    let region = task.map(object).map_err(refused)?;
    let bound = task.enter().map_err(refused)?;
    for page in 0..PAGES as usize {
        samples
            .time(|| bound.write_word(&region, page * WORDS, 1))
            .map_err(refused)?;
    }
    world::expect("fills", task.counts().file_reads, u64::from(PAGES))
}
