//! Requests that wait for the device: the most urgent first, in order of arrival where that is equal.

use crate::slots::Slot;
use crate::store::Urgency;

const LEVELS: usize = 256;
const END: u32 = u32::MAX;
/// In `before` of a slot that does not wait.
const ABSENT: u32 = u32::MAX - 1;
/// How far [`UrgencyQueue::ahead_of`] counts.
const COUNTED: u32 = 64;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    first: u32,
    last: u32,
    length: u32,
}

/// A queue of slots, each in it at most once. All operations but [`UrgencyQueue::ahead_of`] take the same few steps
/// however long it is.
#[derive(Debug)]
pub(crate) struct UrgencyQueue {
    links: Box<[Link]>,
    urgency: Box<[Urgency]>,
    levels: Box<[Level; LEVELS]>,
    /// A bit for each level that is not empty.
    occupied: [u64; LEVELS / 64],
    length: u32,
}

impl UrgencyQueue {
    pub(crate) fn new(slots: u32) -> Self {
        let link = Link {
            before: ABSENT,
            after: END,
        };
        let level = Level {
            first: END,
            last: END,
            length: 0,
        };
        Self {
            links: vec![link; slots as usize].into_boxed_slice(),
            urgency: vec![Urgency::BACKGROUND; slots as usize].into_boxed_slice(),
            levels: Box::new([level; LEVELS]),
            occupied: [0; LEVELS / 64],
            length: 0,
        }
    }

    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.links[slot.index()].before != ABSENT
    }

    /// Puts a slot that is not in the queue behind those as urgent.
    pub(crate) fn push(&mut self, slot: Slot, urgency: Urgency) {
        debug_assert!(!self.contains(slot), "{slot} waits already");
        let level = &mut self.levels[urgency.index()];
        self.links[slot.index()] = Link {
            before: level.last,
            after: END,
        };
        match level.last {
            END => level.first = slot.get(),
            last => self.links[last as usize].after = slot.get(),
        }
        level.last = slot.get();
        level.length += 1;
        self.urgency[slot.index()] = urgency;
        self.occupied[urgency.index() / 64] |= 1 << (urgency.index() % 64);
        self.length += 1;
    }

    /// Takes the most urgent slot.
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        let (word, bits) = self.occupied.iter().enumerate().rev().find(|(_, bits)| **bits != 0)?;
        let level = word * 64 + bits.ilog2() as usize;
        let slot = Slot::new(self.levels[level].first);
        self.remove(slot);
        Some(slot)
    }

    /// Takes a slot out; whether it was in.
    pub(crate) fn remove(&mut self, slot: Slot) -> bool {
        if !self.contains(slot) {
            return false;
        }
        let Link { before, after } = self.links[slot.index()];
        let at = self.urgency[slot.index()].index();
        let level = &mut self.levels[at];
        match before {
            END => level.first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            END => level.last = before,
            after => self.links[after as usize].before = before,
        }
        level.length -= 1;
        if level.length == 0 {
            self.occupied[at / 64] &= !(1 << (at % 64));
        }
        self.links[slot.index()].before = ABSENT;
        self.length -= 1;
        true
    }

    /// Makes a slot that waits more urgent, behind those that are so already; whether it changed anything.
    pub(crate) fn raise(&mut self, slot: Slot, urgency: Urgency) -> bool {
        let raised = self.contains(slot) && self.urgency[slot.index()] < urgency;
        if raised {
            self.remove(slot);
            self.push(slot, urgency);
        }
        raised
    }

    /// How many would be served before a slot that waits; of those as urgent, a few are counted and no more.
    pub(crate) fn ahead_of(&self, slot: Slot) -> u32 {
        let urgency = self.urgency[slot.index()];
        let more_urgent: u32 = self.levels[urgency.index() + 1..]
            .iter()
            .map(|level| level.length)
            .sum();
        let level = &self.levels[urgency.index()];
        if level.last == slot.get() {
            return more_urgent + level.length - 1;
        }
        let mut before = self.links[slot.index()].before;
        let mut counted = 0;
        while before != END && before != ABSENT && counted < COUNTED {
            counted += 1;
            before = self.links[before as usize].before;
        }
        more_urgent + counted
    }
}

#[cfg(test)]
mod tests {
    use super::UrgencyQueue;
    use crate::slots::Slot;
    use crate::store::Urgency;

    /// The obvious queue: a list searched through.
    #[derive(Default)]
    struct Naive(Vec<(u32, u8)>);

    impl Naive {
        fn best(&self) -> Option<usize> {
            let most = self.0.iter().map(|entry| entry.1).max()?;
            self.0.iter().position(|entry| entry.1 == most)
        }
    }

    fn slot(number: u32) -> Slot {
        Slot::new(number)
    }

    #[test]
    fn random_operations_agree_with_the_obvious_queue() {
        let mut state = 7_u64;
        let mut random = |bound: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            u32::try_from(state >> 33).unwrap() % bound
        };
        let (mut queue, mut naive) = (UrgencyQueue::new(16), Naive::default());
        for _ in 0..20_000 {
            let (number, level) = (random(16), u8::try_from(random(3) * 100).unwrap());
            let at = naive.0.iter().position(|entry| entry.0 == number);
            match random(4) {
                0 if at.is_none() => {
                    queue.push(slot(number), Urgency::new(level));
                    naive.0.push((number, level));
                }
                1 => {
                    let expected = naive.best().map(|at| slot(naive.0.remove(at).0));
                    assert_eq!(queue.pop(), expected);
                }
                2 => assert_eq!(queue.remove(slot(number)), at.map(|at| naive.0.remove(at)).is_some()),
                3 => {
                    let raised = at.filter(|&at| naive.0[at].1 < level).map(|at| naive.0.remove(at));
                    assert_eq!(queue.raise(slot(number), Urgency::new(level)), raised.is_some());
                    naive.0.extend(raised.map(|(number, _)| (number, level)));
                }
                _ => {}
            }
            assert_eq!(queue.length() as usize, naive.0.len());
            for (at, &(number, level)) in naive.0.iter().enumerate() {
                let before = naive.0[..at].iter().filter(|entry| entry.1 >= level).count();
                let after = naive.0[at..].iter().filter(|entry| entry.1 > level).count();
                assert_eq!(queue.ahead_of(slot(number)) as usize, before + after);
            }
        }
    }
}
