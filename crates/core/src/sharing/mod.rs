//! Pages that several reservations use: their owner, the sharers that conserve a frame, and the rules for evicting
//! them (paper 000, sections III to V).
//!
//! - `ownership`: the ownership list of a page.
//! - `conservation`: Shared-Page Conservation (SPC).
//! - `eviction_lock`: Shared-Page Eviction Lock (SPEL).
//! - `program_lock`: locks that programs make for themselves.
//! - `unmanaged`: the paper's No-SP-Mgmt.
//! - `settle`: the price of a page that is there.
//! - `departure`: pages that a reservation leaves.
//! - `copy_on_write`: views of file objects.
//! - `choice`: SPC or SPEL for a region.

pub mod choice;
mod conservation;
mod copy_on_write;
mod departure;
mod eviction_lock;
mod ownership;
mod program_lock;
mod settle;
mod unmanaged;

pub(crate) use eviction_lock::LockPace;
pub use eviction_lock::UNLOCKED_FRAMES;
