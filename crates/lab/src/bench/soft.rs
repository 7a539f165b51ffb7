//! A soft fault: the page is resident, only the mapping is absent.

use freehold_core::limits::{ObjectKind, Regime};
use freehold_linux::PageRange;
use std::rc::Rc;

use super::Bench;
use super::floor::{Floor, Serving};
use super::rounds::{Effort, Found, Samples, refused};
use super::world::{self, WORDS};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

const PAGES: u32 = 256;
/// Walks over all pages in one round.
const WALKS: u32 = 80;

/// The benchmark.
pub(super) const BENCH: Bench = Bench {
    name: "fault-soft",
    about: "a fault on a resident page that is not mapped, through the whole pager",
    floor: "SIGBUS, UFFDIO_CONTINUE, return",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.25,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let walks = effort.scaled(WALKS);
    found.alternate(effort, |samples| floor(samples, walks), |samples| ours(samples, walks))?;
    found.notes.push(format!(
        "{PAGES} pages are unmapped together, then written one after the other"
    ));
    Ok(found)
}

fn floor(samples: &mut Samples, walks: u32) -> Result<(), Failure> {
    let floor = Floor::new()?;
    let region = floor.region(PAGES as usize)?;
    for page in 0..PAGES as usize {
        region.allocate(page).map_err(refused)?;
    }
    let served = Rc::clone(&region);
    let _serving = Serving::begin(&region, move |page| served.map(page).is_ok())?;
    for _ in 0..walks {
        region.zap(PageRange::new(0, PAGES as usize)).map_err(refused)?;
        for page in 0..PAGES as usize {
            samples.time(|| region.write(page, 1));
        }
    }
    Ok(())
}

pub(super) fn ours(samples: &mut Samples, walks: u32) -> Result<(), Failure> {
    let pager = world::pager(PAGES + 64, PAGES)?;
    let reservation = world::reserve(&pager, PAGES + 64)?;
    let object = world::object(&pager, ObjectKind::Private, PAGES, Regime::Conserve)?;
    let task = pager.add_task(Some(reservation)).map_err(refused)?;
    let region = task.map(object).map_err(refused)?;
    let bound = task.enter().map_err(refused)?;
    for page in 0..PAGES as usize {
        bound.write_word(&region, page * WORDS, 1).map_err(refused)?;
    }
    for _ in 0..walks {
        bound.zap(&region, PageRange::new(0, PAGES as usize)).map_err(refused)?;
        for page in 0..PAGES as usize {
            samples
                .time(|| bound.write_word(&region, page * WORDS, 1))
                .map_err(refused)?;
        }
    }
    world::expect("soft faults", task.counts().soft_faults, u64::from(walks * PAGES))
}
