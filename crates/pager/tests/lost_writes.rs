//! Two writers, one on each CPU, and an evictor: a write that falls between a page's copy and its drop is lost, and
//! must never happen. The same test finds the planted bug, with the feature `canary`.
//!
//! The region is unmanaged, because there one reservation evicts a page while another has it mapped and writes to it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, WORDS, audit, config, hard, object, private, stamp};
use freehold_pager::core::limits::{ObjectKind, Regime};
use freehold_pager::{AccessError, Bound, MappedRegion, Pager};
use std::sync::atomic::{AtomicBool, Ordering};

const PAGES: usize = 12;

/// A writer counts in its own word of every page and never finds another count than its last. Returns what was wrong.
fn count_up(pager: &Pager, rounds: u64) -> Vec<String> {
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
        let evicting = scope.spawn(|| {
            let bound = evictor.enter().unwrap();
            let mut random = Random(5);
            while !stop.load(Ordering::Relaxed) {
                bound.read_word(&at_evictor, random.below(PAGES) * WORDS)?;
                bound.read_word(&at_ballast, random.below(24) * WORDS)?;
            }
            Ok(())
        });
        let counting = scope.spawn(|| {
            let bound = writer.enter().unwrap();
            let result = (1..=rounds).try_for_each(|version| count_once(&bound, &at_writer, version));
            stop.store(true, Ordering::Relaxed);
            result
        });
        let counted: Result<(), String> = counting.join().unwrap();
        let evicted: Result<(), AccessError> = evicting.join().unwrap();
        let evicted = evicted.map_err(|error| error.to_string());
        [counted, evicted].into_iter().filter_map(Result::err).collect()
    })
}

fn count_once(bound: &Bound<'_>, region: &MappedRegion, version: u64) -> Result<(), String> {
    for page in 0..PAGES {
        let at = page * WORDS + 7;
        let found = bound.read_word(region, at).map_err(|error| error.to_string())?;
        let wanted = if version == 1 { 0 } else { stamp(page, 7, version - 1) };
        if found != wanted {
            return Err(format!("page {page}: {found:#x} instead of {wanted:#x}"));
        }
        bound
            .write_word(region, at, stamp(page, 7, version))
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[test]
fn no_write_is_lost() {
    let pager = Pager::new(config(64, 64, 0)).unwrap();
    assert_eq!(count_up(&pager, 200_000), Vec::<String>::new());
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
