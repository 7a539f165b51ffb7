//! Arbitrary calls of the public interface, by an engine that is wrong in every way.

#![allow(clippy::cast_possible_truncation, reason = "random bytes")]

#[path = "common/mod.rs"]
mod common;
#[path = "common/operations.rs"]
mod operations;

use common::Random;

#[test]
fn nothing_that_is_told_breaks_a_law() {
    let worlds = common::setting("FREEHOLD_WORLDS", 4_000);
    let first = common::first_seed();
    for seed in first..first + worlds {
        let mut random = Random(seed);
        let length = 200 + random.below(1_500);
        let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        let outcome = std::panic::catch_unwind(|| operations::run(&bytes));
        assert!(outcome.is_ok(), "broken with seed {seed}");
    }
}
