//! Frames that are there: the engine's side of the reserve.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::reserve::{BATCH, Reserve};
use crate::settings::Settings;
use freehold_linux::Errno;
use std::sync::Arc;

/// The reserve of a server.
pub(super) fn make(settings: &Settings) -> Result<Arc<Reserve>, EngineError> {
    let what = "the reserve's bell could not be made";
    let reserve = Reserve::new(settings.frames.get() as usize);
    reserve.map(Arc::new).map_err(EngineError::system(what))
}

impl Engine {
    /// What the reserve is to hold: frames that are to be there, less those that free slots of transfer memories have.
    pub(crate) fn reserve_due(&self) -> usize {
        let (due, warm) = self.frames_due();
        due.saturating_sub(warm)
    }

    /// As [`reserve_due`](Self::reserve_due); where free slots have more frames than are due, takes theirs, a batch at
    /// a time. While pages `flow`, slots may keep as many: the next page that comes needs one.
    pub(crate) fn settle_due(&mut self, flow: bool) -> usize {
        let (due, warm) = self.frames_due();
        let mut excess = warm.saturating_sub(due).min(BATCH);
        if excess == BATCH || !flow {
            for (_, client) in self.clients.iter_mut() {
                // What cannot be given back stays, and is seen in what the kernel counts.
                excess -= client.slots.cool(excess).unwrap_or(0).min(excess);
            }
        }
        due.saturating_sub(warm)
    }

    /// Frames that the core counts as free, conserved or being filled, or has in pages of zeros that are in no frame
    /// yet; and frames of free slots.
    fn frames_due(&self) -> (usize, usize) {
        let mut due = 0_usize;
        for row in self.reservations.iter().flatten() {
            if let Some(lists) = self.core.reservation(row.id) {
                due += lists.free.get() as usize + lists.conserved.get() as usize;
            }
        }
        let mut warm = 0;
        for (_, client) in self.clients.iter() {
            due += usize::try_from(client.blank).unwrap_or(0);
            warm += client.slots.warm();
        }
        (due + self.transfers.fills(), warm)
    }

    pub(crate) fn reserve(&self) -> Arc<Reserve> {
        Arc::clone(&self.reserve)
    }

    /// At the end of a step: tells the reserve how many pages have come or gone.
    pub(super) fn tell_reserve(&mut self) {
        let moved = std::mem::take(&mut self.moved);
        if !self.in_round {
            // A reservation may have come or gone.
            if self.reserve_due() != self.reserve.held() {
                self.reserve.ring();
            }
        } else if moved > 0 && self.reserve.note(moved) {
            self.reserve.trim(self.reserve_due());
        }
    }

    /// Tries what may need a frame, and once more with the headroom where the machine has none.
    pub(super) fn with_headroom<T>(&self, attempt: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
        match attempt() {
            Err(Errno::NOMEM) if self.reserve.give_headroom() => attempt(),
            result => result,
        }
    }
}
