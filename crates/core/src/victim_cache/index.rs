//! Where a page is: open addressing with linear probing. Removal moves back what has probed past, so there are no
//! tombstones. Nothing iterates over it, so its order shows nowhere.

use super::node::{NONE, Nodes};
use alloc::vec::Vec;

/// Mixes a key: the multiplier of a 64-bit linear congruential generator, and the high half folded in.
pub(super) fn mix(key: u64) -> u64 {
    let product = key
        .wrapping_add(0x9e37_79b9_7f4a_7c15)
        .wrapping_mul(0xd134_2543_de82_ef95);
    product ^ (product >> 29)
}

/// A table of row numbers, at most half full.
#[derive(Debug)]
pub(super) struct HashTable {
    rows: Vec<u32>,
    mask: usize,
}

impl HashTable {
    /// Room for so many rows.
    pub(super) fn new(rows: u32) -> Option<Self> {
        let size = (rows as usize).checked_mul(2)?.next_power_of_two();
        let mut table = Vec::new();
        table.try_reserve_exact(size).ok()?;
        table.resize(size, NONE);
        Some(Self {
            rows: table,
            mask: size - 1,
        })
    }

    fn home(&self, hash: u64) -> usize {
        // The table has at most 2^25 places, and the mask cuts the rest off.
        #[allow(clippy::cast_possible_truncation, reason = "masked just behind")]
        let low = (hash >> 16) as usize;
        low & self.mask
    }

    /// The row with this hash that is the one wanted. O(1) expected.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            match self.rows[at] {
                NONE => return None,
                row if is_it(row) => return Some(row),
                _ => at = (at + 1) & self.mask,
            }
        }
    }

    pub(super) fn insert(&mut self, hash: u64, row: u32) {
        let mut at = self.home(hash);
        while self.rows[at] != NONE {
            at = (at + 1) & self.mask;
        }
        self.rows[at] = row;
    }

    /// Removes a row; `hash_of` gives the hash of any row that is in the table.
    pub(super) fn remove(&mut self, hash: u64, row: u32, hash_of: impl Fn(u32) -> u64) {
        let mut hole = self.home(hash);
        while self.rows[hole] != row {
            if self.rows[hole] == NONE {
                debug_assert!(false, "a row that is removed is in the table");
                return;
            }
            hole = (hole + 1) & self.mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let found = self.rows[at];
            if found == NONE {
                break;
            }
            // It may move into the hole unless its home lies behind the hole.
            let distance = at.wrapping_sub(self.home(hash_of(found))) & self.mask;
            if distance >= (at.wrapping_sub(hole) & self.mask) {
                self.rows[hole] = found;
                hole = at;
            }
        }
        self.rows[hole] = NONE;
    }
}

/// The hash of a page.
pub(super) fn page_hash(file: u32, page: u32) -> u64 {
    mix((u64::from(file) << 32) | u64::from(page))
}

/// The hash of the page that a frame's row names.
pub(super) fn row_hash(nodes: &Nodes, frame: u32) -> u64 {
    page_hash(nodes[frame].file, nodes[frame].page)
}
