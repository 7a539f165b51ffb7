//! A unit has one user at a time, none is lost, and nobody waits for ever: `src/unit.rs` and `src/cache.rs`, compiled
//! against a model checker, with threads of a component and its manager in every interleaving. The kernel's part of a
//! PI futex is the model's own. Each planted mistake must be found.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, unreachable_pub, reason = "the crate's own, of which this needs a part")]
#[path = "../src/cache.rs"]
mod cache;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "another crate's, public there, of which this needs a part"
)]
#[path = "../../shm/src/pi_word.rs"]
mod pi_word;
#[path = "model/sync.rs"]
mod sync;
#[allow(dead_code, unreachable_pub, reason = "the crate's own, of which this needs a part")]
#[path = "../src/unit.rs"]
mod unit;

use cache::{TakeError, WaitEnd};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use pi_word::{OWNER_DIED, PiWord, State, WAITERS};
use std::sync::Arc;
use sync::{AtomicU32, Ordering};
use unit::Unit;

/// What is done otherwise than it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// A unit is released though somebody waits for it.
    ForgetWaiters,
    /// A unit that is in use is taken away.
    TakeInUse,
}

/// The kernel's part: one queue for each word, behind one lock, as a hash bucket has.
struct Kernel {
    queues: Mutex<Vec<Queue>>,
    woken: Condvar,
}

#[derive(Clone, Default)]
struct Queue {
    waiters: Vec<u32>,
    granted: Option<u32>,
}

impl Kernel {
    /// `FUTEX_LOCK_PI2`, without a limit. `dead`: a thread that has ended.
    fn lock(&self, at: usize, word: &PiWord, thread: u32, dead: u32) -> Result<(), WaitEnd> {
        let mut queues = self.queues.lock().unwrap();
        loop {
            let value = word.raw().load(Ordering::SeqCst);
            let owner = value & (OWNER_DIED - 1);
            if owner == 0 {
                let swap = word.raw().compare_exchange(
                    value,
                    thread | (value & OWNER_DIED),
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                );
                if swap.is_ok() {
                    return Ok(());
                }
                continue;
            }
            let waits = word
                .raw()
                .compare_exchange(value, value | WAITERS, Ordering::SeqCst, Ordering::SeqCst);
            if waits.is_err() {
                continue;
            }
            // As the kernel does, the bit is set before the owner is looked up, and stays.
            if owner == dead || owner == OWNER_DIED - 1 {
                return Err(WaitEnd::OwnerGone);
            }
            break;
        }
        queues[at].waiters.push(thread);
        while queues[at].granted != Some(thread) {
            queues = self.woken.wait(queues).unwrap();
        }
        queues[at].granted = None;
        Ok(())
    }

    /// `FUTEX_UNLOCK_PI`.
    fn unlock(&self, at: usize, word: &PiWord) {
        let mut queues = self.queues.lock().unwrap();
        let next = if queues[at].waiters.is_empty() {
            None
        } else {
            Some(queues[at].waiters.remove(0))
        };
        word.raw()
            .store(next.map_or(0, |next| next | WAITERS), Ordering::SeqCst);
        queues[at].granted = next;
        self.woken.notify_all();
    }
}

struct World {
    units: Vec<Unit>,
    users: Vec<AtomicU32>,
    kernel: Kernel,
    mistake: Mistake,
}

impl World {
    fn new(units: usize, mistake: Mistake) -> Arc<Self> {
        Arc::new(Self {
            units: (0..units).map(|_| Unit::default()).collect(),
            users: (0..units).map(|_| AtomicU32::new(0)).collect(),
            kernel: Kernel {
                queues: Mutex::new(vec![Queue::default(); units]),
                woken: Condvar::new(),
            },
            mistake,
        })
    }

    fn enter(&self, at: usize, user: u32) {
        assert_eq!(self.users[at].swap(user, Ordering::SeqCst), 0, "two users");
    }

    fn leave(&self, at: usize, user: u32) {
        assert_eq!(self.users[at].swap(0, Ordering::SeqCst), user, "two users");
    }

    fn take(&self, thread: u32, dead: u32) -> Result<usize, TakeError> {
        let place = |word: &PiWord| {
            self.units
                .iter()
                .position(|unit| std::ptr::eq(&unit.word, word))
                .unwrap()
        };
        let wait = |word: &PiWord, _| self.kernel.lock(place(word), word, thread, dead);
        cache::take(&self.units, thread, 1, || 0, wait).map(|taken| taken.unit)
    }

    fn use_one(&self, thread: u32, dead: u32) {
        loop {
            match self.take(thread, dead) {
                Ok(at) => {
                    self.enter(at, thread);
                    let sequence = self.units[at].begin(1, 0);
                    assert!(self.units[at].is_current(sequence, 1));
                    self.leave(at, thread);
                    self.release(at, thread);
                    let stale = self.units[at].is_current(sequence, 0);
                    assert!(!stale || self.mistake != Mistake::None, "a stale identifier");
                    return;
                }
                Err(TakeError::Empty) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn release(&self, at: usize, thread: u32) {
        if self.mistake == Mistake::ForgetWaiters {
            self.units[at].word.raw().store(0, Ordering::SeqCst);
            return;
        }
        assert!(cache::release(&self.units[at], thread, |word| self
            .kernel
            .unlock(at, word)));
    }

    /// Takes a unit away and gives it back.
    fn manage(&self, at: usize) {
        const MANAGER: u32 = 99;
        let withdrawn = if self.mistake == Mistake::TakeInUse {
            self.units[at].word.raw().store(OWNER_DIED - 1, Ordering::SeqCst);
            true
        } else {
            self.units[at].withdraw()
        };
        if withdrawn {
            self.enter(at, MANAGER);
            self.leave(at, MANAGER);
            assert!(self.units[at].restore());
        }
    }
}

fn model(units: usize, mistake: Mistake, run: impl Fn(Arc<World>) + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let world = World::new(units, mistake);
        run(Arc::clone(&world));
        for unit in &world.units {
            assert_eq!(unit.word.state(), State::Free, "a unit is lost");
        }
    });
}

fn beside(world: &Arc<World>, work: impl FnOnce(&World) + Send + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || work(&world))
}

fn two_threads(world: Arc<World>) {
    let other = beside(&world, |world| world.use_one(2, 0));
    world.use_one(1, 0);
    other.join().unwrap();
}

fn two_threads_and_a_manager(world: Arc<World>) {
    let other = beside(&world, |world| world.use_one(2, 0));
    let manager = beside(&world, |world| world.manage(0));
    world.use_one(1, 0);
    other.join().unwrap();
    manager.join().unwrap();
}

#[test]
fn a_unit_has_one_user_and_waiters_get_it() {
    model(1, Mistake::None, two_threads);
}

#[test]
fn units_are_taken_away_and_given_back_beside_their_users() {
    model(1, Mistake::None, two_threads_and_a_manager);
}

#[test]
fn a_dead_threads_unit_goes_to_one_of_two_that_want_it() {
    model(1, Mistake::None, |world| {
        assert_eq!(world.take(7, 0), Ok(0));
        let sequence = world.units[0].begin(1, 0);
        let other = beside(&world, |world| world.use_one(2, 7));
        world.use_one(1, 7);
        other.join().unwrap();
        assert!(!world.units[0].is_current(sequence, 0));
    });
}

#[test]
fn a_unit_that_is_relinquished_goes_to_the_manager_or_to_who_waits() {
    model(1, Mistake::None, |world| {
        world.units[0].relinquish(true);
        assert_eq!(world.take(7, 0), Ok(0));
        let other = beside(&world, |world| match world.take(2, 0) {
            Ok(at) => world.release(at, 2),
            Err(error) => assert_eq!(error, TakeError::Empty),
        });
        world.release(0, 7);
        other.join().unwrap();
        // It is free where somebody had waited: the manager takes it as any other free unit.
        assert!(world.units[0].withdraw() || world.units[0].word.state() == State::Withdrawn);
        assert!(world.units[0].restore());
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_release_that_forgets_waiters_is_found() {
    model(1, Mistake::ForgetWaiters, two_threads);
}

#[test]
#[should_panic]
fn taking_a_unit_that_is_in_use_is_found() {
    model(1, Mistake::TakeInUse, two_threads_and_a_manager);
}
