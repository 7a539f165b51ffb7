//! What units are made of. The model in `tests/` compiles their files against another module of this name, so that
//! every interleaving of the very code can be run; they take atomics from here and from nowhere else.

pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
