//! A request that waits for the engine.

use crate::control::registry::Registry;
use crate::control::reply::Waiting;
use std::time::Instant;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) serial: u32,
    pub(super) what: Waiting,
    pub(super) look: Instant,
    pub(super) until: Instant,
    /// Pages of a lock that had come when its time was last over.
    pub(super) come: u32,
}

impl Wait {
    /// The time is over: whether there is more, because a lock has gone on in it.
    pub(super) fn goes_on(&mut self, registry: &Registry, now: Instant) -> bool {
        let locked = match &self.what {
            Waiting::Lock(locked) => locked,
            Waiting::Relinquish { .. } => {
                self.until = now + registry.limits.patience;
                return true;
            }
            Waiting::Admission { .. } | Waiting::Fork { .. } => return false,
        };
        let lists = registry.shared.engine().core().reservation(locked.reservation);
        let before = std::mem::replace(&mut self.come, lists.map_or(0, |lists| lists.locked.get()));
        let goes_on = self.come != before;
        if goes_on {
            self.until = now + registry.limits.patience;
        }
        goes_on
    }
}
