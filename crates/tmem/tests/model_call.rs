//! A call has its own result, and nobody waits for ever, whoever dies: `src/channel/protocol.rs` and
//! `src/channel/context.rs`, compiled against a model checker. Threads of a component call another component, which has
//! one context. Caller or callee may die before any access to the channel; a callee that died is started again. The
//! kernel's part is the model's own. Each planted mistake must be found.
#![allow(clippy::unwrap_used, reason = "tests")]

#[allow(dead_code, unreachable_pub, reason = "the crate's own, of which this needs a part")]
#[path = "../src/channel/context.rs"]
mod context;
#[path = "model/mortal.rs"]
mod mortal;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "another crate's, public there, of which this needs a part"
)]
#[path = "../../shm/src/pi_word.rs"]
mod pi_word;
#[allow(dead_code, unreachable_pub, reason = "the crate's own, of which this needs a part")]
#[path = "../src/channel/protocol.rs"]
mod protocol;

use context::Context;
use freehold_linux::pi_word::LockWordError;
use loom::sync::atomic::AtomicBool;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use mortal as sync;
use mortal::{in_the_kernel, mortal, step};
use pi_word::{OWNER_DIED, PiWord, State, WAITERS};
use protocol::{CallError, Kernel, Request};
use std::sync::Arc;
use sync::{AtomicU32, Ordering};

/// Words of arguments of a call: one is enough to tell requests apart.
const ARGUMENTS: usize = 1;
const THREAD: u32 = OWNER_DIED - 1;

/// What is done otherwise than it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// The kernel forgets waiters of who dies: no call of the other side would end.
    ForgetTheDead,
    /// A request is passed on without a ring.
    ForgetToRing,
}

/// Who is inside the kernel, behind one lock.
#[derive(Default)]
struct Inside {
    /// Waiters of the claim's word, and of the call's.
    queues: [Vec<u32>; 2],
    /// Who got the word that it waits for.
    granted: Vec<u32>,
    dead: Vec<u32>,
    asleep: bool,
    /// The callee that has looked for requests; 0 is none that lives.
    serving: u32,
}

struct World {
    context: [Context; 1],
    inside: Mutex<Inside>,
    woken: Condvar,
    stop: AtomicBool,
    mistake: Mistake,
}

/// The kernel, as one thread uses it.
struct Thread<'a> {
    world: &'a World,
    number: u32,
}

impl World {
    fn place(&self, word: &PiWord) -> usize {
        usize::from(std::ptr::eq(word, &raw const self.context[0].call))
    }

    /// What the kernel does when a thread ends: who waits for a word of it gets that.
    fn end(&self, number: u32) {
        let mut inside = self.inside.lock().unwrap();
        inside.dead.push(number);
        if inside.serving == number {
            inside.serving = 0;
        }
        for word in [&self.context[0].claim, &self.context[0].call] {
            let held = word.raw().load(Ordering::SeqCst) & THREAD == number;
            let queue = self.place(word);
            if held && self.mistake != Mistake::ForgetTheDead && !inside.queues[queue].is_empty() {
                let next = inside.queues[queue].remove(0);
                word.raw().store(next | WAITERS | OWNER_DIED, Ordering::SeqCst);
                inside.granted.push(next);
            }
        }
        self.woken.notify_all();
    }
}

impl Kernel for Thread<'_> {
    /// `FUTEX_LOCK_PI2`, without a limit.
    fn lock(&self, word: &PiWord) -> Result<(), LockWordError> {
        step();
        in_the_kernel(|| {
            let mut inside = self.world.inside.lock().unwrap();
            loop {
                let value = word.raw().load(Ordering::SeqCst);
                let owner = value & THREAD;
                let swap = |to| {
                    word.raw()
                        .compare_exchange(value, to, Ordering::SeqCst, Ordering::SeqCst)
                };
                if owner == self.number {
                    return Err(LockWordError::Deadlock);
                }
                if owner == 0 {
                    if swap(self.number | (value & OWNER_DIED)).is_ok() {
                        return Ok(());
                    }
                    continue;
                }
                if swap(value | WAITERS).is_err() {
                    continue;
                }
                // As the kernel does, the bit is set before the owner is looked up, and stays.
                if owner == THREAD || inside.dead.contains(&owner) {
                    return Err(LockWordError::OwnerGone);
                }
                break;
            }
            inside.queues[self.world.place(word)].push(self.number);
            while !inside.granted.contains(&self.number) {
                inside = self.world.woken.wait(inside).unwrap();
            }
            inside.granted.retain(|granted| *granted != self.number);
            Ok(())
        })
    }

    /// `FUTEX_UNLOCK_PI`.
    fn unlock(&self, word: &PiWord) {
        step();
        in_the_kernel(|| {
            let mut inside = self.world.inside.lock().unwrap();
            let value = word.raw().load(Ordering::SeqCst);
            if value & THREAD != self.number {
                return;
            }
            let queue = &mut inside.queues[self.world.place(word)];
            let next = if queue.is_empty() { None } else { Some(queue.remove(0)) };
            word.raw()
                .store(next.map_or(0, |next| next | WAITERS), Ordering::SeqCst);
            inside.granted.extend(next);
            self.world.woken.notify_all();
        });
    }

    fn wake(&self, _: &AtomicU32) {
        if self.world.mistake == Mistake::ForgetToRing {
            return;
        }
        step();
        let mut inside = self.world.inside.lock().unwrap();
        inside.asleep = false;
        self.world.woken.notify_all();
    }

    fn sleep(&self, doorbell: &AtomicU32, asleep: u32) {
        step();
        in_the_kernel(|| {
            let mut inside = self.world.inside.lock().unwrap();
            inside.asleep = doorbell.load(Ordering::SeqCst) == asleep;
            while inside.asleep {
                inside = self.world.woken.wait(inside).unwrap();
            }
        });
    }

    fn is_late(&self) -> bool {
        false
    }

    fn cpu(&self) -> u32 {
        0
    }
}

fn request(argument: u64) -> Request {
    Request {
        function: 7,
        arguments: [argument],
    }
}

impl World {
    fn call(&self, number: u32) -> Result<i64, CallError> {
        let kernel = Thread { world: self, number };
        protocol::call(&self.context, || 0, number, (request(number.into()), number), &kernel)
    }

    /// Calls until the callee has not died meanwhile: the result is of this call.
    fn call_until_served(&self, number: u32) {
        // One call may meet the death itself, and one a request to the dead that others have left.
        for _ in 0..3 {
            in_the_kernel(|| self.until_serving());
            match self.call(number) {
                Ok(result) => {
                    assert_eq!(result, 10 * i64::from(number), "the result of another call");
                    return;
                }
                Err(error) => assert_eq!(error, CallError::CalleeDied),
            }
        }
        panic!("a living callee was given up");
    }

    fn until_serving(&self) {
        let mut inside = self.inside.lock().unwrap();
        while inside.serving == 0 {
            inside = self.woken.wait(inside).unwrap();
        }
    }

    /// The callee `number` found nothing to do.
    fn is_over(&self, number: u32) -> bool {
        in_the_kernel(|| {
            let mut inside = self.inside.lock().unwrap();
            if inside.serving != number {
                inside.serving = number;
                self.woken.notify_all();
            }
        });
        self.stop.load(Ordering::SeqCst)
    }

    fn serve(&self, number: u32) {
        let kernel = Thread { world: self, number };
        let stop = || self.is_over(number);
        protocol::serve(&self.context[0], number, &kernel, stop, |request, job| {
            assert_eq!(request.function, 7);
            assert_eq!(request.arguments, [u64::from(job)], "parts of two requests");
            10 * i64::from(job)
        });
    }

    fn end_service(&self) {
        self.stop.store(true, Ordering::SeqCst);
        if !self.context[0].ring() {
            return;
        }
        let mut inside = self.inside.lock().unwrap();
        inside.asleep = false;
        self.woken.notify_all();
    }
}

/// The callee; where it dies after so many steps, it is started again.
fn callee(world: &Arc<World>, dies_after: Option<u32>) -> thread::JoinHandle<()> {
    const FIRST: u32 = 50;
    let world = Arc::clone(world);
    thread::spawn(move || {
        if mortal(dies_after, || world.serve(FIRST)) {
            world.end(FIRST);
            world.serve(FIRST + 1);
        }
    })
}

/// A caller; whether it lived.
fn caller(world: &Arc<World>, number: u32, dies_after: Option<u32>) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || {
        if mortal(dies_after, || world.call_until_served(number)) {
            world.end(number);
        }
    })
}

/// Two callers and a callee, of which one dies after so many steps of its own.
fn model(mistake: Mistake, callers: u32, preemptions: usize, caller_dies: Option<u32>, callee_dies: Option<u32>) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        let world = Arc::new(World {
            context: [Context::default()],
            inside: Mutex::new(Inside::default()),
            woken: Condvar::new(),
            stop: AtomicBool::new(false),
            mistake,
        });
        let callee = callee(&world, callee_dies);
        let first = caller(&world, 1, caller_dies);
        if callers > 1 {
            world.call_until_served(2);
        }
        first.join().unwrap();
        // Whoever died, the next is served.
        world.call_until_served(3);
        world.end_service();
        callee.join().unwrap();
        let context = &world.context[0];
        assert_eq!(
            (context.claim.state(), context.call.is_owned_by(0)),
            (State::Free, false)
        );
    });
}

#[test]
fn two_callers_have_their_own_results() {
    model(Mistake::None, 2, 1, None, None);
}

#[test]
fn a_caller_may_die_before_any_step() {
    for steps in 0..20 {
        model(Mistake::None, 2, 1, Some(steps), None);
    }
}

#[test]
fn a_callee_may_die_before_any_step_and_is_started_again() {
    for steps in 0..16 {
        model(Mistake::None, 1, 1, None, Some(steps));
    }
}

#[test]
#[should_panic]
fn a_request_without_a_ring_is_found() {
    model(Mistake::ForgetToRing, 1, 2, None, None);
}

#[test]
#[should_panic]
fn waiters_of_the_dead_that_are_forgotten_are_found() {
    (0..26).for_each(|steps| model(Mistake::ForgetTheDead, 1, 2, None, Some(steps)));
}
