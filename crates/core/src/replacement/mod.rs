//! Which page leaves, where a holder has no frame free: its own by second chance, the pool's by the global lists.

mod evict;
mod global_lists;
mod refault;
mod second_chance;

pub(crate) use refault::{Age, Refaults};
