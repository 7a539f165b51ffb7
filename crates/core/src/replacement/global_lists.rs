//! The global active and inactive lists, as paper 001 describes Linux's (section III.A).
//!
//! A page that is new, or comes from its store, enters the inactive list, or the active one if it comes back soon (see
//! `refault`). It becomes active when it is touched again. Reclamation takes pages from the tail of the inactive list,
//! and demotes active ones when those are too many, or when pages came back soon.
//!
//! Linux reads reference bits; here a fault on an unmapped page is its reference bit. So the inactive list has two
//! halves: *mapped* pages, which enter with their bit set by their first touch and stay mapped, and behind them those
//! whose bit was cleared by removing their mappings. A page that is touched in the second half is touched twice in
//! time: it becomes active. What reaches the tail untouched leaves.

use crate::effect::{Holder, Scope, UnmapReason};
use crate::index::{EntryIndex, HolderIndex};
use crate::limits::ObjectKind;
use crate::memory::{DEMOTION_BATCH, Memory};
use crate::pages::entry::{Marks, Place};
use crate::pages::page::PageMarks;
use crate::pinning::PinningPolicy;

/// One inactive page in so many has its reference bit cleared. In Linux a page passes through the list twice, once with
/// the bit of its first touch and once without; here the two halves lie behind each other.
const CLEARED_SHARE: u32 = 2;
/// Frames that may be free for each reference bit that is still to be cleared before none is: then one bit, about, is
/// cleared for each frame that is taken, from when half of them are.
const FREE_PER_CLEARED: i64 = 2;
/// Pages of a GiB, the unit of Linux's ratio of active to inactive pages (`inactive_is_low`).
const GIB_PAGES: u32 = 1 << 18;

/// What one scan has taken from the lists.
#[derive(Default)]
struct Taken {
    /// Evicted pages have come back soon since the last scan: a new working set is being built up, and the active list
    /// is looked at for what has gone out of use, as Linux does (`WORKINGSET_ACTIVATE` in `shrink_node`).
    returns: bool,
    active: u32,
    inactive_mapped: u32,
}

impl Taken {
    fn count(&mut self, active: bool) {
        *(if active {
            &mut self.active
        } else {
            &mut self.inactive_mapped
        }) += 1;
    }

    /// Both lists are scanned in proportion to their lengths.
    fn is_actives_turn(&self, active: u32, inactive_mapped: u32) -> bool {
        let parts = |taken: u32, of: u32| u64::from(taken) * u64::from(of);
        self.returns && parts(self.active, inactive_mapped) <= parts(self.inactive_mapped, active)
    }
}

impl Memory {
    /// A page of the pool has arrived: of a task whose pages are all pinned it is so at once. Beyond the paper, also
    /// one that comes back to a pool that restores, as long as its capacity lasts: somebody waits for it, or is about
    /// to.
    pub(crate) fn pin_on_arrival(&mut self, index: EntryIndex) {
        let page = self.entries[index].page;
        let pinner = self.pinner(page);
        let Some(pool) = self.pinned.slots.at(pinner.slot()) else {
            return;
        };
        let at_once = match pool.settings.policy {
            PinningPolicy::All => true,
            PinningPolicy::Freehold => pool.len() < pool.capacity.get(),
            PinningPolicy::Adaptive => {
                // Of a file every page has content somewhere, also one that nobody has read yet.
                let comes_back =
                    self.pages[page].marks.has(PageMarks::STORED) && self.object_of(page).kind != ObjectKind::File;
                comes_back && pool.settings.restores() && pool.len() < pool.capacity.get()
            }
        };
        let adapts = pool.is_adaptive();
        if at_once {
            self.find_room_to_pin();
            // Nothing is unpinned for it.
            if !adapts || self.pinned.len() < self.pinned.room {
                self.pin(index);
            } else if let Some(pool) = self.pinned.get_mut(pinner) {
                pool.trial.short = true;
            }
        }
    }

    /// How many pages of the inactive list ought to have their reference bit cleared.
    fn cleared_wanted(&self) -> u32 {
        (self.pool().lists.unused() / CLEARED_SHARE).max(self.eviction_batch(HolderIndex::POOL))
    }

    /// Beyond the paper, where a pool restores: frames become few, so many, and bits are cleared before a page has to
    /// leave. Otherwise the first pages to lose theirs leave at once, in use or not, and which ones nobody can know who
    /// restores. At most one batch for each fault, and where no frames are taken nothing is cleared.
    pub(crate) fn clear_before_need(&mut self, free: i64) {
        if self.pinned.restoring == 0 {
            return;
        }
        let lacking = i64::from(self.cleared_wanted()) - i64::from(self.pool().lists.inactive().len());
        let due = lacking - free.max(0) / FREE_PER_CLEARED;
        if due >= i64::from(DEMOTION_BATCH) && self.room_for_batch() {
            self.scan_global_lists();
        }
    }

    /// How many pages leave in this batch. While too few bits are cleared only half as many as a scan clears at most:
    /// else each page would leave as soon as its bit is cleared, and none could prove that it is used.
    pub(crate) fn victims_now(&self, holder: HolderIndex) -> u32 {
        let batch = self.eviction_batch(holder);
        if self.policy(holder).uses_global_lists() && self.pool().lists.inactive().len() < self.cleared_wanted() {
            batch.min(DEMOTION_BATCH / 2)
        } else {
            batch
        }
    }

    /// Clears reference bits from the tail of the lists until enough of the inactive pages have none, at most
    /// [`DEMOTION_BATCH`] of them. Pages that would leave the active list so, and belong to a soft-real-time task, are
    /// pinned instead.
    pub(crate) fn scan_global_lists(&mut self) {
        self.pinned.balanced = 0;
        self.find_room_to_pin();
        self.trim_next_pool();
        self.try_pages();
        if self.pool().lists.listed_pages() == 0 {
            self.unpin_in_need();
        }
        let (mut cleared, mut pinned) = (0, 0);
        let mut taken = Taken {
            returns: core::mem::take(&mut self.reclaim.refaults.activated),
            ..Taken::default()
        };
        while cleared < DEMOTION_BATCH {
            let account = self.pool();
            let mapped = account.lists.active_pages() + account.lists.inactive_mapped_pages();
            if mapped == 0 || account.lists.inactive().len() >= self.cleared_wanted() {
                return;
            }
            let starving = pinned >= DEMOTION_BATCH && account.lists.inactive().len() == 0;
            let Some((index, was_active)) = self.next_to_clear(starving, &taken) else {
                return;
            };
            taken.count(was_active);
            if !self.entries[index].marks.has(Marks::SETTLED) {
                // Still on its way in: as good as referenced.
                let place = self.entries[index].place;
                self.relink(index, place);
            } else if was_active && !starving && self.pin(index) {
                pinned += 1;
                if pinned >= DEMOTION_BATCH && self.pool().lists.inactive().len() > 0 {
                    return;
                }
            } else {
                cleared += 1;
                self.relink(index, Place::Inactive);
                let page = self.entries[index].page;
                self.emit_unmap(page, Scope::Of(Holder::Pool), UnmapReason::Demotion);
            }
        }
    }

    /// The page whose reference bit goes next, and whether it is an active one.
    fn next_to_clear(&self, starving: bool, taken: &Taken) -> Option<(EntryIndex, bool)> {
        let account = self.pool();
        let shrinks = Self::inactive_is_low(account.lists.active().len(), account.lists.unused())
            || taken.is_actives_turn(account.lists.active().len(), account.lists.inactive_mapped().len());
        // Pages that could not leave are active now. Were the balance kept they would be tried over and over; so what
        // has not been tried goes first, until something has left.
        let untried = account.kept == 0;
        let from_active = account.lists.inactive_mapped_pages() == 0
            || (!starving && account.lists.active_pages() > 0 && shrinks && untried);
        let list = if from_active {
            account.lists.active()
        } else {
            account.lists.inactive_mapped()
        };
        list.first().map(|index| (index, from_active))
    }

    /// Linux's `inactive_is_low`: up to a GiB the lists are to be equally long, beyond that the active one longer by
    /// the square root of ten times the size in GiB.
    fn inactive_is_low(active: u32, inactive: u32) -> bool {
        let gib = (active.saturating_add(inactive)) / GIB_PAGES;
        let ratio = if gib == 0 { 1 } else { (10 * u64::from(gib)).isqrt() };
        u64::from(inactive) * ratio < u64::from(active)
    }
}
