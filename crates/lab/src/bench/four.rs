//! Soft faults of four threads at once: three real-time, which fault in bursts released together, and one best-effort
//! that faults whenever it gets a CPU. The same four threads fault on the bare mechanism for the floor.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use freehold_core::limits::{ObjectKind, Regime};
use freehold_linux::PageRange;
use freehold_linux::clock::{self, MonotonicTime};
use freehold_rt::class::Class;
use freehold_scenario::results::{Judged, Ratio};

use super::Bench;
use super::floor::{Floor, Serving};
use super::rounds::{Effort, Found, Samples, refused};
use super::world::{self, WORDS};
use freehold_command::exit_status::Failure;

/// Pages of each thread, and faults in a burst.
const PAGES: u32 = 32;
const PERIOD: Duration = Duration::from_micros(500);
/// Bursts of each real-time thread in one round.
const BURSTS: u32 = 2_000;
/// For all threads to get ready.
const START: Duration = Duration::from_millis(20);
const PRIORITIES: [u32; 3] = [30, 20, 10];

/// The benchmark.
pub(super) const BENCH: Bench = Bench {
    name: "fault-soft-four",
    about: "soft faults of three real-time threads and a best-effort one at the same time",
    floor: "the same four threads on the bare mechanism",
    unit: "ns",
    judged: Judged::RatioP999,
    goal: 3.0,
    run,
};

fn run(effort: Effort) -> Result<Found, Failure> {
    let mut found = Found::new()?;
    let bursts = effort.scaled(BURSTS);
    let mut sides = [Both::new()?, Both::new()?];
    let [bare, whole] = &mut sides;
    found.alternate(
        effort,
        |samples| floor(bare, bursts).map(|()| bare.all(samples)),
        |samples| ours(whole, bursts).map(|()| whole.all(samples)),
    )?;
    let [bare, whole] = &sides;
    found.add_side("real-time: floor", &bare.real_time);
    found.add_side("real-time: ours", &whole.real_time);
    found.add_side("best-effort: floor", &bare.best_effort);
    found.add_side("best-effort: ours", &whole.best_effort);
    let of = |samples: &Samples| samples.quantiles();
    let ratio = Ratio::of(&of(&whole.real_time), &of(&bare.real_time));
    found.goal_row("the real-time threads alone: ratio of p99.9", ratio.p999, "", 3.0);
    found.notes.push(format!(
        "three SCHED_FIFO threads write {PAGES} pages each every {} us, a fourth without class all the time; floor and \
         ours are the faults of all four, those in which a thread was preempted included",
        PERIOD.as_micros()
    ));
    Ok(found)
}

/// What the real-time threads measured, and what the best-effort one did.
#[derive(Debug)]
struct Both {
    real_time: Samples,
    best_effort: Samples,
}

impl Both {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            real_time: Samples::new()?,
            best_effort: Samples::new()?,
        })
    }

    /// Makes `samples` all that was measured so far.
    fn all(&self, samples: &mut Samples) {
        samples.clone_from(&self.real_time);
        samples.merge(&self.best_effort);
    }
}

fn floor(both: &mut Both, bursts: u32) -> Result<(), Failure> {
    let floor = Floor::new()?;
    four(both, |thread| {
        let region = floor.region(PAGES as usize)?;
        for page in 0..PAGES as usize {
            region.allocate(page).map_err(refused)?;
        }
        let served = Rc::clone(&region);
        let _serving = Serving::begin(&region, move |page| served.map(page).is_ok())?;
        let unmap = || region.zap(PageRange::new(0, PAGES as usize)).map_err(refused);
        let write = |page| {
            region.write(page, 1);
            Ok(())
        };
        thread.fault(bursts, unmap, write)
    })
}

fn ours(both: &mut Both, bursts: u32) -> Result<(), Failure> {
    let frames = PAGES + 16;
    let pager = world::pager(5 * frames, 4 * PAGES)?;
    four(both, |thread| {
        let reservation = match thread.priority {
            Some(_) => Some(world::reserve(&pager, frames)?),
            None => None,
        };
        let object = world::object(&pager, ObjectKind::Private, PAGES, Regime::Conserve)?;
        let task = pager.add_task(reservation).map_err(refused)?;
        let region = task.map(object).map_err(refused)?;
        let bound = task.enter().map_err(refused)?;
        let write = |page| bound.write_word(&region, page * WORDS, 1).map_err(refused);
        (0..PAGES as usize).try_for_each(write)?;
        let unmap = || bound.zap(&region, PageRange::new(0, PAGES as usize)).map_err(refused);
        thread.fault(bursts, unmap, write)
    })
}

/// One of the four.
#[derive(Debug)]
struct Thread<'a> {
    /// None for the best-effort one.
    priority: Option<u32>,
    first: MonotonicTime,
    /// Real-time threads still at work.
    working: &'a AtomicU32,
    samples: Samples,
}

impl Thread<'_> {
    /// Unmaps all pages, then writes each, burst after burst.
    fn fault(
        &mut self,
        bursts: u32,
        unmap: impl Fn() -> Result<(), Failure>,
        write: impl Fn(usize) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self.priority {
            Some(priority) => {
                Class::Fifo { priority }.apply(&[]).map_err(refused)?;
                for burst in 0..bursts {
                    clock::sleep_until(self.first.saturating_add(PERIOD * burst));
                    self.burst(&unmap, &write)?;
                }
            }
            None => {
                clock::sleep_until(self.first);
                while self.working.load(Ordering::Acquire) > 0 {
                    self.burst(&unmap, &write)?;
                }
            }
        }
        Ok(())
    }

    fn burst(
        &mut self,
        unmap: &impl Fn() -> Result<(), Failure>,
        write: &impl Fn(usize) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        unmap()?;
        (0..PAGES as usize).try_for_each(|page| self.samples.time(|| write(page)))
    }
}

/// Runs `work` in four threads, and collects what they measured.
fn four(both: &mut Both, work: impl Fn(&mut Thread<'_>) -> Result<(), Failure> + Sync) -> Result<(), Failure> {
    let working = AtomicU32::new(u32::try_from(PRIORITIES.len()).unwrap_or(u32::MAX));
    let first = clock::now().saturating_add(START);
    let priorities = PRIORITIES.map(Some).into_iter().chain([None]);
    let outcome: Vec<Result<(Option<u32>, Samples), Failure>> = thread::scope(|scope| {
        let start = |priority: Option<u32>| {
            let (work, working) = (&work, &working);
            scope.spawn(move || {
                let samples = Samples::new()?;
                let mut thread = Thread {
                    priority,
                    first,
                    working,
                    samples,
                };
                let worked = work(&mut thread);
                if priority.is_some() {
                    working.fetch_sub(1, Ordering::AcqRel);
                }
                worked.map(|()| (priority, thread.samples))
            })
        };
        let threads: Vec<_> = priorities.map(start).collect();
        let panicked = || Err(Failure::Run("a thread of the benchmark panicked".to_owned()));
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| panicked()))
            .collect()
    });
    for one in outcome {
        let (priority, measured) = one?;
        let into = if priority.is_some() {
            &mut both.real_time
        } else {
            &mut both.best_effort
        };
        into.merge(&measured);
    }
    Ok(())
}
