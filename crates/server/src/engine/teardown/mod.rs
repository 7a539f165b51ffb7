//! What is on its way out: taken back piece by piece, ended as soon as it can be, given back to the machine.

pub(super) mod deferred_free;
pub(super) mod holes;
pub(super) mod queue;
pub(super) mod step;

use crate::engine::teardown::deferred_free::DeferredFrees;
use crate::engine::teardown::queue::TeardownQueue;
use crate::engine::teardown::step::Ending;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Teardown {
    /// What is taken back piece by piece.
    pub(super) queue: TeardownQueue,
    /// What the core would not end yet.
    pub(super) ending: Ending,
    /// Memory of objects that are gone.
    pub(super) deferred_free: DeferredFrees,
}
