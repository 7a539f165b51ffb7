//! The steady state of a task that is short of frames: each fault takes a dirty page out and brings one in.
//!
//! Both sides walk through twice as many pages as they have frames, writing each page, so that the oldest pages are
//! the ones to go, 16 adjacent ones at a time.

use std::cell::RefCell;
use std::rc::Rc;

use freehold_core::limits::{ObjectKind, Regime};
use freehold_linux::bare::{BareRegion, PageContent};
use freehold_linux::{PAGE_SIZE, PageRange, clock};
use freehold_pager::Report;

use super::Bench;
use super::floor::{Floor, Serving};
use super::rounds::{Effort, Found, Samples, refused};
use super::world::{self, WORDS};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

pub(super) const FRAMES: u32 = 1024;
pub(super) const PAGES: u32 = 2 * FRAMES;
/// Pages evicted together: what the core does in a reservation of this size.
pub(super) const BATCH: usize = 16;
/// Walks over all pages in one round, after two that reach the steady state.
pub(super) const WALKS: u32 = 10;

/// The benchmark.
pub(super) const BENCH: Bench = Bench {
    name: "evict-fill",
    about: "steady state at a full reservation: each fault evicts a dirty page and fills one; a sample is the \
            mean of the 16 faults of one batch",
    floor: "the same in the same batches of 16: zap, copy out, drop; locked frame, copy in, UFFDIO_CONTINUE",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.3,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let walks = effort.scaled(WALKS);
    let mut calls = Calls::default();
    found.alternate(
        effort,
        |samples| floor(samples, walks),
        |samples| ours(samples, walks, &mut calls),
    )?;
    found.row("faults for each zap", calls.faults / calls.zaps, "");
    found.row("faults for each punch", calls.faults / calls.punches, "");
    found.row("locks of the core for each fault", calls.locks / calls.faults, "");
    found.notes.push(format!(
        "batches: both sides zap, copy out and drop {BATCH} adjacent pages together; ours zaps up to 64 together once \
         more, when they are demoted"
    ));
    found
        .notes
        .push("ours also makes and verifies a checksum of each page".to_owned());
    Ok(found)
}

/// System calls of the pager, and what they were for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    faults: f64,
    zaps: f64,
    punches: f64,
    locks: f64,
}

impl Calls {
    #[allow(clippy::cast_precision_loss, reason = "for display; far below 2^53")]
    fn add(&mut self, faults: u64, before: &Report, after: &Report) {
        self.faults += faults as f64;
        self.zaps += (after.calls.zaps - before.calls.zaps) as f64;
        self.punches += (after.calls.punches - before.calls.punches) as f64;
        self.locks += (after.lock.holds - before.lock.holds) as f64;
    }
}

/// Walks over all pages; a sample is the mean of one batch.
pub(super) fn walk(
    samples: Option<&mut Samples>,
    mut touch: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut samples = samples;
    for first in (0..PAGES as usize).step_by(BATCH) {
        let begun = clock::now();
        (first..first + BATCH).try_for_each(&mut touch)?;
        let took = clock::now().as_nanos() - begun.as_nanos();
        if let Some(samples) = samples.as_deref_mut() {
            samples.record_mean(took, BATCH as u64);
        }
    }
    Ok(())
}

fn floor(samples: &mut Samples, walks: u32) -> Result<(), Failure> {
    let floor = Floor::new()?;
    let region = floor.region(PAGES as usize)?;
    let ring = RefCell::new(Ring {
        region: Rc::clone(&region),
        store: vec![[0; PAGE_SIZE]; PAGES as usize],
        oldest: 0,
        held: 0,
    });
    let _serving = Serving::begin(&region, move |page| ring.borrow_mut().serve(page).is_some())?;
    let touch = |page: usize| {
        region.write(page, 1);
        Ok(())
    };
    (0..2).try_for_each(|_| walk(None, touch))?;
    (0..walks).try_for_each(|_| walk(Some(samples), touch))
}

/// The pages that have frames, oldest first: they follow each other.
struct Ring {
    region: Rc<BareRegion>,
    store: Vec<PageContent>,
    oldest: usize,
    held: usize,
}

impl Ring {
    fn serve(&mut self, page: usize) -> Option<()> {
        if self.held == FRAMES as usize {
            let batch = PageRange::new(self.oldest, BATCH);
            self.region.zap(batch).ok()?;
            for (page, record) in (self.oldest..).zip(&mut self.store[self.oldest..self.oldest + BATCH]) {
                self.region.copy_out(page, record);
            }
            self.region.punch(batch).ok()?;
            self.oldest = (self.oldest + BATCH) % PAGES as usize;
            self.held -= BATCH;
        }
        self.region.allocate(page).ok()?;
        self.region.copy_in(page, &self.store[page]);
        self.region.map(page).ok()?;
        self.held += 1;
        Some(())
    }
}

pub(super) fn ours(samples: &mut Samples, walks: u32, calls: &mut Calls) -> Result<(), Failure> {
    let pager = world::pager(FRAMES + 64, PAGES)?;
    let reservation = world::reserve(&pager, FRAMES)?;
    let object = world::object(&pager, ObjectKind::Private, PAGES, Regime::Conserve)?;
    let task = pager.add_task(Some(reservation)).map_err(refused)?;
    let region = task.map(object).map_err(refused)?;
    let bound = task.enter().map_err(refused)?;
    let touch = |page: usize| bound.write_word(&region, page * WORDS, 1).map_err(refused);
    (0..2).try_for_each(|_| walk(None, touch))?;
    let (before, called) = (task.counts(), pager.report().map_err(refused)?);
    (0..walks).try_for_each(|_| walk(Some(samples), touch))?;
    let counts = task.counts();
    let wanted = u64::from(walks * PAGES);
    calls.add(wanted, &called, &pager.report().map_err(refused)?);
    world::expect("swap-ins", counts.swap_ins - before.swap_ins, wanted)?;
    world::expect("evictions", counts.evictions - before.evictions, wanted)
}
