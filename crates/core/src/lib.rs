//! The policy of Freehold: it decides everything and does nothing.
//!
//! Memory reservations with shared-page isolation, as a pure state machine: facts go in (`handle_*`), effects come out
//! ([`Memory::poll_effect`](memory::Memory::poll_effect)), and the same facts always give the same effects. No I/O, no
//! clock, no randomness, no hash order, no `unsafe`, and no allocation after [`Limits::seal`](limits::Limits::seal).
//!
//! Three engines drive it: the simulator in virtual time, the embedded pager and the memory server over real pages. See
//! docs/book/src/model.md for the laws that [`Memory::check_laws`](memory::Memory::check_laws) checks.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod account;
#[cfg(feature = "canary")]
mod canary;
mod claim_queue;
pub mod effect;
mod entry;
pub mod error;
pub mod fact;
pub mod frame;
mod holder;
mod holder_queue;
pub mod id;
mod index;
pub mod law;
pub mod limits;
mod list;
mod lists;
mod loans;
mod locks;
mod marks;
pub mod memory;
mod object;
mod page;
pub mod pinning;
mod queue;
mod reclaim;
pub mod sharing;
mod slots;
mod swap_budget;
mod task;
pub mod transient;
pub mod units;
pub mod victim_cache;
pub mod view;

pub use memory::{Foresight, Memory, ReadAhead};
pub use sharing::UNLOCKED_FRAMES;
