//! The effects not yet polled, in a ring of fixed size.

use alloc::vec::Vec;

use crate::effect::Effect;
use crate::id::TaskId;

/// What stands where nothing waits. A place that says itself whether it is taken would be written twice.
const VACANT: Effect = Effect::Retry {
    task: TaskId::new(u16::MAX, 0),
};

/// First in, first out.
#[derive(Debug)]
pub(crate) struct EffectQueue {
    ring: Vec<Effect>,
    first: usize,
    len: usize,
}

impl EffectQueue {
    pub(crate) fn with_capacity(capacity: usize) -> Option<Self> {
        let mut ring = Vec::new();
        ring.try_reserve_exact(capacity).ok()?;
        ring.resize(capacity, VACANT);
        Some(Self { ring, first: 0, len: 0 })
    }

    /// Appends an effect. Everybody who pushes has made sure of room; a full ring stays as it is, whatever happens.
    pub(crate) fn push(&mut self, effect: Effect) {
        debug_assert!(self.len < self.ring.len(), "more effects than the stated bound");
        if self.len == self.ring.len() {
            return;
        }
        let position = self.wrapped(self.first + self.len);
        self.ring[position] = effect;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Effect> {
        if self.len == 0 {
            return None;
        }
        let effect = self.ring[self.first];
        self.first = self.wrapped(self.first + 1);
        self.len -= 1;
        Some(effect)
    }

    /// A position less than twice around the ring. A division would cost as much as all the rest.
    const fn wrapped(&self, position: usize) -> usize {
        if position < self.ring.len() {
            position
        } else {
            position - self.ring.len()
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.ring.len()
    }

    /// How many more effects fit.
    pub(crate) const fn room(&self) -> usize {
        self.ring.len() - self.len
    }
}

/// `make verify`: every order of pushes and pops that is no longer than this, at every capacity up to that.
#[cfg(test)]
mod verify {
    use super::*;
    use alloc::collections::VecDeque;

    const LENGTH: u32 = if cfg!(debug_assertions) { 12 } else { 18 };
    const CAPACITY: usize = 5;

    #[test]
    fn the_ring_is_a_queue() {
        for capacity in 1..=CAPACITY {
            for order in 0_u32..1 << LENGTH {
                let mut ring = EffectQueue::with_capacity(capacity).expect("a little memory");
                let mut queue = VecDeque::new();
                for step in 0..LENGTH {
                    if order >> step & 1 == 0 {
                        assert_eq!(ring.pop(), queue.pop_front());
                    } else if ring.room() > 0 {
                        let task = TaskId::new(u16::try_from(step).unwrap_or(0), 1);
                        ring.push(Effect::Retry { task });
                        queue.push_back(Effect::Retry { task });
                    }
                    assert_eq!((ring.len(), ring.room()), (queue.len(), capacity - queue.len()));
                }
            }
        }
    }
}
