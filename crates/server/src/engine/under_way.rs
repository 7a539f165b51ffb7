//! Transfers that are under way, by record, and the evictions among them by whose they are.

use crate::engine::keys::ClientId;
use freehold_core::effect::Holder;
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a transfer is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Transfer {
    /// The core wants a page.
    Fill { page: PageRef },
    /// The core wants a page away, for its holder.
    Evict { page: PageRef, holder: Holder },
    /// A page is read for a child: the child, the parent's object, the page.
    Inherited { heir: (ClientId, ObjectId, u32) },
}

#[derive(Clone, Copy, Debug)]
struct Row {
    what: Transfer,
    urgency: u8,
    due: Option<u64>,
}

/// All of them. Each look-up and change is O(log transfers), and O(those that have ended).
#[derive(Debug, Default)]
pub(super) struct Transfers {
    rows: BTreeMap<u32, Row>,
    /// For whom, how urgent, record.
    evictions: BTreeSet<(Holder, u8, u32)>,
    /// Pages of each object that are being written.
    leaving: BTreeMap<ObjectId, u32>,
    /// Those that had ended when they began, to be finished in the same step: few, and nobody need look for them.
    ended: VecDeque<(u32, Transfer)>,
}

impl Transfers {
    pub(super) fn contains(&self, record: u32) -> bool {
        self.rows.contains_key(&record) || self.ended.iter().any(|(ended, _)| *ended == record)
    }

    /// A transfer has begun, and ended.
    pub(super) fn enter_ended(&mut self, record: u32, what: Transfer) {
        self.ended.push_back((record, what));
    }

    /// One that had ended when it began, and what it was for; it has left.
    pub(super) fn next_ended(&mut self) -> Option<(u32, Transfer)> {
        self.ended.pop_front()
    }

    /// A transfer has begun.
    pub(super) fn enter(&mut self, record: u32, what: Transfer, urgency: u8) {
        let due = None;
        self.rows.insert(record, Row { what, urgency, due });
        if let Transfer::Evict { holder, page } = what {
            self.evictions.insert((holder, urgency, record));
            *self.leaving.entry(page.object()).or_default() += 1;
        }
    }

    /// A transfer has ended; what it was for.
    pub(super) fn leave(&mut self, record: u32) -> Option<Transfer> {
        let Row { what, urgency, .. } = self.rows.remove(&record)?;
        if let Transfer::Evict { holder, page } = what {
            self.evictions.remove(&(holder, urgency, record));
            if let Entry::Occupied(mut count) = self.leaving.entry(page.object()) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        Some(what)
    }

    /// What the transfer of a record is for.
    pub(super) fn what(&self, record: u32) -> Option<Transfer> {
        self.rows.get(&record).map(|row| row.what)
    }

    /// Pages of an object that are being written: they are in frames until that has ended.
    pub(super) fn leaving(&self, object: ObjectId) -> u32 {
        let waiting = self.leaving.get(&object).copied().unwrap_or(0);
        let writes =
            |(_, what): &&(u32, Transfer)| matches!(what, Transfer::Evict { page, .. } if page.object() == object);
        let ended = self.ended.iter().filter(writes).count();
        waiting.saturating_add(u32::try_from(ended).unwrap_or(u32::MAX))
    }

    /// The records of all.
    pub(super) fn records(&self) -> impl Iterator<Item = u32> {
        self.rows.keys().copied()
    }

    /// A transfer is expected to end then, and not when it was expected before.
    pub(super) fn expect(&mut self, record: u32, due: u64) {
        if let Some(row) = self.rows.get_mut(&record) {
            row.due = Some(due);
        }
    }

    /// Whether a transfer is expected to end then: it has not ended, nor is it expected at another time since.
    pub(super) fn is_expected(&self, record: u32, due: u64) -> bool {
        self.rows.get(&record).is_some_and(|row| row.due == Some(due))
    }

    /// Makes a transfer as urgent as this at least; whether it was less urgent, `None` where there is none.
    pub(super) fn raise(&mut self, record: u32, urgency: u8) -> Option<bool> {
        let row = self.rows.get_mut(&record)?;
        if row.urgency >= urgency {
            return Some(false);
        }
        let before = std::mem::replace(&mut row.urgency, urgency);
        if let Transfer::Evict { holder, .. } = row.what {
            self.evictions.remove(&(holder, before, record));
            self.evictions.insert((holder, urgency, record));
        }
        Some(true)
    }

    /// The least urgent eviction for a holder, where it is less urgent than this.
    pub(super) fn eviction_below(&self, holder: Holder, urgency: u8) -> Option<u32> {
        let mut less = self.evictions.range((holder, 0, 0)..(holder, urgency, 0));
        less.next().map(|(_, _, record)| *record)
    }

    /// Pages that are being read for the core. O(transfers).
    pub(super) fn fills(&self) -> usize {
        let waiting = self.rows.values().map(|row| &row.what);
        let all = waiting.chain(self.ended.iter().map(|(_, what)| what));
        all.filter(|what| matches!(what, Transfer::Fill { .. })).count()
    }
}
