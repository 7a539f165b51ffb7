//! What the modules `epoch` and `mailbox` synchronise with. The models in `tests/` compile those two files against
//! another module of this name, so that every interleaving of the very code can be run; they must take atomics, locks
//! and futexes from here and from nowhere else.

pub(crate) use freehold_linux::futex;
pub(crate) use freehold_linux::pi_mutex::{PiGuard, PiMutex};
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Runs a test: here once, in a model in every interleaving.
#[cfg(test)]
pub(crate) fn run(test: impl Fn() + Send + Sync + 'static) {
    test();
}
