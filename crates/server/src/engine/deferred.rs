//! Faults that are looked at again: the client's address space was changing, or its memory was not there yet.
//!
//! A change ends soon after its event was read, as a rule. One that does not end, because a thread of the client waits
//! in the middle of it, is the client's own affair: the longer it lasts, the less often it is looked at.

use crate::engine::Engine;
use crate::engine::keys::ClientId;
use crate::engine::rows::Claim;

/// Nanoseconds until the next look, at first.
const FIRST: u64 = 200_000;
/// How many looks are made at each pace before it is halved.
const AT_A_PACE: u32 = 8;
/// How often it is halved, at most.
const HALVED: u32 = 6;

/// When the faults of a client are looked at again, if no event of it comes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looks {
    /// When they were looked at last.
    last: u64,
    due: u64,
    /// Looks in a row after which some had to be put off again.
    fruitless: u32,
}

impl Looks {
    /// The first fault has been put off since the last look.
    fn put_off(&mut self, now: u64) {
        self.fruitless = if self.last == now {
            self.fruitless.saturating_add(1)
        } else {
            0
        };
        self.due = now.saturating_add(FIRST << (self.fruitless / AT_A_PACE).min(HALVED));
    }

    /// A change may be over.
    fn make_due(&mut self) {
        *self = Self::default();
    }
}

impl Engine {
    /// The fault is to be looked at again when the client's events have been read.
    pub(super) fn defer(&mut self, claim: Claim) {
        let now = self.step.now.get();
        let Some(client) = self.client_mut(claim.client) else {
            return;
        };
        if client.waiting.deferred.is_empty() {
            client.waiting.looks.put_off(now);
        }
        client.waiting.deferred.push(claim);
        if !self.clients.deferred.contains(&claim.client) {
            self.clients.deferred.push(claim.client);
        }
    }

    /// Looks again at the faults whose time has come.
    pub(super) fn look_again(&mut self) {
        let now = self.step.now.get();
        for id in std::mem::take(&mut self.clients.deferred) {
            let Some(client) = self.clients.get_mut(id.index(), id.generation()) else {
                continue;
            };
            if client.waiting.looks.due > now {
                self.clients.deferred.push(id);
            } else {
                client.waiting.looks.last = now;
                self.step.again.extend(client.waiting.deferred.drain(..));
            }
        }
        self.protect_again();
    }

    /// Looks again at all faults that were put off.
    pub(super) fn look_at_all(&mut self) {
        for at in 0..self.clients.deferred.len() {
            if let Some(id) = self.clients.deferred.get(at).copied() {
                self.make_due(id);
            }
        }
        self.look_again();
    }

    /// A thread that faults has ended whatever it was changing, and begins nothing before its fault is served. So what
    /// was put off is looked at first: while threads drop pages and touch them there may be no better moment.
    pub(super) fn look_first(&mut self, id: ClientId) {
        if self
            .client(id)
            .is_some_and(|client| !client.waiting.deferred.is_empty())
        {
            self.make_due(id);
            self.look_again();
            self.settle();
        }
    }

    /// The faults of a client are due to be looked at again.
    pub(super) fn make_due(&mut self, id: ClientId) {
        if let Some(client) = self.client_mut(id) {
            client.waiting.looks.make_due();
        }
    }

    /// When the next are due.
    pub(super) fn deferred_due(&self) -> Option<u64> {
        let due = |id: &ClientId| self.client(*id).map(|client| client.waiting.looks.due);
        self.clients.deferred.iter().filter_map(due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::{AT_A_PACE, FIRST, HALVED, Looks};

    #[test]
    fn what_does_not_end_is_looked_at_less_and_less_often() {
        let mut looks = Looks::default();
        let mut now = FIRST;
        looks.put_off(now);
        let mut paces = Vec::new();
        for _ in 0..AT_A_PACE * (HALVED + 3) {
            paces.push(looks.due - now);
            now = looks.due;
            looks.last = now;
            looks.put_off(now);
        }
        assert!(paces.is_sorted());
        assert_eq!(paces.first(), Some(&FIRST));
        assert_eq!(paces.last(), Some(&(FIRST << HALVED)));
        // One that is put off later has not been waited for.
        looks.put_off(now + 1);
        assert_eq!(looks.due - now - 1, FIRST);
    }
}
