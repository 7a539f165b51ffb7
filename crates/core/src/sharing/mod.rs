//! Pages that several reservations use: who owns them, who conserves a frame for them, who may evict them.
//!
//! Paper 000, sections III to V. `ownership` keeps the ownership list of each page; `conservation` is SPC,
//! `eviction_lock` SPEL, `program_lock` what programs lock for themselves, `unmanaged` the paper's No-SP-Mgmt; `settle`
//! decides what a reservation pays for a page that is there; `departure` what happens to pages that a reservation
//! leaves; `copy_on_write` views of file objects; `choice` which of SPC and SPEL a region is better off with.

pub mod choice;
mod conservation;
mod copy_on_write;
mod departure;
mod eviction_lock;
mod ownership;
mod program_lock;
mod settle;
mod unmanaged;

pub use eviction_lock::UNLOCKED_FRAMES;
