//! Sources of frames for a holder that has none free: its own lists, the pool's surplus, and the pool's loans.

mod borrow;
mod debt;
mod evict;
mod gather;
mod global_lists;
mod refault;
pub(crate) mod runs;
mod second_chance;

pub(crate) use refault::{Age, Refaults};
pub(crate) use runs::Run;
