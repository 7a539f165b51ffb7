//! Faults that wait to be looked at: one of each thread.
//!
//! A thread waits at one address at a time. Where a signal interrupts its wait and it touches something again, the
//! kernel tells of it once more; what it touched last is what it waits for. So a client can have no more faults here
//! than threads, of which the system bounds each user's number.

use crate::engine::rows::Claim;
use std::collections::{BTreeSet, VecDeque, vec_deque};

/// Faults of which the kernel does not say whose they are (the client's userfaultfd was opened without that).
const NAMELESS: usize = 1_024;

/// Faults in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct FaultQueue {
    claims: VecDeque<Claim>,
    threads: BTreeSet<u32>,
}

impl FaultQueue {
    /// Lets a fault wait behind the others; in the place of an earlier one of its thread. False where there are too
    /// many whose threads are not known. O(log waiting), O(waiting) where the thread waits already.
    pub(crate) fn push(&mut self, claim: Claim) -> bool {
        let known = claim.thread != 0;
        if known && self.threads.insert(claim.thread) {
            self.claims.push_back(claim);
            return true;
        }
        let same = |earlier: &&mut Claim| {
            let place = (claim.which, claim.address);
            earlier.thread == claim.thread && (known || (earlier.which, earlier.address) == place)
        };
        if let Some(earlier) = self.claims.iter_mut().find(same) {
            *earlier = claim;
            return true;
        }
        let room = self.claims.len() < NAMELESS;
        if room {
            self.claims.push_back(claim);
        }
        room
    }

    /// Takes the first.
    pub(crate) fn pop(&mut self) -> Option<Claim> {
        let claim = self.claims.pop_front()?;
        self.threads.remove(&claim.thread);
        Some(claim)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    pub(crate) fn iter_mut(&mut self) -> vec_deque::IterMut<'_, Claim> {
        self.claims.iter_mut()
    }

    pub(crate) fn clear(&mut self) {
        self.claims.clear();
        self.threads.clear();
    }
}

impl IntoIterator for FaultQueue {
    type Item = Claim;
    type IntoIter = vec_deque::IntoIter<Claim>;

    fn into_iter(self) -> Self::IntoIter {
        self.claims.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{FaultQueue, NAMELESS};
    use crate::engine::keys::ClientId;
    use crate::engine::rows::{Claim, Which};
    use freehold_core::units::Instant;

    fn claim(thread: u32, address: u64) -> Claim {
        Claim {
            client: ClientId::new(0, 0),
            which: Which::Private,
            address,
            write: false,
            protected: false,
            thread,
            since: Instant::ZERO,
        }
    }

    fn addresses(queue: FaultQueue) -> Vec<u64> {
        queue.into_iter().map(|claim| claim.address).collect()
    }

    #[test]
    fn a_thread_waits_once_at_what_it_touched_last() {
        let mut queue = FaultQueue::default();
        for (thread, address) in [(1, 10), (2, 20), (1, 11), (1, 11), (3, 30), (2, 21)] {
            assert!(queue.push(claim(thread, address)));
        }
        assert_eq!(queue.pop().map(|claim| claim.address), Some(11));
        assert!(queue.push(claim(1, 12)));
        assert_eq!(addresses(queue), [21, 30, 12]);
    }

    #[test]
    fn a_storm_of_one_thread_takes_one_place_and_nameless_ones_are_bounded() {
        let mut queue = FaultQueue::default();
        for address in 0..100_000 {
            assert!(queue.push(claim(7, address)));
        }
        assert_eq!(addresses(queue), [99_999]);
        let mut queue = FaultQueue::default();
        let taken = (0..5_000).filter(|address| queue.push(claim(0, *address))).count();
        assert_eq!(taken, NAMELESS);
        assert!(queue.push(claim(0, 5)), "it waits already");
        assert!(queue.push(claim(1, 5)), "it is known");
        assert_eq!(addresses(queue).len(), NAMELESS + 1);
    }
}
