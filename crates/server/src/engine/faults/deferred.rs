//! Faults that are looked at again: the client's address space was changing, or its memory was not there yet.
//!
//! A change ends soon after its event was read, as a rule. One that does not end, because a thread of the client waits
//! in the middle of it, is the client's own affair: the longer it lasts, the less often it is looked at.

use crate::engine::Engine;
use crate::engine::faults::FaultMessage;
use crate::engine::keys::ClientId;
use std::collections::VecDeque;

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

/// Faults of a client that are put off, the longest put off first.
#[derive(Debug)]
pub(crate) struct Deferred<T> {
    faults: VecDeque<T>,
    /// How many of them are yet to be looked at, while that is being done.
    left: Option<usize>,
    looks: Looks,
}

impl<T> Default for Deferred<T> {
    fn default() -> Self {
        Self {
            faults: VecDeque::new(),
            left: None,
            looks: Looks::default(),
        }
    }
}

impl<T> Deferred<T> {
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    pub(in crate::engine) fn clear(&mut self) {
        self.faults.clear();
    }

    pub(in crate::engine) fn take_all(self) -> impl Iterator<Item = T> {
        self.faults.into_iter()
    }

    /// Puts a fault off. Where faults were just being looked at again, those behind it wait too. The kernel refuses all
    /// of them while the address space is changing, and whoever changes it needs the CPU that the refusals take.
    fn put_off(&mut self, fault: T, now: u64) {
        if self.left.take().is_some() || self.is_empty() {
            self.looks.put_off(now);
        }
        self.faults.push_back(fault);
    }

    /// Begins to look at them again, where there are any and their time has come.
    fn begin(&mut self, now: u64) -> bool {
        let begins = self.looks.due <= now && !self.is_empty();
        if begins {
            self.looks.last = now;
            self.left = Some(self.faults.len());
        }
        begins
    }

    /// The next one that is to be looked at.
    fn next(&mut self) -> Option<T> {
        self.left = self.left.take()?.checked_sub(1);
        self.left.and_then(|_| self.faults.pop_front())
    }
}

impl Engine {
    /// The fault is to be looked at again when the client's events have been read.
    pub(in crate::engine) fn defer(&mut self, fault: FaultMessage) {
        let now = self.step.now.get();
        let Some(client) = self.client_mut(fault.client) else {
            return;
        };
        client.waiting.deferred.put_off(fault, now);
        if !self.clients.deferred.contains(&fault.client) {
            self.clients.deferred.push(fault.client);
        }
    }

    /// Has the faults whose time has come looked at again before the step ends.
    pub(in crate::engine) fn look_again(&mut self) {
        let now = self.step.now.get();
        let mut ids = std::mem::take(&mut self.clients.deferred);
        ids.retain(|id| {
            let Some(client) = self.client_mut(*id) else {
                return false;
            };
            let any = !client.waiting.deferred.is_empty();
            if client.waiting.deferred.begin(now) {
                self.clients.looking.push(*id);
            }
            any
        });
        self.clients.deferred = ids;
        self.protect_again();
    }

    /// The next fault that is to be looked at again.
    pub(in crate::engine) fn next_deferred_fault(&mut self) -> Option<FaultMessage> {
        while let Some(id) = self.clients.looking.last().copied() {
            if let Some(client) = self.client_mut(id) {
                let next = client.waiting.deferred.next();
                if client.waiting.deferred.is_empty() {
                    self.clients.deferred.retain(|other| *other != id);
                }
                if next.is_some() {
                    return next;
                }
            }
            self.clients.looking.pop();
        }
        None
    }

    /// Looks again at all faults that were put off.
    pub(in crate::engine) fn look_at_all(&mut self) {
        for at in 0..self.clients.deferred.len() {
            if let Some(id) = self.clients.deferred.get(at).copied() {
                self.make_due(id);
            }
        }
        self.look_again();
    }

    /// A thread that faults has ended whatever it was changing, and begins nothing before its fault is served. So what
    /// was put off is looked at first: while threads drop pages and touch them there may be no better moment.
    pub(in crate::engine) fn look_first(&mut self, id: ClientId) {
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
    pub(in crate::engine) fn make_due(&mut self, id: ClientId) {
        if let Some(client) = self.client_mut(id) {
            client.waiting.deferred.looks.make_due();
        }
    }

    /// When the next are due.
    pub(in crate::engine) fn deferred_due(&self) -> Option<u64> {
        let due = |id: &ClientId| self.client(*id).map(|client| client.waiting.deferred.looks.due);
        self.clients.deferred.iter().filter_map(due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::{AT_A_PACE, Deferred, FIRST, HALVED, Looks};

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

    #[test]
    fn one_refusal_ends_a_look_and_every_fault_has_its_turn() {
        let mut deferred = Deferred::default();
        let mut now = 1;
        (0..1_000).for_each(|fault| deferred.put_off(fault, now));
        assert!(!deferred.begin(now), "not before its time");
        // The address space changes all the time: one is tried each time.
        let mut tried = Vec::new();
        for _ in 0..1_000 {
            now = deferred.looks.due;
            assert!(deferred.begin(now));
            let fault = deferred.next().unwrap();
            tried.push(fault);
            deferred.put_off(fault, now);
            assert_eq!(deferred.next(), None);
        }
        assert!((0..1_000).eq(tried));
        // It has changed, but for one page.
        now = deferred.looks.due;
        assert!(deferred.begin(now));
        let served: Vec<u32> = (0..500).map_while(|_| deferred.next()).collect();
        assert!((0..500).eq(served));
        let refused = deferred.next().unwrap();
        deferred.put_off(refused, now);
        assert_eq!(deferred.next(), None);
        now = deferred.looks.due;
        assert!(deferred.begin(now));
        assert!((501..1_000).chain([500]).eq(std::iter::from_fn(|| deferred.next())));
        assert!(deferred.is_empty() && !deferred.begin(u64::MAX));
    }
}
