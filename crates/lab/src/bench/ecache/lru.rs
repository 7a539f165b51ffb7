//! One LRU list as one writes it who needs nothing else: what a replay is compared with.
#![allow(
    clippy::disallowed_types,
    reason = "its hasher is fixed, and nothing goes round it in its order"
)]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const NONE: u32 = u32::MAX;

/// A multiplication: the keys are numbers.
#[derive(Default)]
pub(super) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[derive(Clone, Copy)]
struct Node {
    key: u64,
    newer: u32,
    older: u32,
}

/// At most so many keys, the least recently used one gone first.
pub(super) struct Lru {
    places: HashMap<u64, u32, BuildHasherDefault<Multiply>>,
    nodes: Vec<Node>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

impl Lru {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            places: HashMap::with_capacity_and_hasher(capacity, BuildHasherDefault::default()),
            nodes: Vec::with_capacity(capacity),
            newest: NONE,
            oldest: NONE,
            capacity,
        }
    }

    /// Uses a key; whether it was there.
    pub(super) fn touch(&mut self, key: u64) -> bool {
        if let Some(place) = self.places.get(&key).copied() {
            if place != self.newest {
                self.unlink(place);
                self.link(place);
            }
            return true;
        }
        let place = if self.nodes.len() < self.capacity {
            let place = u32::try_from(self.nodes.len()).unwrap_or(NONE);
            self.nodes.push(Node {
                key,
                newer: NONE,
                older: NONE,
            });
            place
        } else {
            let place = self.oldest;
            self.unlink(place);
            self.places.remove(&self.nodes[place as usize].key);
            self.nodes[place as usize].key = key;
            place
        };
        self.places.insert(key, place);
        self.link(place);
        false
    }

    fn unlink(&mut self, place: u32) {
        let Node { newer, older, .. } = self.nodes[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }

    fn link(&mut self, place: u32) {
        let older = self.newest;
        let node = &mut self.nodes[place as usize];
        (node.newer, node.older) = (NONE, older);
        match older {
            NONE => self.oldest = place,
            older => self.nodes[older as usize].newer = place,
        }
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use super::Lru;

    #[test]
    fn it_is_one_lru_list() {
        let (mut lru, mut model, mut random) = (Lru::new(5), Vec::new(), 1_u64);
        for _ in 0..2000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let key = random >> 61;
            let found = model.iter().position(|other| *other == key);
            assert_eq!(lru.touch(key), found.is_some());
            if let Some(place) = found {
                model.remove(place);
            }
            model.push(key);
            if model.len() > 5 {
                model.remove(0);
            }
        }
    }
}
