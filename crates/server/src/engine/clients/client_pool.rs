//! What a client gets of the server's, made before it comes: its channel and its transfer memory.
//!
//! Making both takes some thirty system calls. A program that starts, or forks, would wait for them, and whoever faults
//! meanwhile too; so the backing's thread makes some ahead, and a client whose channels are not ready yet has them made
//! there and then. A child that has not connected yet uses neither, and gives them back.

use crate::engine::Engine;
use crate::engine::orders::Outbox;
use crate::engine::private_memory::transfer_memory::TransferMemory;
use crate::error::EngineError;

/// Channels made ahead: a program that starts another by a fork takes two.
const AHEAD: usize = 4;

/// The server's ends of what it shares with one client.
#[derive(Debug)]
pub(crate) struct ClientChannels {
    pub(crate) outbox: Outbox,
    pub(crate) slots: TransferMemory,
}

impl ClientChannels {
    /// One with a transfer memory of `pages`.
    ///
    /// # Errors
    /// [`EngineError::System`], [`EngineError::Limit`].
    pub(crate) fn new(pages: u32) -> Result<Self, EngineError> {
        Ok(Self {
            outbox: Outbox::new()?,
            slots: TransferMemory::new(pages).map_err(|_| EngineError::Limit {
                what: "locked memory, for the transfer memory of a client",
            })?,
        })
    }
}

/// Those that are ready, for clients that are programs.
#[derive(Debug)]
pub(super) struct ClientPool {
    ready: Vec<ClientChannels>,
    pages: u32,
}

impl ClientPool {
    /// The first ones, with transfer memories of `pages`. What cannot be had is missed by the client that comes, and
    /// said to it.
    pub(super) fn new(pages: u32) -> Self {
        let made = (0..AHEAD).map_while(|_| ClientChannels::new(pages).ok());
        let mut ready = Vec::with_capacity(AHEAD);
        ready.extend(made);
        Self { ready, pages }
    }
}

impl Engine {
    /// The channels of a program.
    ///
    /// # Errors
    /// As [`ClientChannels::new`].
    pub(in crate::engine) fn take_channels(&mut self) -> Result<ClientChannels, EngineError> {
        // More are to be made.
        self.backing.locked.wake();
        match self.clients.client_pool.ready.pop() {
            Some(channels) => Ok(channels),
            None => ClientChannels::new(self.clients.client_pool.pages),
        }
    }

    /// Channels that were perhaps not used: the next client's, if neither end of it has ever been.
    pub(crate) fn give_channels_back(&mut self, channels: ClientChannels) {
        let whole = channels.outbox.is_untouched() && channels.slots.is_untouched();
        if whole
            && channels.slots.pages() == self.clients.client_pool.pages
            && self.clients.client_pool.ready.len() < AHEAD
        {
            self.clients.client_pool.ready.push(channels);
        }
    }

    /// How many are to be made, and with how many pages.
    pub(crate) fn channels_missing(&self) -> (usize, u32) {
        (
            AHEAD.saturating_sub(self.clients.client_pool.ready.len()),
            self.clients.client_pool.pages,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::ClientChannels;

    #[test]
    fn channels_are_another_clients_only_while_nobody_has_used_them() {
        let mut channels = ClientChannels::new(4).unwrap();
        assert!(channels.outbox.is_untouched() && channels.slots.is_untouched());
        let slot = channels.slots.take().unwrap();
        channels.slots.free(slot);
        assert!(!channels.slots.is_untouched());
    }
}
