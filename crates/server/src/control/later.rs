//! Requests about a client's memory that the engine answers at once.

use super::world::World;
use crate::engine::ClientId;
use crate::error::EngineError;
use std::time::Duration;

/// Sampling.
pub(super) fn sample(world: &World, client: ClientId, period: Duration) -> Result<(), EngineError> {
    world.shared.engine().sample(client, period)
}

/// Keeping private memory where it is.
pub(super) fn keep(world: &World, client: ClientId, address: u64, length: u64) -> Result<(), EngineError> {
    world.shared.engine().keep(client, address, length)
}
