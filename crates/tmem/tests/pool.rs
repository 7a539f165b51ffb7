//! A pool in one process: names, misuse, waits, inheritance, and the manager's taking and giving.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_linux::pi_word::Scope;
use freehold_linux::sched::{self, Policy};
use freehold_linux::{Errno, ThreadId};
use freehold_tmem::{BufferId, Pool, PoolSettings, TakeError};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn pool(units: usize, minimum: usize, bound: Duration) -> Pool {
    Pool::create(PoolSettings {
        component: 3,
        units,
        unit_bytes: 5000,
        minimum,
        guard_pages: 0,
        bound,
        scope: Scope::Process,
    })
    .unwrap()
}

#[test]
fn a_name_is_good_for_one_use_of_one_buffer() {
    let pool = pool(2, 2, LONG);
    let one = pool.take(100).unwrap();
    let other = pool.take(8192).unwrap();
    assert!(one.id != other.id && one.id.component() == 3);
    assert_eq!(pool.find(one.id, 100), Some(one.start.cast_const()));
    assert_eq!(pool.find(one.id, 101), None, "more than was asked for");
    assert_eq!(pool.find(BufferId::from_raw(one.id.raw() ^ (1 << 48)), 1), None);
    assert_eq!(pool.find(BufferId::from_raw(u64::MAX), 0), None);
    pool.release(one.start).unwrap();
    assert_eq!(pool.find(one.id, 0), None, "released");
    let again = pool.take(100).unwrap();
    assert_eq!(again.start, one.start);
    assert_eq!(pool.find(one.id, 0), None, "another use of the same buffer");
    assert!(pool.find(again.id, 100).is_some());
}

#[test]
fn misuse_is_refused_and_changes_nothing() {
    let pool = pool(2, 1, LONG);
    assert_eq!(pool.take(0), Err(TakeError::Size));
    assert_eq!(pool.take(8193), Err(TakeError::Size));
    let buffer = pool.take(1).unwrap();
    assert_eq!(pool.release(buffer.start.wrapping_add(1)), Err(Errno::INVAL));
    assert_eq!(pool.release(buffer.start.wrapping_add(2 * 8192)), Err(Errno::INVAL));
    assert_eq!(pool.release(std::ptr::null()), Err(Errno::INVAL));
    assert_eq!(
        pool.release(buffer.start.wrapping_add(8192)),
        Err(Errno::PERM),
        "nobody has it"
    );
    std::thread::scope(|threads| {
        let (pool, start) = (&pool, buffer.start.addr());
        let other = threads.spawn(move || pool.release(std::ptr::without_provenance(start)));
        assert_eq!(other.join().unwrap(), Err(Errno::PERM), "another thread has it");
    });
    pool.release(buffer.start).unwrap();
    assert_eq!(pool.release(buffer.start), Err(Errno::PERM), "twice");
    let (_one, _other) = (pool.take(1).unwrap(), pool.take(1).unwrap());
    assert_eq!(pool.take(1), Err(TakeError::TooMany), "a wait for itself");
}

#[test]
fn a_wait_ends_at_the_bound() {
    let pool = pool(1, 1, Duration::from_millis(5));
    let buffer = pool.take(1).unwrap();
    std::thread::scope(|threads| {
        assert_eq!(
            threads.spawn(|| pool.take(1).err()).join().unwrap(),
            Some(TakeError::TimedOut)
        );
    });
    pool.release(buffer.start).unwrap();
    assert!(pool.take(1).is_ok());
    let usage = pool.usage();
    assert_eq!((usage.contended, usage.timed_out, usage.held), (1, 1, 1));
    assert!(usage.blocked >= Duration::from_millis(5));
}

/// Two threads take turns with one buffer while a third keeps the other, in use for longer than either.
#[test]
fn a_buffer_that_is_kept_for_good_keeps_nobody_from_the_others() {
    const TURNS: usize = 200;
    let pool = pool(2, 1, Duration::from_secs(8));
    let kept = pool.take(1).unwrap();
    let take_turns = || {
        for _ in 0..TURNS {
            let buffer = pool.take(1).unwrap();
            std::thread::sleep(Duration::from_micros(100));
            pool.release(buffer.start).unwrap();
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(take_turns);
        threads.spawn(take_turns);
    });
    let usage = pool.usage();
    assert_eq!((usage.timed_out, usage.held), (0, 1));
    assert!(usage.contended > 0, "{usage:?}");
    pool.release(kept.start).unwrap();
    assert!(pool.take(1).is_ok());
}

#[test]
fn a_thread_that_ends_with_a_buffer_leaves_it_to_who_waits() {
    let pool = pool(1, 1, LONG);
    let id = std::thread::scope(|threads| threads.spawn(|| pool.take(9).unwrap().id).join().unwrap());
    let buffer = pool.take(1).unwrap();
    assert_eq!(pool.find(id, 0), None);
    pool.release(buffer.start).unwrap();
}

/// Whether this thread may become a real-time thread; the test says so if not.
fn may_be_real_time() -> bool {
    let own = ThreadId::current();
    let may = sched::set_policy(own, Policy::Fifo { priority: 1 }).is_ok();
    sched::set_policy(own, Policy::Other { nice: 0 }).unwrap();
    if !may {
        eprintln!("left out: no right to real-time priorities");
    }
    may
}

/// The priority that the kernel runs a thread with, as `/proc` tells it: -1 − priority for a real-time one.
fn effective_priority(thread: u32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    let fields = stat.rsplit(") ").next().unwrap();
    fields.split(' ').nth(15).unwrap().parse().unwrap()
}

#[test]
fn the_holder_runs_with_the_priority_of_who_waits() {
    if !may_be_real_time() {
        return;
    }
    let pool = &pool(1, 1, LONG);
    let holder = ThreadId::current().get();
    let buffer = pool.take(1).unwrap();
    assert!(effective_priority(holder) >= 0);
    std::thread::scope(|threads| {
        let waiter = threads.spawn(|| {
            sched::set_policy(ThreadId::current(), Policy::Fifo { priority: 30 }).unwrap();
            let buffer = pool.take(1).unwrap();
            pool.release(buffer.start)
        });
        while effective_priority(holder) != -31 {
            std::thread::yield_now();
        }
        pool.release(buffer.start).unwrap();
        assert!(effective_priority(holder) >= 0);
        waiter.join().unwrap().unwrap();
    });
}

#[test]
fn the_manager_takes_memory_of_free_units_and_gives_it_back_as_zeros() {
    let pool = pool(3, 3, Duration::from_millis(1));
    let buffers: Vec<_> = (0..3).map(|_| pool.take(1).unwrap()).collect();
    for buffer in buffers {
        // SAFETY: the buffer is this thread's.
        unsafe { buffer.start.write_bytes(7, 8192) };
        assert!((0..3).all(|unit| !pool.withdraw(unit) || pool.find(buffer.id, 0).is_some()));
        pool.release(buffer.start).unwrap();
    }
    for unit in 0..3 {
        assert!(pool.is_withdrawn(unit) || pool.withdraw(unit));
    }
    assert!((0..3).all(|unit| pool.is_withdrawn(unit) && !pool.withdraw(unit)) && !pool.withdraw(3));
    assert_eq!(pool.resident().unwrap(), 0);
    assert_eq!(pool.take(1), Err(TakeError::Empty));
    assert!(pool.give(1) && !pool.give(1) && !pool.give(9));
    assert_eq!(pool.resident().unwrap(), 2);
    let buffer = pool.take(8192).unwrap();
    // SAFETY: the buffer is this thread's, as long as was asked for.
    let content = unsafe { std::slice::from_raw_parts(buffer.start, 8192) };
    assert!(content.iter().all(|byte| *byte == 0));
    pool.relinquish(1, true);
    pool.release(buffer.start).unwrap();
    assert!(pool.drop_withdrawn(1) && !pool.drop_withdrawn(7));
    assert_eq!((pool.resident().unwrap(), pool.usage().allocated), (0, 0));
}

#[test]
fn nobody_shares_a_unit_and_none_is_lost_beside_a_manager() {
    const ROUNDS: u32 = 3000;
    let pool = &pool(3, 1, LONG);
    let users = &[const { AtomicU32::new(0) }; 3];
    let ended = &AtomicBool::new(false);
    std::thread::scope(|threads| {
        let workers: Vec<_> = (1..=6_u32)
            .map(|worker| threads.spawn(move || use_units(pool, users, worker, ROUNDS)))
            .collect();
        let (stop, stopped) = mpsc::channel::<()>();
        let manager = threads.spawn(move || {
            let mut taken = 0_u32;
            while !ended.load(Ordering::Relaxed) {
                // Unit 0 stays: the minimum.
                for unit in 1..3 {
                    taken += u32::from(pool.withdraw(unit));
                }
                let _ = stopped.recv_timeout(Duration::from_micros(50));
                let given = (1..3).filter(|unit| pool.give(*unit)).count();
                assert!(given <= 2);
            }
            taken
        });
        for worker in workers {
            worker.join().unwrap();
        }
        ended.store(true, Ordering::Relaxed);
        drop(stop);
        manager.join().unwrap();
    });
    let usage = pool.usage();
    assert_eq!((usage.allocated, usage.held, usage.timed_out), (3, 0, 0));
}

fn use_units(pool: &Pool, users: &[AtomicU32; 3], worker: u32, rounds: u32) {
    for _ in 0..rounds {
        let buffer = pool.take(64).unwrap();
        let unit = usize::try_from(buffer.id.raw() >> 24 & 0xff).unwrap();
        assert_eq!(users[unit].swap(worker, Ordering::SeqCst), 0, "two users");
        // SAFETY: the buffer is this thread's.
        unsafe { buffer.start.write_volatile(1) };
        assert_eq!(users[unit].swap(0, Ordering::SeqCst), worker, "two users");
        pool.release(buffer.start).unwrap();
    }
}
