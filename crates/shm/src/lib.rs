//! Structures in memory that several processes map, none of which trusts another.
//!
//! - [`byte_ring`]: messages of any length, whole or not at all, between one producer and one consumer;
//! - [`entry_ring`]: entries of three words each, for the same;
//! - [`doorbell`]: waking the reader of a ring only when it sleeps;
//! - [`pi_word`]: the word of a lock with priority inheritance, whose owner may die.
//!
//! What the other side has written is a claim: it is checked before it is used, and a wrong one is reported, never
//! followed. No function here waits; waiting and waking are system calls, which `freehold-linux` makes on the words.
//! The crate knows no allocator and no operating system. Its files are compiled against a model checker in `tests/`.
#![no_std]

pub mod byte_ring;
mod bytes;
pub mod doorbell;
pub mod entry_ring;
#[cfg(test)]
mod entry_ring_verify;
pub mod pi_word;
mod sync;
