//! The word of a lock, without a kernel: what its two sides may make of it.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_shm::pi_word::{Owner, PiWord, State, WAITERS};
use std::sync::atomic::Ordering;

fn owned(thread: u32, waiters: bool, dead_before: bool) -> State {
    State::Owned(Owner {
        thread,
        waiters,
        dead_before,
    })
}

#[test]
fn a_lock_is_taken_once_and_released_by_its_owner_only() {
    let word = PiWord::default();
    assert_eq!(word.take(7), Ok(()));
    assert_eq!(word.take(8), Err(owned(7, false, false)));
    assert!(!word.release(8) && word.is_owned_by(7));
    assert!(word.release(7) && !word.release(7));
    assert_eq!(word.state(), State::Free);
}

#[test]
fn a_withdrawn_lock_is_nobodys() {
    let word = PiWord::default();
    assert!(!word.restore() && word.withdraw() && !word.withdraw());
    assert_eq!(word.take(7), Err(State::Withdrawn));
    word.raw().fetch_or(WAITERS, Ordering::Relaxed);
    assert_eq!(word.state(), State::Withdrawn);
    assert!(word.restore() && word.take(7).is_ok() && !word.withdraw());
    assert!(!word.release_withdrawn(8) && word.release_withdrawn(7));
    assert_eq!(word.state(), State::Withdrawn);
}

#[test]
fn a_bit_that_a_given_up_wait_left_keeps_nobody_out() {
    let word = PiWord::default();
    word.raw().store(WAITERS, Ordering::Relaxed);
    assert_eq!(word.state(), State::Free);
    assert!(word.withdraw() && word.restore());
    word.raw().store(WAITERS, Ordering::Relaxed);
    assert_eq!(word.take(7), Ok(()));
}

#[test]
fn a_dead_owners_lock_is_taken_from_just_that_owner() {
    let word = PiWord::default();
    word.take(7).unwrap();
    let State::Owned(dead) = word.state() else {
        panic!("it is owned")
    };
    assert!(word.take_from_dead(dead, 8));
    assert_eq!(word.state(), owned(8, false, true));
    assert!(!word.take_from_dead(dead, 9), "the owner is another by now");
    assert!(!word.release(8), "the kernel clears the bit that an owner died");
}
