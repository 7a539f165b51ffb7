//! A coordinator decides when transfers end: orders that the clock would produce once in a million runs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{WORDS, audit, check_page, config, hard, private, stamp, write_page};
use freehold_pager::core::fact::Request;
use freehold_pager::core::id::TaskId;
use freehold_pager::core::units::{Instant, PageIndex};
use freehold_pager::core::view::PageState;
use freehold_pager::{AccessError, Failure, Pace, Pager, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Knows how many tasks wait, and can hold a task between its answer and the mapping.
#[derive(Debug, Default)]
struct Gate {
    blocked: AtomicUsize,
    hold: AtomicBool,
    held: AtomicBool,
}

impl Watch for Gate {
    fn blocked(&self, _: TaskId) {
        self.blocked.fetch_add(1, Ordering::SeqCst);
    }

    fn answered(&self, _: usize) {}

    fn carrying_out(&self, _: TaskId) {
        while self.hold.load(Ordering::SeqCst) {
            self.held.store(true, Ordering::SeqCst);
            std::thread::yield_now();
        }
    }

    fn resumed(&self, _: TaskId, _: bool) {
        self.blocked.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Gate {
    fn await_blocked(&self) {
        while self.blocked.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
}

fn manual(frames: u32, pages: u32) -> (Pager, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let mut config = config(frames, pages, 0);
    config.pace = Pace::Manual;
    config.watch = Some(gate.clone());
    (Pager::new(config).unwrap(), gate)
}

/// Ends every transfer as it appears, until told to stop.
fn drive(pager: &Pager, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        for (page, request) in pager.outstanding() {
            assert!(pager.complete(page, request, false));
        }
        std::thread::yield_now();
    }
}

/// Ends what is still under way when no task waits any more.
fn end_the_rest(pager: &Pager) {
    while let Some((page, request)) = pager.outstanding().first().copied() {
        assert!(pager.complete(page, request, false));
    }
}

#[test]
fn nothing_ends_before_the_coordinator_says_so() {
    let (pager, gate) = manual(32, 64);
    let reservation = hard(&pager, 12);
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(private(&pager, 32)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bound = task.enter().unwrap();
            (0..32).for_each(|page| write_page(&bound, &region, page, 1));
            (0..32).for_each(|page| check_page(&bound, &region, page, 1));
            done.store(true, Ordering::SeqCst);
        });
        let mut completed = 0_u64;
        while !done.load(Ordering::SeqCst) {
            // The task waits, or has just been answered and says so in a moment.
            let waits = gate.blocked.load(Ordering::SeqCst) > 0;
            let Some((page, request)) = pager.outstanding().first().copied().filter(|_| waits) else {
                std::thread::yield_now();
                continue;
            };
            pager.set_now(Instant::new(completed));
            assert!(pager.complete(page, request, false));
            assert!(!pager.complete(page, request, false), "a transfer ends once");
            completed += 1;
        }
        assert!(completed > 32, "{completed}");
    });
    assert!(task.times().store_slept.is_zero());
    end_the_rest(&pager);
    audit(&pager);
}

#[test]
fn transfers_fail_when_the_coordinator_says_so() {
    let (pager, gate) = manual(32, 64);
    let reservation = hard(&pager, 12);
    let task = pager.add_task(Some(reservation)).unwrap();
    let region = task.map(private(&pager, 32)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let filled = scope.spawn(|| {
            let bound = task.enter().unwrap();
            (0..32).for_each(|page| write_page(&bound, &region, page, 1));
            stop.store(true, Ordering::SeqCst);
        });
        drive(&pager, &stop);
        filled.join().unwrap();
    });
    stop.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let bound = task.enter().unwrap();
            let first = bound.read_word(&region, 0);
            let second = bound.read_word(&region, 0);
            stop.store(true, Ordering::SeqCst);
            (first, second)
        });
        gate.await_blocked();
        while let Some((page, request)) = pager.outstanding().first().copied() {
            let fill = request == Request::Fill;
            assert!(pager.complete(page, request, fill));
            if fill {
                break;
            }
        }
        drive(&pager, &stop);
        let (first, second) = reader.join().unwrap();
        assert_eq!(first, Err(AccessError::Failed(Failure::Read)));
        assert_eq!(second, Ok(stamp(0, 0, 1)));
    });
    end_the_rest(&pager);
    audit(&pager);
}

/// The race of the module `epoch`, in slow motion: a task is told to map its page and is preempted; the page is
/// evicted and dropped by another; the task goes on.
#[test]
fn a_late_mapping_is_not_made() {
    let (pager, gate) = manual(32, 96);
    let reservation = hard(&pager, 12);
    let sleeper = pager.add_task(Some(reservation)).unwrap();
    let evictor = pager.add_task(Some(reservation)).unwrap();
    let first = private(&pager, 32);
    let (at_sleeper, at_evictor) = (sleeper.map(first).unwrap(), evictor.map(private(&pager, 32)).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bound = sleeper.enter().unwrap();
            (0..32).for_each(|page| write_page(&bound, &at_sleeper, page, 1));
            // All that is resident now is clean, so that evictions need no coordinator.
            (0..32).for_each(|page| check_page(&bound, &at_sleeper, page, 1));
            stop.store(true, Ordering::SeqCst);
        });
        drive(&pager, &stop);
    });
    end_the_rest(&pager);
    stop.store(false, Ordering::SeqCst);
    let state = || pager.inspect(|core| core.page(first, PageIndex::new(3))).unwrap().state;
    assert_eq!(state(), PageState::Stored);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let bound = sleeper.enter().unwrap();
            let word = bound.read_word(&at_sleeper, 3 * WORDS + 9);
            stop.store(true, Ordering::SeqCst);
            word
        });
        gate.await_blocked();
        gate.hold.store(true, Ordering::SeqCst);
        scope.spawn(|| drive(&pager, &stop));
        while !gate.held.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        // The task has its answer, the page its frame, and the mapping is not made yet.
        assert_eq!(state(), PageState::Resident);
        let others = scope.spawn(|| {
            let bound = evictor.enter().unwrap();
            (0..32).for_each(|page| assert_eq!(bound.read_word(&at_evictor, page * WORDS), Ok(0)));
        });
        others.join().unwrap();
        assert_eq!(state(), PageState::Stored);
        gate.hold.store(false, Ordering::SeqCst);
        assert_eq!(reader.join().unwrap(), Ok(stamp(3, 9, 1)));
    });
    assert_eq!(sleeper.times().epoch_retries, 1);
    end_the_rest(&pager);
    audit(&pager);
}
