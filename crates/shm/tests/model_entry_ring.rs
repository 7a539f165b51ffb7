//! No entry is lost, torn, doubled or out of order, and no sleeping reader is forgotten: `src/entry_ring.rs` and
//! `src/doorbell.rs`, compiled against a model checker, between a writer and a reader in every interleaving. A reader
//! that is not woken is a deadlock, which the checker reports. Each planted mistake must be found.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(unreachable_pub, reason = "the crate's own, public there")]
#[path = "../src/doorbell.rs"]
mod doorbell;
#[allow(
    unreachable_pub,
    dead_code,
    reason = "the crate's own, public there, of which this needs a part"
)]
#[path = "../src/entry_ring.rs"]
mod entry_ring;
#[allow(unreachable_pub, dead_code, reason = "the crate's own, of which this needs a part")]
#[path = "model/sync.rs"]
mod sync;

use entry_ring::{EntryRing, Position, Word3};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;
use sync::{AtomicU32, Ordering};

/// Three words that belong together, so that a torn entry shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u64);

impl Word3 for Entry {
    fn to_words(self) -> [u64; 3] {
        [self.0, self.0 + 100, self.0 + 200]
    }

    fn from_words([first, second, third]: [u64; 3]) -> Option<Self> {
        (second == first + 100 && third == first + 200).then_some(Self(first))
    }
}

/// What is done otherwise than it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// The doorbell is rung before the entry is there.
    AnnounceFirst,
    /// The reader does not look again after it has said that it sleeps.
    NoSecondLook,
    /// The reader does not say that it sleeps.
    SleepSecretly,
}

struct World {
    ring: EntryRing,
    doorbell: AtomicU32,
    asleep: AtomicU32,
    /// The kernel's futex queue: comparing the word and going to sleep are one step to whoever wakes.
    sleepers: Mutex<u32>,
    woken: Condvar,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            ring: EntryRing::default(),
            doorbell: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            sleepers: Mutex::new(0),
            woken: Condvar::new(),
        })
    }

    fn wait(&self, expected: u32) {
        let mut sleepers = self.sleepers.lock().unwrap();
        if self.doorbell.load(Ordering::Relaxed) != expected {
            return;
        }
        *sleepers += 1;
        while *sleepers > 0 {
            sleepers = self.woken.wait(sleepers).unwrap();
        }
    }

    fn wake(&self) {
        let mut sleepers = self.sleepers.lock().unwrap();
        if *sleepers > 0 {
            *sleepers -= 1;
            self.woken.notify_one();
        }
    }

    fn announce(&self) {
        if doorbell::announce(&self.doorbell, &self.asleep) {
            self.wake();
        }
    }

    fn write(&self, entries: u64, mistake: Mistake) {
        let mut position = Position::default();
        for entry in 1..=entries {
            if mistake == Mistake::AnnounceFirst {
                self.announce();
            }
            while !self.ring.push(&mut position, Entry(entry)) {
                thread::yield_now();
            }
            if mistake != Mistake::AnnounceFirst {
                self.announce();
            }
        }
    }

    fn read(&self, entries: u64, mistake: Mistake) {
        let mut position = Position::default();
        let mut next = 1;
        while next <= entries {
            if let Some(Entry(entry)) = self.ring.pop(&mut position).expect("an honest writer") {
                assert_eq!(entry, next, "lost, doubled or out of order");
                next += 1;
                continue;
            }
            let empty = || mistake == Mistake::NoSecondLook || self.ring.is_empty(&position);
            if mistake == Mistake::SleepSecretly {
                self.wait(self.doorbell.load(Ordering::Acquire));
            } else if let Some(before) = doorbell::doze(&self.doorbell, &self.asleep, empty) {
                self.wait(before);
                doorbell::woke(&self.asleep);
            }
        }
    }
}

fn model(preemptions: usize, entries: u64, mistake: Mistake) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let world = World::new();
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.write(entries, mistake))
        };
        world.read(entries, mistake);
        writer.join().unwrap();
    });
}

#[test]
fn no_reader_is_forgotten() {
    model(3, 1, Mistake::None);
}

#[test]
fn entries_arrive_whole_and_in_order_when_the_ring_goes_round() {
    model(2, 3, Mistake::None);
}

#[test]
#[should_panic(expected = "deadlock")]
fn with_a_doorbell_before_the_entry_a_reader_sleeps_for_ever() {
    model(3, 1, Mistake::AnnounceFirst);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_a_second_look_a_reader_sleeps_for_ever() {
    model(3, 1, Mistake::NoSecondLook);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_reader_that_sleeps_secretly_sleeps_for_ever() {
    model(3, 1, Mistake::SleepSecretly);
}
