//! What a caller that died, at whatever step of its call, leaves to the next; and claims that are no thread's.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::super::Callee;
use super::super::context::{CALLED, DONE};
use super::*;
use crate::{Pool, PoolSettings};
use freehold_linux::PAGE_SIZE;
use freehold_linux::pi_word::{Scope, unlock};
use rustix::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const LONG: Duration = Duration::from_secs(60);

fn callee(handler: impl Fn(Request) -> i64 + Send + Sync + 'static) -> (Callee, Caller) {
    let channel = Channel::create(1).unwrap();
    let stacks = Pool::create(PoolSettings {
        component: 1,
        units: 1,
        unit_bytes: 17 * PAGE_SIZE,
        minimum: 1,
        guard_pages: 1,
        bound: LONG,
        scope: Scope::Process,
    });
    let again = Channel::open(channel.as_fd().try_clone_to_owned().unwrap(), 1).unwrap();
    let callee = Callee::start("callee", again, Arc::new(stacks.unwrap()), handler).unwrap();
    (callee, Caller::new(channel, LONG))
}

fn double(request: Request) -> i64 {
    2 * i64::try_from(request.arguments[0]).unwrap()
}

fn first(argument: u64) -> [u64; ARGUMENTS] {
    [argument, 0, 0, 0, 0, 0]
}

/// The number of a thread that has ended.
fn ended() -> u32 {
    let thread = std::thread::spawn(|| ThreadId::current().get());
    let number = thread.join().unwrap();
    // It may still be on its way out of the kernel.
    while std::fs::exists(format!("/proc/self/task/{number}")).unwrap() {
        std::thread::yield_now();
    }
    number
}

/// Every state that a caller's death can leave: its claim, then the call word with the callee, then the request without
/// a ring, then (once the callee is done) the call word with the dead caller and a result.
#[test]
fn a_caller_may_die_at_any_step() {
    let (callee, caller) = callee(double);
    let context = &caller.channel.all()[0];
    let number = context.callee.load(Ordering::Acquire);
    let leave: [&dyn Fn(u32); 5] = [
        &|_| (),
        &|_| assert!(context.call.hand_to(number)),
        &|_| {
            assert!(context.call.hand_to(number));
            let request = Request {
                function: 0,
                arguments: first(1),
            };
            context.put_request(request, 0);
        },
        &|dead| {
            assert!(context.call.hand_to(dead));
            context.put_result(7);
        },
        &|_| {
            context.call.reset();
            context.put_result(7);
        },
    ];
    for (step, leave) in leave.iter().enumerate() {
        let dead = ended();
        context.claim.take(dead).unwrap();
        leave(dead);
        assert_eq!(caller.call(0, first(21)), Ok(42), "step {step}");
        assert_eq!(
            context.callee.load(Ordering::Acquire),
            number,
            "a living callee was given up"
        );
    }
    assert_eq!(callee.served(), 6, "the request that nobody rang for was served too");
}

/// A caller handed the word to a callee that had died, and put its request when the next callee was there already. That
/// request has no caller: served, its result would be taken for the next one's.
#[test]
fn a_request_beside_the_word_of_another_is_not_served() {
    let (callee, caller) = callee(double);
    let context = &caller.channel.all()[0];
    assert!(context.call.hand_to(ended()));
    let request = Request {
        function: 0,
        arguments: first(1),
    };
    context.put_request(request, 0);
    // The callee looks, as often as it is told to.
    for _ in 0..20 {
        if context.ring() {
            freehold_linux::futex::wake_shared(&context.doorbell, 1);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(callee.served(), 0);
    assert_eq!(caller.call(0, first(21)), Ok(42));
    assert_eq!(callee.served(), 1);
}

/// The callee has put its result and not released the word yet, when its caller is gone and the next comes.
#[test]
fn a_result_without_a_released_word_is_waited_for() {
    let (_callee, caller) = callee(double);
    let context = &caller.channel.all()[0];
    let (ready, go) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|threads| {
        // A thread that stands for the callee between its two steps.
        let finishing = threads.spawn(|| {
            let own = ThreadId::current().get();
            assert!(context.call.hand_to(own));
            context.put_result(7);
            ready.store(true, Ordering::Release);
            while !go.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            if !context.call.release(own) {
                unlock(context.call.raw(), Scope::Shared).unwrap();
            }
        });
        while !ready.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let call = threads.spawn(|| caller.call(0, first(4)));
        while context.call.raw().load(Ordering::Acquire) & crate::pi_word::WAITERS == 0 && !call.is_finished() {
            std::thread::yield_now();
        }
        go.store(true, Ordering::Release);
        assert_eq!(call.join().unwrap(), Ok(8));
        finishing.join().unwrap();
    });
}

/// A dead caller's claim that two are told of is taken once.
#[test]
fn a_claim_is_taken_from_a_dead_caller_once() {
    let (_callee, caller) = callee(double);
    let context = &caller.channel.all()[0];
    let (living, dead) = (ThreadId::current().get(), ended());
    context.claim.take(living).unwrap();
    // Seen while the living thread is about to release; a second caller takes it, and dies with it.
    context.end_claim();
    let seen = context.claimed().unwrap();
    assert!(context.claim.release(living) && context.claim.take(dead).is_ok());
    // The first that is told of the death has it, and lets it go; the living thread has it again.
    let died = context.claimed().unwrap();
    assert!(context.take_claim_from_dead(died, 7));
    context.end_claim();
    context.claim.reset();
    context.claim.take(living).unwrap();
    assert!(!context.take_claim_from_dead(seen, 8), "taken from a thread that lives");
    assert!(!context.take_claim_from_dead(died, 8));
    assert!(context.claim.is_owned_by(living));
}

/// Claims of an ended thread, of one that is none of the caller's, and marks that no caller makes.
#[test]
fn claims_that_are_no_callers_are_freed_and_others_stay() {
    let (_callee, caller) = callee(double);
    let context = &caller.channel.all()[0];
    let own = ThreadId::current().get();
    let of_caller = |thread: u32| thread == own;
    for stray in [ended(), 1, (1 << 30) - 1, (1 << 31) | 1, (1 << 30) | 1] {
        context.claim.raw().store(stray, Ordering::Release);
        caller.channel.reset_claims(of_caller);
        assert_eq!(caller.call(0, first(1)), Ok(2), "{stray:#x}");
    }
    context.claim.take(own).unwrap();
    caller.channel.reset_claims(of_caller);
    assert!(context.claim.is_owned_by(own));
    assert!(context.claim.release(own));
}

#[test]
fn a_callee_that_claims_to_be_no_thread_is_none() {
    let (_callee, caller) = callee(double);
    let context = &caller.channel.all()[0];
    let number = context.callee.load(Ordering::Acquire);
    for claimed in [0, u32::MAX, 1 << 31, (1 << 30) - 1, (1 << 31) | number] {
        context.callee.store(claimed, Ordering::Release);
        assert_eq!(caller.call(0, first(1)), Err(CallError::CalleeDied), "{claimed:#x}");
        assert_ne!(context.state.load(Ordering::Acquire), CALLED);
    }
    context.callee.store(number, Ordering::Release);
    assert_eq!(caller.call(0, first(1)), Ok(2));
    assert_ne!(context.state.load(Ordering::Acquire), DONE);
}
