//! The model's counterpart of the crates' modules `sync`: every step is one that the model checker orders in all ways.

pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
