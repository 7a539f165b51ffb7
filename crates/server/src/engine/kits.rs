//! What a client gets of the server's, made before it comes: its channel and its transfer memory.
//!
//! Making both takes some thirty system calls. A program that starts, or forks, would wait for them, and whoever faults
//! meanwhile too; so the reserve's thread makes some ahead, and a client whose kit is not ready yet has it made there
//! and then. A child that has not connected yet uses neither, and gives them back.

use crate::engine::Engine;
use crate::engine::outbox::Outbox;
use crate::engine::slots::Slots;
use crate::error::EngineError;

/// Kits made ahead: a program that starts another by a fork takes two.
const AHEAD: usize = 4;

/// The server's ends of what it shares with one client.
#[derive(Debug)]
pub(crate) struct Kit {
    pub(crate) outbox: Outbox,
    pub(crate) slots: Slots,
}

impl Kit {
    /// One with a transfer memory of `pages`.
    ///
    /// # Errors
    /// [`EngineError::System`], [`EngineError::Limit`].
    pub(crate) fn new(pages: u32) -> Result<Self, EngineError> {
        Ok(Self {
            outbox: Outbox::new()?,
            slots: Slots::new(pages).map_err(|_| EngineError::Limit {
                what: "locked memory, for the transfer memory of a client",
            })?,
        })
    }
}

/// Those that are ready, for clients that are programs.
#[derive(Debug)]
pub(super) struct Kits {
    ready: Vec<Kit>,
    pages: u32,
}

impl Kits {
    /// The first ones, with transfer memories of `pages`. What cannot be had is missed by the client that comes, and
    /// said to it.
    pub(super) fn new(pages: u32) -> Self {
        let made = (0..AHEAD).map_while(|_| Kit::new(pages).ok());
        let mut ready = Vec::with_capacity(AHEAD);
        ready.extend(made);
        Self { ready, pages }
    }
}

impl Engine {
    /// A kit for a program.
    ///
    /// # Errors
    /// As [`Kit::new`].
    pub(super) fn kit(&mut self) -> Result<Kit, EngineError> {
        // More are to be made.
        self.reserve.ring();
        match self.kits.ready.pop() {
            Some(kit) => Ok(kit),
            None => Kit::new(self.kits.pages),
        }
    }

    /// A kit that was perhaps not used: the next client's, if neither end of it has ever been.
    pub(crate) fn give_kit_back(&mut self, kit: Kit) {
        let whole = kit.outbox.is_untouched() && kit.slots.is_untouched();
        if whole && kit.slots.pages() == self.kits.pages && self.kits.ready.len() < AHEAD {
            self.kits.ready.push(kit);
        }
    }

    /// How many are to be made, and with how many pages.
    pub(crate) fn kits_missing(&self) -> (usize, u32) {
        (AHEAD.saturating_sub(self.kits.ready.len()), self.kits.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::Kit;

    #[test]
    fn a_kit_is_another_clients_only_while_nobody_has_used_it() {
        let mut kit = Kit::new(4).unwrap();
        assert!(kit.outbox.is_untouched() && kit.slots.is_untouched());
        let slot = kit.slots.take().unwrap();
        kit.slots.free(slot);
        assert!(!kit.slots.is_untouched());
    }
}
