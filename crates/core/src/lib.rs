//! The policy of Freehold: it decides everything and does nothing.
//!
//! Memory reservations with shared-page isolation, as a pure state machine: facts go in (`handle_*`), effects come out
//! ([`Memory::poll_effect`](memory::Memory::poll_effect)), and the same facts always give the same effects. No I/O, no
//! clock, no randomness, no hash order, no `unsafe`, and no allocation after [`Limits::seal`](limits::Limits::seal).
//!
//! Three engines drive it: the simulator in virtual time, the embedded pager and the memory server over real pages. See
//! docs/book/src/model.md for the laws that [`Memory::check_laws`](memory::Memory::check_laws) checks.
//!
//! Where to look: [`memory`] is the facade. A fault goes through `fault`, gets a frame by `reservation` (paper 000) or
//! `replacement` (which page leaves), and `sharing` decides what its page costs each reservation (SPC, SPEL). `pages`
//! and [`frames`] are what these move. [`pinning`] has the three algorithms of paper 001, [`victim_cache`] paper 003's
//! cache, [`transient`] paper 004's scheduler.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

#[cfg(feature = "canary")]
mod canary;
pub mod effect;
mod effect_queue;
pub mod error;
pub mod fact;
mod fault;
pub mod frames;
pub mod id;
mod index;
pub mod law;
pub mod limits;
pub mod memory;
mod pages;
pub mod pinning;
mod replacement;
mod reservation;
pub mod sharing;
mod slots;
mod task;
pub mod transient;
pub mod units;
pub mod victim_cache;
pub mod view;

pub use fault::neighbours::Foresight;
pub use fault::read_ahead::ReadAhead;
pub use memory::Memory;
pub use sharing::UNLOCKED_FRAMES;
