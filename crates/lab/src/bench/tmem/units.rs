//! Taking, finding and withdrawing units that nobody waits for.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use freehold_linux::memory::{Access, Memfd, SharedMapping};
use freehold_linux::{PageRange, ThreadId, clock};

use super::pool;
use crate::bench::Bench;
use crate::bench::rounds::{Effort, Found, Samples, refused};
use freehold_command::exit_status::Failure;
use freehold_scenario::results::Judged;

/// Events of one sample: their mean is it.
pub(super) const BATCH: u64 = 1_000;
pub(super) const SAMPLES: u32 = 400;
/// Pages of a unit that is withdrawn.
const TAKEN_PAGES: usize = 4;

/// `cbuf-pair`.
pub(in crate::bench) const PAIR: Bench = Bench {
    name: "cbuf-pair",
    about: "a buffer taken and released, none contended",
    floor: "two compare-and-swaps of one word",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 2.0,
    run: pair,
};

/// `cbuf-map`.
pub(in crate::bench) const MAP: Bench = Bench {
    name: "cbuf-map",
    about: "a buffer found by its name, generation and size checked",
    floor: "one compare-and-swap",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 2.0,
    run: map,
};

/// `unit-take`.
pub(in crate::bench) const TAKE: Bench = Bench {
    name: "unit-take",
    about: "an unused unit of 4 pages withdrawn from its component, with its memory",
    floor: "a hole of 4 pages punched into a memory object",
    unit: "ns",
    judged: Judged::RatioP50,
    goal: 1.5,
    run: take,
};

/// Times batches; the sum of what each event returns must be `BATCH`.
pub(super) fn batches(samples: &mut Samples, repeat: u32, mut event: impl FnMut() -> bool) -> Result<(), Failure> {
    for _ in 0..repeat {
        let begun = clock::now();
        let done = (0..BATCH).filter(|_| event()).count();
        samples.record_mean(clock::now().as_nanos() - begun.as_nanos(), BATCH);
        if done as u64 != BATCH {
            return Err(refused("a unit was not to be had"));
        }
    }
    Ok(())
}

fn swap(word: &AtomicU32, from: u32, to: u32) -> bool {
    word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

pub(super) fn pair(effort: Effort) -> Result<Found, Failure> {
    let (mut found, pool, word) = (Found::new()?, pool(8, 1, 0)?, AtomicU32::new(0));
    let (own, repeat) = (ThreadId::current().get(), effort.scaled(SAMPLES));
    found.alternate(
        effort,
        |samples| {
            batches(samples, repeat, || {
                let word = black_box(&word);
                swap(word, 0, own) && swap(word, own, 0)
            })
        },
        |samples| {
            batches(samples, repeat, || {
                let taken = black_box(&pool).take(64);
                taken.is_ok_and(|buffer| pool.release(buffer.start).is_ok())
            })
        },
    )?;
    Ok(found)
}

pub(super) fn map(effort: Effort) -> Result<Found, Failure> {
    let (mut found, pool, word) = (Found::new()?, pool(8, 1, 0)?, AtomicU32::new(7));
    let buffer = pool.take(64).map_err(refused)?;
    let repeat = effort.scaled(SAMPLES);
    found.alternate(
        effort,
        |samples| batches(samples, repeat, || swap(black_box(&word), 7, 7)),
        |samples| {
            batches(samples, repeat, || {
                black_box(&pool).find(black_box(buffer.id), 64).is_some()
            })
        },
    )?;
    pool.release(buffer.start).map_err(refused)?;
    Ok(found)
}

fn take(effort: Effort) -> Result<Found, Failure> {
    let (mut found, pool) = (Found::new()?, pool(1, TAKEN_PAGES, 0)?);
    let memory = Memfd::create_sealed(c"bench-punch", TAKEN_PAGES, false).map_err(refused)?;
    let mapping = SharedMapping::of_whole(&memory, Access::ReadWrite).map_err(refused)?;
    let (whole, repeat) = (PageRange::new(0, TAKEN_PAGES), effort.scaled(SAMPLES));
    // In memory before the first: what is given back is.
    let ready = || pool.withdraw(0) && pool.give(0);
    if !ready() {
        return Err(refused("no memory for a unit"));
    }
    found.alternate(
        effort,
        |samples| {
            for _ in 0..repeat {
                mapping.populate(whole).map_err(refused)?;
                samples.time(|| memory.punch_hole(whole)).map_err(refused)?;
            }
            Ok(())
        },
        |samples| {
            for _ in 0..repeat {
                if !samples.time(|| pool.withdraw(0)) || !pool.give(0) {
                    return Err(refused("a unit was not to be had"));
                }
            }
            Ok(())
        },
    )?;
    Ok(found)
}
