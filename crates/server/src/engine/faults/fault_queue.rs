//! Faults that wait to be looked at: one of each thread.
//!
//! A thread waits at one address at a time. Where a signal interrupts its wait and its handler touches something, the
//! kernel tells of that too, and what the thread touched last is what it waits for. What it touched before may come
//! here later, because it was put off elsewhere; the thread touches that again when its handler has returned. So a
//! client can have no more faults here than threads, of which the system bounds each user's number.

use crate::engine::faults::FaultMessage;
use std::collections::{BTreeSet, VecDeque, vec_deque};

/// Faults of which the kernel does not say whose they are (the client's userfaultfd was opened without that).
const NAMELESS: usize = 1_024;

/// Faults in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct FaultQueue {
    faults: VecDeque<FaultMessage>,
    threads: BTreeSet<u32>,
}

impl FaultQueue {
    /// Lets a fault wait behind the others; in the place of an earlier one of its thread, and not at all where the
    /// thread has touched something since. False where there are too many whose threads are not known. O(log waiting),
    /// O(waiting) where the thread waits already.
    pub(crate) fn push(&mut self, fault: FaultMessage) -> bool {
        let known = fault.thread != 0;
        if known && self.threads.insert(fault.thread) {
            self.faults.push_back(fault);
            return true;
        }
        let same = |earlier: &&mut FaultMessage| {
            let place = (fault.which, fault.address);
            earlier.thread == fault.thread && (known || (earlier.which, earlier.address) == place)
        };
        if let Some(earlier) = self.faults.iter_mut().find(same) {
            if fault.since >= earlier.since {
                *earlier = fault;
            }
            return true;
        }
        let room = self.faults.len() < NAMELESS;
        if room {
            self.faults.push_back(fault);
        }
        room
    }

    /// Takes the first.
    pub(crate) fn pop(&mut self) -> Option<FaultMessage> {
        let fault = self.faults.pop_front()?;
        self.threads.remove(&fault.thread);
        Some(fault)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    pub(crate) fn iter_mut(&mut self) -> vec_deque::IterMut<'_, FaultMessage> {
        self.faults.iter_mut()
    }

    pub(crate) fn clear(&mut self) {
        self.faults.clear();
        self.threads.clear();
    }
}

impl IntoIterator for FaultQueue {
    type Item = FaultMessage;
    type IntoIter = vec_deque::IntoIter<FaultMessage>;

    fn into_iter(self) -> Self::IntoIter {
        self.faults.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{FaultQueue, NAMELESS};
    use crate::engine::faults::{FaultMessage, Which};
    use crate::engine::keys::ClientId;
    use freehold_core::units::Instant;

    fn fault(thread: u32, address: u64) -> FaultMessage {
        FaultMessage {
            client: ClientId::new(0, 0),
            which: Which::Private,
            address,
            write: false,
            protected: false,
            thread,
            since: Instant::ZERO,
        }
    }

    #[test]
    fn what_a_thread_touched_before_its_handler_waits_takes_no_place() {
        let mut queue = FaultQueue::default();
        let told_at = |fault: FaultMessage, since: u64| FaultMessage {
            since: Instant::new(since),
            ..fault
        };
        let (interrupted, of_the_handler) = (told_at(fault(1, 10), 5), told_at(fault(1, 20), 6));
        // The first was put off while an address space changed.
        for fault in [of_the_handler, interrupted] {
            assert!(queue.push(fault));
        }
        assert_eq!(addresses(queue), [20]);
    }

    fn addresses(queue: FaultQueue) -> Vec<u64> {
        queue.into_iter().map(|fault| fault.address).collect()
    }

    #[test]
    fn a_thread_waits_once_at_what_it_touched_last() {
        let mut queue = FaultQueue::default();
        for (thread, address) in [(1, 10), (2, 20), (1, 11), (1, 11), (3, 30), (2, 21)] {
            assert!(queue.push(fault(thread, address)));
        }
        assert_eq!(queue.pop().map(|fault| fault.address), Some(11));
        assert!(queue.push(fault(1, 12)));
        assert_eq!(addresses(queue), [21, 30, 12]);
    }

    #[test]
    fn a_storm_of_one_thread_takes_one_place_and_nameless_ones_are_bounded() {
        let mut queue = FaultQueue::default();
        for address in 0..100_000 {
            assert!(queue.push(fault(7, address)));
        }
        assert_eq!(addresses(queue), [99_999]);
        let mut queue = FaultQueue::default();
        let taken = (0..5_000).filter(|address| queue.push(fault(0, *address))).count();
        assert_eq!(taken, NAMELESS);
        assert!(queue.push(fault(0, 5)), "it waits already");
        assert!(queue.push(fault(1, 5)), "it is known");
        assert_eq!(addresses(queue).len(), NAMELESS + 1);
    }
}
