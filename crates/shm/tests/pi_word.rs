//! The word of a lock, without a kernel: what its two sides may make of it.
#![allow(clippy::unwrap_used, reason = "tests")]

use freehold_shm::pi_word::{Owner, PiWord, State, WAITERS, is_thread};
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
    assert!(word.take_from_dead(dead, 8, || true));
    assert_eq!(word.state(), owned(8, false, true));
    assert!(!word.take_from_dead(dead, 9, || true), "the owner is another by now");
    assert!(!word.release(8), "the kernel clears the bit that an owner died");
}

/// A death that two are told of: the first has taken the lock, used it and released it, and the thread that was seen at
/// first, which lives, owns it again: before the second looks at the word, or between that and its answer.
#[test]
fn the_lock_of_a_living_owner_is_not_taken_by_who_was_told_of_a_death_before() {
    let word = PiWord::default();
    word.take(7).unwrap();
    let State::Owned(seen) = word.state() else {
        panic!("it is owned")
    };
    // Before: the use is another by now, which the one who asks must be told.
    assert!(word.release(7) && word.take(7).is_ok());
    assert!(!word.take_from_dead(seen, 8, || false));
    // Between: the use is the one that was seen when it is asked, and ends then.
    assert!(word.release(7) && word.withdraw());
    let taken = word.take_from_dead(seen, 8, || word.restore() && word.take(7).is_ok());
    assert!(!taken, "taken from a thread that lives");
}

#[test]
fn what_is_no_threads_number_owns_nothing() {
    for number in [0, WAITERS, (1 << 30) - 1, 1 << 30, u32::MAX] {
        let word = PiWord::default();
        assert!(!is_thread(number) && !word.hand_to(number), "{number:#x}");
        assert_eq!(word.state(), State::Free);
        assert!(!word.take_from_dead(owner(number), 8, || true), "{number:#x}");
    }
    let word = PiWord::default();
    assert!(word.hand_to(7) && word.is_owned_by(7));
}

fn owner(thread: u32) -> Owner {
    Owner {
        thread,
        waiters: false,
        dead_before: false,
    }
}
