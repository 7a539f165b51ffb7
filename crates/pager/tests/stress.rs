//! Many threads fault, evict and share at once, and every word read is the word that was written last.
//!
//! Every word of the shared region has one writer: the task whose number it has modulo the number of tasks. A writer
//! knows what it wrote last and checks it at every read; other tasks' words must be stamps of the right place, with
//! versions that never go back.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, WORDS, audit, config, hard, object, other_media, pager_over, private, stamp};
use freehold_pager::core::limits::{ObjectKind, Regime};
use freehold_pager::{Bound, MappedRegion, Pager, TaskHandle};
use std::sync::atomic::{AtomicBool, Ordering};

const TASKS: usize = 4;
const SHARED_PAGES: usize = 64;
const PRIVATE_PAGES: usize = 48;
/// Places in a page that are touched; there each task has one word.
const TOUCHED: usize = 4;
/// Accesses in one visit of a page.
const DWELL: usize = 200;

/// What one writer knows of the words it owns.
struct Owner {
    number: usize,
    versions: Vec<u64>,
    /// The highest version seen of each word, by anybody.
    seen: Vec<u64>,
}

impl Owner {
    fn new(number: usize, pages: usize) -> Self {
        Self {
            number,
            versions: vec![0; pages * WORDS],
            seen: vec![0; pages * WORDS],
        }
    }

    fn visit(
        &mut self,
        bound: &Bound<'_>,
        region: &MappedRegion,
        page: usize,
        random: &mut Random,
    ) -> Result<(), String> {
        // Dwell: a page is most likely to be evicted wrongly while somebody writes to it.
        for _ in 0..DWELL {
            // Few words, all over the page, so that each is read again soon after it was written.
            let word = random.below(TOUCHED) * (WORDS / TOUCHED) + random.below(TASKS);
            let at = page * WORDS + word;
            let found = bound.read_word(region, at).map_err(|error| error.to_string())?;
            let version = found >> 40;
            if found != 0 && found != stamp(page, word, version) {
                return Err(format!(
                    "page {page} word {word} holds {found:#x}, which belongs elsewhere"
                ));
            }
            if version < self.seen[at] {
                return Err(format!(
                    "page {page} word {word} went back from version {} to {version}",
                    self.seen[at]
                ));
            }
            self.seen[at] = version;
            if word % TASKS == self.number {
                if version != self.versions[at] {
                    return Err(format!(
                        "page {page} word {word}: wrote {}, read {version}",
                        self.versions[at]
                    ));
                }
                if random.below(2) == 0 {
                    self.versions[at] += 1;
                    bound
                        .write_word(region, at, stamp(page, word, version + 1))
                        .map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(())
    }
}

/// One task's work: visits of shared and private pages, in an order of its own.
fn play(task: &TaskHandle, shared: &MappedRegion, private: Option<&MappedRegion>, part: Part) -> Result<(), String> {
    let bound = task.enter().unwrap();
    let mut random = Random(part.seed ^ (part.number as u64) << 32);
    let mut shared_words = Owner::new(part.number, SHARED_PAGES);
    let mut own_words = Owner::new(part.number, PRIVATE_PAGES);
    for round in 0..part.rounds {
        // Half of the time everybody crowds on a few pages.
        let crowd = if random.below(2) == 0 { 4 } else { SHARED_PAGES };
        shared_words.visit(&bound, shared, random.below(crowd), &mut random)?;
        if let Some(private) = private.filter(|_| random.below(2) == 0) {
            own_words.visit(&bound, private, random.below(PRIVATE_PAGES), &mut random)?;
        }
        if round % 64 == 63 {
            bound.job_end();
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Part {
    seed: u64,
    number: usize,
    rounds: usize,
}

struct Outcome {
    wrong: Vec<String>,
    pager: Pager,
    faults: u64,
    epoch_retries: u64,
}

fn stress(seed: u64, regime: Regime, pager: Pager, rounds: usize) -> Outcome {
    let reservations = [hard(&pager, 24), hard(&pager, 28), hard(&pager, 32)];
    let region = object(&pager, ObjectKind::Shared, 64, regime);
    // The last task shares its reservation with the first, and has no private region.
    let setups: Vec<_> = (0..TASKS)
        .map(|number| {
            let task = pager.add_task(Some(reservations[number % 3])).unwrap();
            let shared = task.map(region).unwrap();
            let own = (number < 3).then(|| task.map(private(&pager, 48)).unwrap());
            (task, shared, own)
        })
        .collect();
    let stop = AtomicBool::new(false);
    let wrong = std::thread::scope(|scope| {
        // Keep every CPU busy, so that threads are preempted everywhere.
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let threads: Vec<_> = (0..TASKS)
            .map(|number| {
                let (task, shared, own) = &setups[number];
                let part = Part { seed, number, rounds };
                scope.spawn(move || play(task, shared, own.as_ref(), part))
            })
            .collect();
        let wrong = threads.into_iter().filter_map(|thread| thread.join().unwrap().err());
        let wrong: Vec<String> = wrong.collect();
        stop.store(true, Ordering::Relaxed);
        wrong
    });
    let times: Vec<_> = setups.iter().map(|(task, _, _)| task.times()).collect();
    drop(setups);
    Outcome {
        wrong,
        pager,
        faults: times.iter().map(|times| times.faults).sum(),
        epoch_retries: times.iter().map(|times| times.epoch_retries).sum(),
    }
}

fn must_be_right(seed: u64, regime: Regime, latency_us: u64, rounds: usize) {
    let pager = Pager::new(config(128, 512, latency_us)).unwrap();
    must_be_right_over(pager, seed, regime, rounds);
}

fn must_be_right_over(pager: Pager, seed: u64, regime: Regime, rounds: usize) {
    let outcome = stress(seed, regime, pager, rounds);
    assert_eq!(outcome.wrong, Vec::<String>::new(), "seed {seed}");
    assert!(outcome.faults > rounds as u64);
    audit(&outcome.pager);
    let report = outcome.pager.report().unwrap();
    // Whoever waits for another thread is woken by it, never by the clock.
    assert_eq!(report.unattributed_timeouts, 0);
    println!(
        "seed {seed}: {} faults, {} epoch retries, {} unattributed timeouts, hold {:?}, wait {:?}",
        outcome.faults,
        outcome.epoch_retries,
        report.unattributed_timeouts,
        report.lock.longest_hold,
        report.lock.longest_wait
    );
}

#[test]
fn conserved_without_latency() {
    for seed in 1..4 {
        must_be_right(seed, Regime::Conserve, 0, 4000);
    }
}

#[test]
fn conserved_with_a_latency_to_spin_for() {
    must_be_right(11, Regime::Conserve, 20, 3000);
}

#[test]
fn conserved_with_a_latency_to_sleep_for() {
    must_be_right(12, Regime::Conserve, 80, 2000);
}

#[test]
fn unmanaged_without_latency() {
    must_be_right(21, Regime::Unmanaged, 0, 4000);
}

#[test]
fn unmanaged_with_a_latency_to_sleep_for() {
    must_be_right(22, Regime::Unmanaged, 80, 2000);
}

#[test]
fn conserved_over_every_other_store() {
    for (seed, (name, medium)) in (31..).zip(other_media()) {
        println!("{name}");
        must_be_right_over(pager_over(128, 512, medium), seed, Regime::Conserve, 2000);
    }
}

#[test]
fn unmanaged_over_every_other_store() {
    for (seed, (name, medium)) in (41..).zip(other_media()) {
        println!("{name}");
        must_be_right_over(pager_over(128, 512, medium), seed, Regime::Unmanaged, 2000);
    }
}
