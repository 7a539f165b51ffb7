//! What the agreement of [`move_guard`](crate::orders::move_guard) is made of. The model in `tests/` compiles that file
//! against another module of this name, so that every interleaving of the very code can be run; it takes atomics from
//! here and from nowhere else.

pub(crate) use core::sync::atomic::{AtomicU32, Ordering, fence};
