//! Pages that several reservations use: their owner, the sharers that conserve a frame, and the rules for evicting
//! them (paper 000, sections III to V).
//!
//! - `ownership`: the ownership list of a page.
//! - `spc`: Shared-Page Conservation.
//! - `spel`: Shared-Page Eviction Lock.
//! - `program_lock`: locks that programs make for themselves; `locks`: what one holder locks.
//! - `none`: the paper's No-SP-Mgmt.
//! - `settle`: the price of a page that is there.
//! - `departure`: pages that a reservation leaves.
//! - `copy_on_write`: views of file objects.
//! - `choice`: SPC or SPEL for a region.

pub mod choice;
mod copy_on_write;
mod departure;
pub(super) mod locks;
mod none;
mod ownership;
mod program_lock;
mod settle;
mod spc;
mod spel;

pub(crate) use spel::LockPace;
pub use spel::UNLOCKED_FRAMES;
