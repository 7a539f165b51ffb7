//! Two writers, one on each CPU, and an evictor: a write that falls between a page's copy and its drop is lost, and
//! must never happen. The same test finds the planted bug, with the feature `canary`.
//!
//! The region is unmanaged, because there one reservation evicts a page while another has it mapped and writes to it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, WORDS, audit, config, hard, object, private, stamp};
use freehold_pager::Pager;
use freehold_pager::core::limits::{ObjectKind, Regime};
use std::sync::atomic::{AtomicBool, Ordering};

const PAGES: usize = 12;

/// A writer counts in its own words of every page and never finds another count than its last. Returns how many counts
/// were lost before the first was noticed.
fn count_up(pager: &Pager, rounds: usize) -> Vec<String> {
    let reservations = [hard(pager, 24), hard(pager, 10)];
    let region = object(pager, ObjectKind::Shared, 12, Regime::Unmanaged);
    let ballast = private(pager, 24);
    let writer = pager.add_task(Some(reservations[0])).unwrap();
    let at_writer = writer.map(region).unwrap();
    let evictor = pager.add_task(Some(reservations[1])).unwrap();
    let (at_evictor, at_ballast) = (evictor.map(region).unwrap(), evictor.map(ballast).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Reads every page, which puts it on the evictor's lists, and then needs its frame for something else.
        scope.spawn(|| {
            let bound = evictor.enter().unwrap();
            let mut random = Random(5);
            while !stop.load(Ordering::Relaxed) {
                bound.read_word(&at_evictor, random.below(PAGES) * WORDS).unwrap();
                bound.read_word(&at_ballast, random.below(24) * WORDS).unwrap();
            }
        });
        let counting = scope.spawn(|| {
            let bound = writer.enter().unwrap();
            let mut wrong = Vec::new();
            for version in 1..=rounds as u64 {
                for page in 0..PAGES {
                    let at = page * WORDS + 7;
                    let found = bound.read_word(&at_writer, at).unwrap();
                    let wanted = if version == 1 { 0 } else { stamp(page, 7, version - 1) };
                    if found != wanted {
                        wrong.push(format!("page {page}: {found:#x} instead of {wanted:#x}"));
                    }
                    bound.write_word(&at_writer, at, stamp(page, 7, version)).unwrap();
                }
                if !wrong.is_empty() {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            wrong
        });
        counting.join().unwrap()
    })
}

#[test]
fn no_write_is_lost() {
    let pager = Pager::new(config(64, 64, 0)).unwrap();
    let rounds = 200_000;
    assert_eq!(count_up(&pager, rounds), Vec::<String>::new());
    let stats = pager.store().stats();
    assert!(stats.writes > 0, "nothing was ever written back: {stats:?}");
    audit(&pager);
}

/// A checker that has never caught anything proves nothing.
#[cfg(feature = "canary")]
#[test]
fn the_canary_is_caught() {
    let caught = (0..20).any(|_| {
        let pager = Pager::new(config(64, 64, 0)).unwrap();
        pager.plant_copy_before_zap(true);
        !count_up(&pager, 200_000).is_empty()
    });
    assert!(
        caught,
        "pages were copied out before they were unmapped, and nothing noticed"
    );
}
