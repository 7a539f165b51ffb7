//! Where a store that is full looks for room: among records that nobody needs.

/// Records that one search gives up at most: it is repeated while the store has no room.
const BATCH: u32 = 64;

/// A search that has found nothing is repeated when at least this part of the records may have changed.
const WORTH_A_SEARCH: u64 = 1024;

/// Where the next search begins, so that all records have their turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordSearch {
    next: u32,
    /// How many changes there were when all records were looked at in vain.
    in_vain: Option<u64>,
}

impl RecordSearch {
    /// Looks at records until some were given up, or at all `count` of them; whether any was. `changes` grows with each
    /// record that may have become needless. O(records).
    pub fn search(&mut self, count: u32, changes: u64, mut give_up: impl FnMut(u32) -> bool) -> bool {
        let news = |then| changes.saturating_sub(then) > u64::from(count) / WORTH_A_SEARCH;
        if !self.in_vain.is_none_or(news) {
            return false;
        }
        let mut given_up = 0;
        for _ in 0..count {
            let record = self.next;
            self.next = (record + 1) % count;
            given_up += u32::from(give_up(record));
            if given_up == BATCH {
                break;
            }
        }
        self.in_vain = (given_up == 0).then_some(changes);
        given_up > 0
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH, RecordSearch};
    use std::collections::BTreeSet;

    #[test]
    fn all_have_their_turn_and_searches_in_vain_are_not_repeated_at_once() {
        let (mut search, mut needless) = (RecordSearch::default(), (0..4096).collect::<BTreeSet<u32>>());
        for round in 1..=64 {
            assert!(search.search(4096, 7, |record| needless.remove(&record)));
            assert_eq!(needless.len(), 4096 - round * BATCH as usize);
        }
        assert!(!search.search(4096, 7, |record| needless.remove(&record)));
        needless.insert(9);
        for changes in 7..12 {
            assert!(!search.search(4096, changes, |_| panic!("nothing is looked at")));
        }
        assert!(search.search(4096, 12, |record| needless.remove(&record)));
        assert!(!search.search(0, 99, |_| true));
    }
}
