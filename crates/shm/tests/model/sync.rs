//! The model's counterpart of the crate's module `sync`: the same names, but every step is one that the model checker
//! (loom) orders in all possible ways, and a ring so small that it is full and goes round.

pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

pub const ENTRIES: usize = 2;

pub(crate) const ATTEMPTS: u32 = 2;
