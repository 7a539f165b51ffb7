//! A page put into the victim cache, or got from it, beside a copy of a page whose memory no CPU cache has.

use freehold_ecache::PAGE_SIZE;
use freehold_linux::PageRange;
use freehold_linux::memory::{Chunk, Window};

use super::super::Bench;
use super::super::rounds::{Effort, Found, refused};
use super::scattered;
use crate::devices::{self, key};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

/// More than CPU caches hold.
const MEBIBYTES: u32 = 128;
const PAGES: u32 = MEBIBYTES * 256;
const GOAL: f64 = 3.0;

/// The benchmark of gets.
pub(in super::super) const GET: Bench = Bench {
    name: "ecache-get",
    about: "a page got from the victim cache: found, copied, compared with its checksum, its frame free",
    floor: "a copy of 4 KiB out of memory that no CPU cache has",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: GOAL,
    run: get,
};

/// The benchmark of puts.
pub(in super::super) const PUT: Bench = Bench {
    name: "ecache-put",
    about: "a page put into a full victim cache: the oldest gone, a checksum made, the page copied",
    floor: "a copy of 4 KiB into memory that no CPU cache has",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: GOAL,
    run: put,
};

/// Resident memory as large as the cache, reached as that is.
fn memory() -> Result<Window, Failure> {
    let pages = usize::try_from(PAGES).map_err(refused)?;
    let window = Window::reserve(pages).map_err(refused)?;
    let chunk = Chunk::create(c"freehold-bench", pages, false).map_err(refused)?;
    window.place(0, &chunk).map_err(refused)?;
    window.populate(PageRange::new(0, pages)).map_err(refused)?;
    Ok(window)
}

fn get(effort: Effort) -> Result<Found, Failure> {
    let (mut found, window, cache) = (
        Found::new()?,
        memory()?,
        devices::cache(&[("device", MEBIBYTES)], true)?,
    );
    let (mut page, mut copy) = ([0; PAGE_SIZE], [0; PAGE_SIZE]);
    let count = usize::try_from(effort.scaled(PAGES)).map_err(refused)?;
    found.alternate(
        effort,
        |samples| {
            scattered(PAGES).take(count).try_for_each(|number| {
                let place = usize::try_from(number).map_err(refused)?;
                samples.time(|| window.read(place, &mut copy)).map_err(refused)
            })
        },
        |samples| {
            devices::fill(&cache, PAGES)?;
            for number in scattered(PAGES).take(count) {
                if !samples.time(|| cache.get(key(number), &mut page)) || page[..4] != number.to_le_bytes() {
                    return Err(Failure::Run(format!("page {number} is not what was put")));
                }
            }
            Ok(())
        },
    )?;
    found.notes.push(format!("{MEBIBYTES} MiB, in scattered order"));
    Ok(found)
}

fn put(effort: Effort) -> Result<Found, Failure> {
    let (mut found, window, cache) = (
        Found::new()?,
        memory()?,
        devices::cache(&[("device", MEBIBYTES)], true)?,
    );
    let mut page = [0; PAGE_SIZE];
    let copy = [1; PAGE_SIZE];
    let count = usize::try_from(effort.scaled(PAGES)).map_err(refused)?;
    // The order in which frames become free is that of the puts to come.
    devices::fill(&cache, PAGES)?;
    for number in scattered(PAGES) {
        cache.get(key(number), &mut page);
    }
    devices::fill(&cache, PAGES)?;
    let mut next = PAGES;
    found.alternate(
        effort,
        |samples| {
            scattered(PAGES).take(count).try_for_each(|number| {
                let place = usize::try_from(number).map_err(refused)?;
                samples.time(|| window.write(place, &copy)).map_err(refused)
            })
        },
        |samples| {
            for _ in 0..count {
                page[..4].copy_from_slice(&next.to_le_bytes());
                samples.time(|| cache.put(key(next), &page)).map_err(refused)?;
                next = next.wrapping_add(1);
            }
            let mut back = [0; PAGE_SIZE];
            let last = next.wrapping_sub(1);
            if !cache.get(key(last), &mut back) || back != page {
                return Err(Failure::Run("the page put last is not what was put".to_owned()));
            }
            cache.put(key(last), &back).map_err(refused)
        },
    )?;
    found
        .notes
        .push(format!("{MEBIBYTES} MiB, full; each put makes room for itself"));
    Ok(found)
}
