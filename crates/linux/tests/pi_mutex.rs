//! The PI mutex under contention, among time-sharing and among SCHED_FIFO threads.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use freehold_linux::ThreadId;
use freehold_linux::clock;
use freehold_linux::pi_mutex::{PiLockError, PiMutex};
use freehold_linux::sched::{self, Policy, SetPolicyError};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

const ROUNDS: u64 = 5_000;

/// Two counters that are equal whenever the mutex is free, written apart so that a lost exclusion shows.
fn hammer(threads: u32, policy_of: impl Fn(u32) -> Option<Policy> + Sync) {
    let mutex = PiMutex::new((0_u64, 0_u64));
    let start = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (mutex, start, policy_of) = (&mutex, &start, &policy_of);
            scope.spawn(move || {
                if let Some(policy) = policy_of(number) {
                    sched::set_policy(ThreadId::current(), policy).unwrap();
                }
                start.wait();
                for round in 0..ROUNDS {
                    let mut both = mutex.lock();
                    assert_eq!(both.0, both.1);
                    both.0 += 1;
                    if round % 64 == 0 {
                        std::thread::yield_now();
                    }
                    both.1 += 1;
                }
            });
        }
    });
    assert_eq!(
        mutex.into_inner(),
        (u64::from(threads) * ROUNDS, u64::from(threads) * ROUNDS)
    );
}

fn fifo_allowed() -> bool {
    let allowed = std::thread::spawn(|| sched::set_policy(ThreadId::current(), Policy::Fifo { priority: 1 }));
    match allowed.join().unwrap() {
        Ok(()) => true,
        Err(SetPolicyError::NotPermitted) => {
            println!("NOT CHECKED: SCHED_FIFO is not permitted here");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn one_at_a_time_among_time_sharing_threads() {
    hammer(6, |_| None);
}

#[test]
fn one_at_a_time_among_fifo_threads_of_different_priorities() {
    if fifo_allowed() {
        hammer(4, |number| Some(Policy::Fifo { priority: 10 + number }));
    }
}

#[test]
fn a_holder_that_locks_again_is_told_so() {
    let mutex = PiMutex::new(());
    let guard = mutex.lock();
    assert!(mutex.is_held_by_caller());
    assert_eq!(mutex.lock_checked().unwrap_err(), PiLockError::Deadlock);
    assert!(mutex.try_lock().is_none());
    drop(guard);
    assert!(!mutex.is_held_by_caller());
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_holder_that_ends_is_told_of() {
    let mutex = PiMutex::new(());
    std::thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(mutex.lock())).join().unwrap();
    });
    // The kernel may still be retiring the thread, and says "again" until it has: lock_checked repeats that.
    assert_eq!(mutex.lock_checked().unwrap_err(), PiLockError::OwnerGone);
}

#[test]
fn a_panic_unlocks() {
    let mutex = PiMutex::new(0);
    let result = std::thread::scope(|scope| {
        let panicking = scope.spawn(|| {
            let mut value = mutex.lock();
            *value = 1;
            panic!("expected by the test");
        });
        panicking.join()
    });
    assert!(result.is_err());
    assert_eq!(*mutex.lock(), 1);
}

/// The kernel's effective priority of a thread: field 18 of its stat, -2 for SCHED_FIFO 1, down to -100 for 99.
fn effective_priority(thread: ThreadId) -> i32 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{}/stat", thread.get())).unwrap();
    let (_, fields) = text.rsplit_once(") ").unwrap();
    fields.split(' ').nth(15).unwrap().parse().unwrap()
}

#[test]
fn the_holder_inherits_the_waiters_priority_until_it_unlocks() {
    if !fifo_allowed() {
        return;
    }
    let mutex = PiMutex::new(());
    // Whatever nice value the tests run with.
    let own = effective_priority(ThreadId::current());
    let holder = AtomicU32::new(0);
    let release = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let low = scope.spawn(|| {
            let me = ThreadId::current();
            let guard = mutex.lock();
            holder.store(me.get(), Ordering::Release);
            while !release.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(guard);
            effective_priority(me)
        });
        while holder.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let low_id = ThreadId::from_raw(i32::try_from(holder.load(Ordering::Acquire)).unwrap()).unwrap();
        let before = effective_priority(low_id);
        let high = scope.spawn(|| {
            sched::set_policy(ThreadId::current(), Policy::Fifo { priority: 42 }).unwrap();
            drop(mutex.lock());
        });
        // Ends only when the priority is lent; a mutex without inheritance would hang here.
        while effective_priority(low_id) != -43 {
            clock::sleep_until(clock::now().saturating_add(Duration::from_millis(1)));
        }
        release.store(true, Ordering::Release);
        high.join().unwrap();
        let after = low.join().unwrap();
        assert_eq!((before, after), (own, own), "the priority was given back");
    });
}
