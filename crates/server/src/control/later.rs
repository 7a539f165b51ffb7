//! Requests that the engine does not meet yet: they are refused by name.

use super::world::World;
use crate::engine::ClientId;
use crate::error::EngineError;
use std::time::Duration;

const fn not_yet<T>(what: &'static str) -> Result<T, EngineError> {
    Err(EngineError::NotYet { what })
}

/// Sampling.
pub(super) fn sample(_: &World, _: ClientId, _: Duration) -> Result<(), EngineError> {
    not_yet("sampling")
}

/// Keeping private memory where it is.
pub(super) fn keep(_: &World, _: ClientId, _: u64, _: u64) -> Result<(), EngineError> {
    not_yet("keeping")
}
