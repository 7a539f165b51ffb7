//! Transfers that are under way, by record: those that are waited for, and those that had ended when they began.

use crate::engine::keys::ClientId;
use crate::settings::Settings;
use freehold_core::effect::Holder;
use freehold_core::fact::PageRef;
use freehold_core::id::ObjectId;
use freehold_core::units::Instant;
use freehold_driver::{HolderRow, Transfers as Table, WHEN_TOLD};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// What a transfer is for.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Transfer {
    /// The core wants a page.
    Fill { page: PageRef },
    /// The core wants a page away, for its holder.
    Evict { page: PageRef, holder: Holder },
    /// A page is read for a child: the child, the parent's object, the page.
    Inherited { fork_child: (ClientId, ObjectId, u32) },
}

/// All of them. Each pager thread has a queue of those whose ends it knows beforehand.
#[derive(Debug)]
pub(in crate::engine) struct Transfers {
    table: Table<Transfer>,
    /// Pages of each object that are being written.
    leaving: BTreeMap<ObjectId, u32>,
    /// Those that had ended when they began, to be finished in the same step: few, and nobody need look for them.
    ended: VecDeque<(u32, Transfer)>,
    /// Pages that the core wants and whose records are being read for a child, with their urgency: read when that has
    /// ended, also where the child has.
    awaiting: BTreeMap<u32, (PageRef, u8)>,
    /// Records whose transfers have ended.
    pub(in crate::engine) ready: VecDeque<u32>,
}

impl Transfers {
    /// None, by so many pager threads.
    pub(in crate::engine) fn new(settings: &Settings, pagers: usize) -> Self {
        let holders = usize::from(settings.tables.reservations) + 1;
        Self {
            table: Table::growing(settings.pages.get() as usize, pagers, holders),
            leaving: BTreeMap::new(),
            ended: VecDeque::new(),
            awaiting: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    pub(super) fn contains(&self, record: u32) -> bool {
        self.table.get(record).is_some() || self.ended.iter().any(|(ended, _)| *ended == record)
    }

    /// A transfer has begun, and ended.
    pub(super) fn enter_ended(&mut self, record: u32, what: Transfer) {
        self.ended.push_back((record, what));
    }

    /// A page is wanted that is being read for a child.
    pub(super) fn await_end(&mut self, record: u32, page: PageRef, urgency: u8) {
        self.awaiting.insert(record, (page, urgency));
    }

    /// The page that is to be read next from a record, and how urgently.
    pub(super) fn take_awaiting(&mut self, record: u32) -> Option<(PageRef, u8)> {
        self.awaiting.remove(&record)
    }

    /// One that had ended when it began, and what it was for; it has left.
    pub(in crate::engine) fn next_ended(&mut self) -> Option<(u32, Transfer)> {
        self.ended.pop_front()
    }

    /// A transfer has begun, by this pager thread; it ends when that is told, or is [expected](Self::expect).
    pub(super) fn enter(&mut self, record: u32, what: Transfer, urgency: u8, pager: usize) {
        let frees_for = match what {
            Transfer::Evict { holder, .. } => Some(HolderRow::from(holder)),
            Transfer::Fill { .. } | Transfer::Inherited { .. } => None,
        };
        let entered = self.table.insert(freehold_driver::Transfer {
            record,
            queue: pager,
            due: WHEN_TOLD,
            urgency,
            frees_for,
            what,
        });
        debug_assert!(entered, "a record had a transfer");
        if let Transfer::Evict { page, .. } = what {
            *self.leaving.entry(page.object()).or_default() += 1;
        }
    }

    /// A transfer has ended; what it was for.
    pub(super) fn leave(&mut self, record: u32) -> Option<Transfer> {
        let what = self.table.take(record)?.what;
        if let Transfer::Evict { page, .. } = what
            && let Entry::Occupied(mut count) = self.leaving.entry(page.object())
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(what)
    }

    /// What the transfer of a record is for.
    pub(in crate::engine) fn what(&self, record: u32) -> Option<Transfer> {
        self.table.get(record).map(|row| row.what)
    }

    /// Pages of an object that are being written: they are in frames until that has ended.
    pub(in crate::engine) fn leaving(&self, object: ObjectId) -> u32 {
        let waiting = self.leaving.get(&object).copied().unwrap_or(0);
        let writes =
            |(_, what): &&(u32, Transfer)| matches!(what, Transfer::Evict { page, .. } if page.object() == object);
        let ended = self.ended.iter().filter(writes).count();
        waiting.saturating_add(u32::try_from(ended).unwrap_or(u32::MAX))
    }

    /// The records of all, ascending. Allocates.
    pub(in crate::engine) fn records(&self) -> Vec<u32> {
        let mut records: Vec<u32> = self.table.iter().map(|row| row.record).collect();
        records.sort_unstable();
        records
    }

    /// A transfer is expected to end then, by this pager thread, and not when it was expected before.
    pub(super) fn expect(&mut self, record: u32, pager: usize, due: Instant) {
        self.table.expect(record, pager, due);
    }

    /// When the first of those ends that a pager thread expects.
    pub(super) fn next_due(&self, pager: usize) -> Option<Instant> {
        let due = self.table.first(pager)?.due;
        (due != WHEN_TOLD).then_some(due)
    }

    /// The first of those that a pager thread expects, if it is due by now; it is expected no more, and has not left.
    pub(super) fn next_expected(&mut self, pager: usize, now: Instant) -> Option<u32> {
        let record = self.table.first(pager).filter(|row| row.due <= now)?.record;
        self.table.expect(record, pager, WHEN_TOLD);
        Some(record)
    }

    /// Makes a transfer as urgent as this at least, and what awaits its end; whether it was less urgent, `None` where
    /// there is none.
    pub(in crate::engine) fn raise(&mut self, record: u32, urgency: u8) -> Option<bool> {
        if let Some((_, awaiting)) = self.awaiting.get_mut(&record) {
            *awaiting = (*awaiting).max(urgency);
        }
        self.table.raise(record, urgency)
    }

    /// The least urgent eviction for a holder, where it is less urgent than this.
    pub(in crate::engine) fn eviction_below(&self, holder: Holder, urgency: u8) -> Option<u32> {
        self.table.write_below(HolderRow::from(holder), urgency)
    }

    /// Pages that are being read for the core. O(transfers).
    pub(in crate::engine) fn fills(&self) -> usize {
        let waiting = self.table.iter().map(|row| &row.what);
        let all = waiting.chain(self.ended.iter().map(|(_, what)| what));
        all.filter(|what| matches!(what, Transfer::Fill { .. })).count() + self.awaiting.len()
    }
}
