//! What is on its way out: taken back piece by piece, ended as soon as it can be, given back to the machine.

use crate::engine::deferred_free::DeferredFrees;
use crate::engine::retire::Retiring;
use crate::engine::vacate::Vacating;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Teardown {
    /// What is taken back piece by piece.
    pub(super) vacating: Vacating,
    /// What the core would not end yet.
    pub(super) retiring: Retiring,
    /// Memory of objects that are gone.
    pub(super) deferred_free: DeferredFrees,
}
