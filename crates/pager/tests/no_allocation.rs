//! The fault path allocates nothing. Alone in its process: the allocator is everybody's.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Random, WORDS, audit, config, event_capacity, hard, other_media, private, shared};
use freehold_pager::core::pinning::{JobReport, PinningSettings};
use freehold_pager::core::units::{Duration, PageCount};
use freehold_pager::{MappedRegion, Pager, TaskHandle};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what threads allocate while they say that they should not.
struct Counting;

thread_local! {
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

fn note() {
    if FORBIDDEN.get() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note();
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Tasks of two reservations that share a region, and one of a pinned page pool, which is marked.
fn tasks(pager: &Pager) -> Vec<(TaskHandle, [MappedRegion; 2], bool)> {
    let reservations = [hard(pager, 24), hard(pager, 24)];
    let region = shared(pager, 48);
    let millis = |millis: u64| Duration::from_micros(millis * 1_000);
    let pool = pager.open_pinned_pool(PinningSettings {
        initial_capacity: PageCount::new(8),
        ..PinningSettings::paper(millis(5), millis(30))
    });
    let pinned = pager.add_pinned_task(pool.unwrap()).unwrap();
    let held = reservations.map(|reservation| (pager.add_task(Some(reservation)).unwrap(), false));
    let all = held.into_iter().chain([(pinned, true)]);
    all.map(|(task, pinned)| {
        let regions = [task.map(region).unwrap(), task.map(private(pager, 60)).unwrap()];
        (task, regions, pinned)
    })
    .collect()
}

/// A job of whatever length.
fn job(round: u64) -> JobReport {
    JobReport {
        missed: round.is_multiple_of(300),
        running: Duration::from_micros(round),
        swap_ins: 5,
        ..JobReport::default()
    }
}

#[test]
fn faults_evictions_job_ends_and_reports_allocate_nothing() {
    // Nothing recorded; more room than there are events; too little.
    let recordings = [None, Some(event_capacity(1 << 16)), Some(event_capacity(100))];
    let mut configs = Vec::new();
    for latency in [0, 20, 80] {
        configs.extend(recordings.map(|events| freehold_pager::Config {
            events,
            ..config(96, 256, latency)
        }));
    }
    for (_, medium) in other_media() {
        configs.push(freehold_pager::Config {
            medium,
            ..config(96, 256, 0)
        });
    }
    for config in configs {
        let events = config.events;
        let pager = Pager::new(config).unwrap();
        let tasks = tasks(&pager);
        std::thread::scope(|scope| {
            for (number, (task, regions, pinned)) in tasks.iter().enumerate() {
                scope.spawn(move || {
                    let bound = task.enter().unwrap();
                    let mut random = Random(number as u64);
                    FORBIDDEN.set(true);
                    for round in 0..4000_u64 {
                        let region = &regions[random.below(2)];
                        let page = random.below(region.words() / WORDS);
                        let word = page * WORDS + number;
                        let read = bound.read_word(region, word);
                        let written = bound.write_word(region, word, round);
                        if round % 100 == 0 {
                            bound.job_end();
                            assert_eq!(bound.report_job(&job(round)).is_ok(), *pinned);
                        }
                        if read.is_err() || written.is_err() {
                            FORBIDDEN.set(false);
                            panic!("an access failed: {read:?} {written:?}");
                        }
                    }
                    FORBIDDEN.set(false);
                });
            }
        });
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0);
        assert!(tasks.iter().all(|(task, ..)| task.counts().swap_ins > 100));
        assert_eq!(
            pager.take_events().map(|events| events.lost > 0),
            events.map(|room| room.faults == 100)
        );
        drop(tasks);
        audit(&pager);
    }
}
